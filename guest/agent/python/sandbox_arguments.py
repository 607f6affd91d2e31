"""What a handler is called with: the payload, and the context if it asks."""

_CONTEXT_NAMES = ("context", "ctx", "_context", "_ctx")


def of(handler, payload, context):
    """Passes the context only to a handler that asks for it: by a second
    parameter without default, or by one called context. One that takes *args
    gets the payload alone, as it may pass them on to a function of one."""
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
