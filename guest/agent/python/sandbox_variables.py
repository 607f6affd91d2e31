"""The part of the environment that is a call's own, such as TRACEPARENT: it comes
with the call, as the process was started before."""

import os


def set_all(variables):
    """Sets a call's variables."""
    os.environ.update(variables)


class Kept:
    """Sets them for calls that share the process: what one call was given is not
    there at the next."""

    def __init__(self):
        self._before = {}

    def set_all(self, variables):
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
