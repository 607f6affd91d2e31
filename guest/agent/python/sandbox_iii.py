"""The lazy global `iii` (contracts/code-runner.md §13): reading, printing and
probing it never connects; calling one of its methods does."""

import builtins
import os
import sys
import time
from _thread import RLock  # threading costs half a millisecond

from . import sandbox_bus, sandbox_sdk

_HINT = "<lazy iii-sdk client: connects to the bus when one of its methods is called>"
# What every version of the SDK's client offers; other names are looked up in
# the installed SDK, which means importing it but never connecting.
_METHODS = frozenset((
    "trigger", "trigger_async", "register_function", "register_trigger",
    "register_trigger_type", "unregister_trigger_type", "shutdown", "shutdown_async",
))
# Used by create_channel and create_stream of iii.helpers.
_INTERNAL_PREFIX = "_helpers_"
_DEFAULT_TIMEOUT_MS = 30_000
# An inner call ends this share of the whole time before the deadline, within the
# bounds, so that its error can still be handled and the answer be sent.
_MIN_MARGIN_MS = 200
_MAX_MARGIN_MS = 5_000
_MARGIN_SHARE = 0.2
_INSTALL_MS = 120_000

_lock = RLock()
_client = None
_deadline_ms = None
_margin_ms = 0


def install():
    """Makes `iii` a builtin."""
    builtins.iii = _Lazy()
    os.register_at_fork(after_in_child=_forget)


def set_deadline(deadline_ms):
    """Bounds the calls made through `iii`: Unix time in ms; None leaves them."""
    global _deadline_ms, _margin_ms
    _deadline_ms = deadline_ms
    if deadline_ms:
        share = int((deadline_ms - time.time() * 1000) * _MARGIN_SHARE)
        _margin_ms = min(max(share, _MIN_MARGIN_MS), _MAX_MARGIN_MS)


def preload(source):
    """Imports the SDK ahead of the first use of `iii`, in a process that waits for
    calls: the import takes many times as long as a call. Only for sources that seem
    to use it, which is told by the name. It is neither installed nor connected."""
    try:
        if _names_sdk(source):
            sandbox_sdk.load()
    except BaseException:
        pass  # whoever uses it is told


def _names_sdk(source):
    with open(source, "rb") as file:
        text = file.read()
    if b"iii" not in text:
        return False
    import re  # costs some milliseconds

    return re.search(rb"\biii\b", text) is not None


def _forget():
    """A forked child has the client's memory but not its thread and connection."""
    global _client, _lock
    _client, _lock = None, RLock()


class _Lazy:
    __slots__ = ()

    def __repr__(self):
        return repr(_client) if _client else _HINT

    def __dir__(self):
        return dir(_client) if _client else []

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("the iii client cannot be pickled")

    def __getattr__(self, name):
        if name.startswith("_") and not name.startswith(_INTERNAL_PREFIX):
            raise AttributeError(f"the iii client has no attribute {name!r}")
        if _client is not None and name not in ("trigger", "trigger_async"):
            return getattr(_client, name)
        if name in _METHODS or callable(_look_up(name)):
            return _deferred(name)
        return None  # what a client knows only once it is connected


def _look_up(name):
    try:
        client = sandbox_sdk.submodule("iii").III
    except RuntimeError:
        raise AttributeError(f"the iii client has no attribute {name!r}") from None
    return getattr(client, name)


def _deferred(name):
    if name == "shutdown" and _client is None:
        return lambda: None

    def method(*args, **kwargs):
        bound = getattr(_connect(), name)
        if name in ("trigger", "trigger_async") and args:
            args = (_clamp(args[0]), *args[1:])
        return bound(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _clamp(request):
    """An inner call must end before the call or run it is part of."""
    read = request.get if isinstance(request, dict) else lambda name: getattr(request, name, None)
    if read("action"):
        return request
    timeout = {"timeout_ms": _remaining_ms(read("timeout_ms") or _DEFAULT_TIMEOUT_MS)}
    if isinstance(request, dict):
        return {**request, **timeout}
    return request.model_copy(update=timeout) if hasattr(request, "model_copy") else request


def _remaining_ms(wanted):
    if not _deadline_ms:
        return wanted
    return max(1, min(wanted, int(_deadline_ms - time.time() * 1000) - _margin_ms))


def _connect():
    global _client
    with _lock:
        if _client is None:
            url, headers = sandbox_bus.address()
            if not url:
                raise RuntimeError("III_URL is not set: this runtime has no access to the bus")
            sdk = sandbox_sdk.load(_remaining_ms(_INSTALL_MS) / 1000)
            given = os.environ.get("III_WORKER_NAME")
            name = _unique(given)
            _client = sdk.register_worker(url, sdk.InitOptions(
                headers=headers,
                worker_name=name,
                enable_metrics_reporting=False,
                invocation_timeout_ms=_remaining_ms(_DEFAULT_TIMEOUT_MS),
                otel={"enabled": False},
            ))
            if name:
                _introduce(_client, given, name)
        return _client


def _introduce(client, given, name):
    """The engine names the caller in payloads that are objects only. The baggage
    does so for others, so that a call that would wait for its own caller is found
    out (contracts/code-runner.md §19.1, W2). It reaches into the client for want of
    an option; another version may lack the method, and then only that is missing.
    In a process that calls share, each call has a name of its own and the client the
    first."""
    from urllib.parse import quote

    inject = getattr(client, "_inject_baggage", None)
    if inject is None:
        return
    def member():
        now = os.environ.get("III_WORKER_NAME")
        return f"sandbox-worker={quote(now if now and now != given else name, safe='')}"

    client._inject_baggage = lambda: ",".join(filter(None, (inject(), member())))


def _unique(name):
    """The engine refuses a second worker of one name, and two processes of one
    function may run at the same time (contracts/code-runner.md §19.3, X25)."""
    return name and f"{name}:{os.urandom(4).hex()}"


def is_client_thread(thread):
    """Whether a thread is the SDK's own, which never ends before shutdown."""
    return _client is not None and thread is getattr(_client, "_thread", None)


def shutdown(limit_seconds):
    """Closes the client, if there is one; false if that takes longer."""
    if _client is None:
        return True
    import threading

    closing = threading.Thread(target=_close, daemon=True)
    closing.start()
    closing.join(limit_seconds)
    return not closing.is_alive()


def _close():
    try:
        _client.shutdown()
    except Exception as error:
        print(f"[iii] shutdown: {error}", file=sys.stderr)
