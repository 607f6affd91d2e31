"""Connections, namespaces, RBAC and the rules of contracts/iii-bus.md §14.3
through the Python client."""

import asyncio
import uuid

from websockets.exceptions import ConnectionClosed

from rows import RBAC, WAIT_SECONDS, bound, call, equal, functions, has, raises, row, stop, until


@row("14.3 rule 1", "the client's metadata, sent last and with nulls, is taken")
def _(t):
    worker = t.worker("w")
    worker.register_function(t.id("f"), lambda _: 1)
    has(worker, t.id("f"))
    until("the owner", lambda: functions(worker, prefix=t.id("f"))[0]["worker_name"] == f"{t.prefix}-w")


@row("14.3 rule 3", "_caller_worker_id names the caller")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("who"), lambda data: data["_caller_worker_id"])
    has(client, t.id("who"))
    equal(call(client, t.id("who"), {"_caller_worker_id": "forged"}), client.worker_id)


@row("14.3 rule 4", "unregistered functions and triggers are gone, without errors")
def _(t):
    worker = t.worker("w")
    ref = worker.register_function(t.id("f"), lambda _: 1)
    trigger = worker.register_trigger({"type": "subscribe", "function_id": t.id("f"), "config": {"topic": "x"}})
    bound(worker, t.id("f"))
    trigger.unregister()
    bound(worker, t.id("f"), 0)
    ref.unregister()
    until("the function to be gone", lambda: not functions(worker, prefix=t.id("f")))


@row("14.3 rule 6", "a client whose socket breaks comes back under its name")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("f"), lambda _: "back")
    server.register_trigger({"type": "subscribe", "function_id": t.id("f"), "config": {"topic": "x"}})
    bound(client, t.id("f"))
    before = server.worker_id
    # Not a clean Close: 0.22.1 never reconnects after one.
    server._loop.call_soon_threadsafe(server._ws.transport.abort)
    until("a new connection", lambda: server.worker_id != before and server.get_connection_state() == "connected")
    bound(client, t.id("f"))
    equal(call(client, t.id("f")), "back")


@row("14.3 rule 8", "no value is None, and falsy values are kept")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("echo"), lambda data: data.get("v"))
    has(client, t.id("echo"))
    for value in (None, 0, False, "", [], {}):
        equal(call(client, t.id("echo"), {"v": value}), value)


@row("1.3 sizes", "half a MiB goes both ways")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("echo"), lambda data: data["text"])
    has(client, t.id("echo"))
    text = "x" * (512 << 10)
    equal(call(client, t.id("echo"), {"text": text}) == text, True)


@row("5.1 timeout", "a caller's own timeout ends its wait, and later calls work")
def _(t):
    async def slow(data):
        await asyncio.sleep(data["seconds"])
        return "done"

    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("slow"), slow)
    has(client, t.id("slow"))
    raises("TIMEOUT", lambda: call(client, t.id("slow"), {"seconds": 0.5}, timeout_ms=50))
    equal(call(client, t.id("slow"), {"seconds": 0}), "done")


@row("2.12 function conflict", "the incumbent keeps its function")
def _(t):
    first, second, client = t.worker("first"), t.worker("second"), t.worker("client")
    first.register_function(t.id("f"), lambda _: "first")
    has(client, t.id("f"))
    second.register_function(t.id("f"), lambda _: "second")
    second.register_function(t.id("later"), lambda _: "later")
    has(client, t.id("later"))
    equal(call(client, t.id("f")), "first")


@row("3.2 namespaces", "a function of another namespace is not found in default")
def _(t):
    inside = t.raw()
    inside.send({"type": "invokefunction", "function_id": "engine::workers::register", "action": {"type": "void"},
                 "data": {"name": "inside", "namespace": t.id("space"), "pid": 7}})
    inside.send({"type": "registerfunction", "id": t.id("f")})
    client = t.worker("client")
    until("the function", lambda: any(f["namespace"] == t.id("space") for f in functions(client, prefix=t.id("f"))))
    raises("function_not_found", lambda: call(client, t.id("f")))


def _trust(t, grants):
    """Serves the auth function of the restricted listener for this row."""
    trusted = t.worker("trusted")

    def decide(handshake):
        if handshake["headers"].get("authorization") != f"Bearer {t.prefix}":
            raise PermissionError("token rejected")
        return grants

    trusted.register_function("conformance::auth", decide)
    for hook in ("on-function", "on-trigger", "on-type"):
        trusted.register_function(f"conformance::{hook}", lambda _: {})
    has(trusted, "conformance::on-type")
    return trusted


def _withdraw(t, trusted):
    """Frees the names of the listeners' functions for the next row."""
    watcher = t.worker("watcher")
    stop(trusted)
    until("the auth function to be gone", lambda: not functions(watcher, prefix="conformance::"))


@row("14.2 rbac-workers 3", "a token in a header opens what the auth function allows")
def _(t):
    trusted = _trust(t, {"allowed_functions": [t.id("yes")], "function_registration_prefix": t.id("tenant")})
    trusted.register_function(t.id("yes"), lambda _: "yes")
    trusted.register_function(t.id("no"), lambda _: "no")
    has(trusted, t.id("no"))
    guest = t.worker("guest", RBAC, headers={"Authorization": f"Bearer {t.prefix}"})
    equal(call(guest, t.id("yes")), "yes")
    raises("FORBIDDEN", lambda: call(guest, t.id("no")))
    guest.register_function("work", lambda _: "prefixed")
    has(trusted, f"{t.id('tenant')}::work")
    equal(call(trusted, f"{t.id('tenant')}::work"), "prefixed")
    stop(guest)
    _withdraw(t, trusted)


@row("14.2 rbac-workers 2", "a wrong token is AUTH_ERROR and the end")
def _(t):
    trusted = _trust(t, {})
    refused = t.raw(f"{RBAC}?token={uuid.uuid4()}")
    frame = refused.next("error")
    equal(frame["error"]["code"], "AUTH_ERROR")
    try:
        refused.socket.recv(timeout=WAIT_SECONDS)
    except ConnectionClosed:
        _withdraw(t, trusted)
        return
    raise AssertionError("the connection stays open")
