"""Calls one handler: python3 call.py, request on descriptor 3, frames on 4.
In mode "check" it stops after making sure that there is a handler."""

import sys

import sandbox_channel as channel
import sandbox_iii
import sandbox_json
import sandbox_path
from sandbox_failure import describe

sandbox_host = True

_SHUTDOWN_SECONDS = 2.0
_MODULE = "sandbox_handler"
_CONTEXT_NAMES = ("context", "ctx", "_context", "_ctx")


def main():
    envelope, payload = channel.receive()
    source = envelope["source"]
    sandbox_path.prepare(source)
    context = envelope.get("context") or {}
    sandbox_iii.install(context.get("deadline_ms"))
    handler = _load(source, envelope["handler"])
    if handler is not None:
        if envelope.get("mode") == "check":
            channel.send_result("null")
        else:
            _call(handler, source, payload, context)
    _flush()
    sandbox_iii.shutdown(_SHUTDOWN_SECONDS)
    _flush()
    channel.send_done()


def _load(source, name):
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


def _call(handler, source, payload, context):
    try:
        value = _invoke(handler, sandbox_json.decode(payload), context)
    except BaseException as error:
        return _fail("Thrown", error, source)
    try:
        channel.send_result(sandbox_json.encode(value))
    except BaseException as error:
        _fail("NotSerializable", error, source)


def _invoke(handler, payload, context):
    args, kwargs = _arguments(handler, payload, context)
    value = handler(*args, **kwargs)
    if hasattr(value, "__await__"):
        import asyncio

        return asyncio.run(_await(value))
    return value


async def _await(value):
    return await value


def _arguments(handler, payload, context):
    """Passes the context only to a handler that asks for it: by a second
    parameter without default, or by one called context."""
    names, required, keyword_only = _parameters(handler)
    if len(names) > 1 and (required > 1 or names[1] in _CONTEXT_NAMES):
        return (payload, context), {}
    wanted = [name for name in _CONTEXT_NAMES if name in keyword_only]
    return (payload,), {name: context for name in wanted}


def _parameters(handler):
    """Names of the positional parameters, how many lack a default, and the
    keyword-only names. Plain functions are read without inspect."""
    if type(handler) is type(_parameters) and not hasattr(handler, "__wrapped__"):
        code = handler.__code__
        names = code.co_varnames[:code.co_argcount]
        required = len(names) - len(handler.__defaults__ or ())
        return names, required, code.co_varnames[code.co_argcount:code.co_argcount + code.co_kwonlyargcount]
    import inspect

    try:
        found = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return (), 0, ()
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    keyword_only = [p.name for p in found if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in positional], required, keyword_only


def _fail(kind, error, source):
    channel.send_failure(describe(kind, error, source))


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


main()
