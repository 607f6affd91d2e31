"""Errors in the form that both languages share: {kind, type, message, stack, line}."""

_MAX_STACK = 8192


def describe(kind, error, source):
    """Describes an exception; `source` is the path of the guest's file."""
    import traceback

    trace = error.__traceback__
    failure = {
        "kind": kind,
        "type": type(error).__name__,
        "message": _text(error),
        "stack": "".join(traceback.format_exception(type(error), error, without_host(trace)))[-_MAX_STACK:],
    }
    line = _line(error, trace, source)
    if line:
        failure["line"] = line
    return failure


def without_host(trace):
    """Skips the leading frames of the host, which are none of the guest's."""
    while trace and "sandbox_host" in trace.tb_frame.f_globals:
        trace = trace.tb_next
    while trace and trace.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        trace = trace.tb_next
    return trace


def _line(error, trace, source):
    if isinstance(error, SyntaxError) and error.filename == source:
        return error.lineno or 0
    line = 0
    while trace:
        if trace.tb_frame.f_code.co_filename == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _text(error):
    try:
        return str(error)
    except Exception:
        return "an exception without text form"
