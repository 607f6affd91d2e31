"""Runs a program as if it had been started directly: request on descriptor 3,
frames on 4."""

import atexit
import os
import sys
import threading

from . import sandbox_channel as channel
from . import sandbox_iii, sandbox_json, sandbox_path
from .sandbox_failure import without_host

sandbox_host = True

_SHUTDOWN_SECONDS = 3.0


def main():
    envelope, _ = channel.receive()
    source = envelope["source"]
    sandbox_path.prepare(source)
    sandbox_iii.install()
    sandbox_iii.set_deadline((envelope.get("context") or {}).get("deadline_ms"))
    del sys.argv[0]
    # What is registered first is called last.
    atexit.register(_say_done, os.getpid())
    # A program that is killed at its deadline keeps what it printed so far.
    sys.stdout.reconfigure(line_buffering=True)
    ended = None
    try:
        _execute(source)
    except BaseException as error:
        ended = error
    if ended is None or isinstance(ended, SystemExit):
        _send_result(sys.modules["__main__"])
    else:
        _report(ended)
        ended = SystemExit(1)
    _finish(ended)
    if ended is not None:
        raise ended.with_traceback(None)


def _say_done(process):
    """A forked child's end is not the program's."""
    if os.getpid() == process:
        channel.send_done()


def _execute(source):
    """Runs the file as the main module."""
    import builtins
    from types import ModuleType

    module = ModuleType("__main__")
    module.__file__ = source
    module.__builtins__ = builtins
    module.__spec__ = None
    sys.modules["__main__"] = module
    with open(source, "rb") as file:
        text = file.read()
    exec(compile(text, source, "exec"), module.__dict__)


def _send_result(module):
    try:
        channel.send_result(sandbox_json.encode(getattr(module, "result", None)))
    except Exception as error:
        channel.send_failure({"kind": "NotSerializable", "type": type(error).__name__, "message": str(error)})


def _report(error):
    """Prints an uncaught error the way the interpreter does."""
    error.__traceback__ = without_host(error.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def _finish(ended):
    """Waits for the program's own threads, then closes the client. One that does
    not close in time must not keep the process, which waits for its thread."""
    for thread in threading.enumerate():
        own = thread is threading.main_thread() or sandbox_iii.is_client_thread(thread)
        if not own and not thread.daemon:
            thread.join()
    if not sandbox_iii.shutdown(_SHUTDOWN_SECONDS):
        code = getattr(ended, "code", None)
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)
