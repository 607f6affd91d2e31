"""Fresh randomness in a fork: the generators that the source's loading has left
would give every call the same numbers."""

import os
import sys


def refresh():
    """Seeds what is loaded and keeps a state of its own; what asks the kernel each
    time, as secrets and uuid4 do, needs nothing."""
    modules = sys.modules
    for name, reseed in (("random", _random), ("numpy.random", _numpy), ("ssl", _ssl), ("uuid", _uuid)):
        module = modules.get(name)
        if module is None:
            continue
        try:
            reseed(module)
        except Exception:
            pass  # a module of the guest's own by that name, or one it has changed


def _random(module):
    module.seed()


def _numpy(module):
    module.seed()


def _ssl(module):
    module.RAND_add(os.urandom(32), 32.0)


def _uuid(module):
    module._last_timestamp = None
