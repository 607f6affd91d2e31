"""Loads a handler and calls it. The two are apart, so that a process may load
first and be called later; whatever goes wrong is sent as the one failure."""

import sys

from . import sandbox_arguments, sandbox_json, sandbox_streams
from . import sandbox_channel as channel
from .sandbox_failure import describe

sandbox_host = True

_MODULE = "sandbox_handler"
_CLOSE_SECONDS = 2.0


def load(source, name):
    """Runs the source as a module and returns its handler; None after a failure."""
    from types import ModuleType

    module = ModuleType(_MODULE)
    module.__file__ = source
    sys.modules[_MODULE] = module
    try:
        with open(source, "rb") as file:
            exec(compile(file.read(), source, "exec"), module.__dict__)
    except BaseException as error:
        return _fail("LoadFailed", error, source)
    handler = getattr(module, name, None)
    if callable(handler):
        return handler
    what = "is not callable" if hasattr(module, name) else "is not defined"
    return channel.send_failure({
        "kind": "HandlerMissing",
        "type": "TypeError",
        "message": f"{name} {what}: the source must define a function {name}(payload)",
    })


def call(handler, source, payload, context, run=None):
    """Calls the handler and sends its result or failure. `run` runs a coroutine to
    its end; asyncio.run unless it is given."""
    try:
        argument = sandbox_streams.open_references(sandbox_json.decode(payload), payload)
        args, kwargs = sandbox_arguments.of(handler, argument, context)
        value = handler(*args, **kwargs)
        if hasattr(value, "__await__"):
            import asyncio

            (run or asyncio.run)(_settle(value, source))
        else:
            _deliver(value, source)
    except BaseException as error:
        _fail("Thrown", error, source)


async def _settle(awaitable, source):
    """The result goes out before what the handler has left running on this loop
    is waited for, and that only for its channels."""
    _deliver(await awaitable, source)
    await sandbox_streams.finish(_CLOSE_SECONDS)


def _deliver(value, source):
    try:
        channel.send_result(sandbox_json.encode(value))
    except BaseException as error:
        _fail("NotSerializable", error, source)


def _fail(kind, error, source):
    channel.send_failure(describe(kind, error, source))
