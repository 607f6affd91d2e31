"""What only clients since 0.23 do: namespaces, rejections and messages in
fragments (contracts/iii-bus.md §13)."""

from iii import RegistrationRejectedError

from rows import call, equal, functions, has, raises, row, until


@row("3.2 namespaces client", "a worker's namespace holds its functions and its calls")
def _(t):
    space = t.id("space")
    server, inside, outside = t.worker("server", namespace=space), t.worker("inside", namespace=space), t.worker("outside")
    server.register_function(t.id("f"), lambda _: "inside")
    has(outside, t.id("f"))
    equal([f["namespace"] for f in functions(outside, prefix=t.id("f"))], [space])
    equal(call(inside, t.id("f")), "inside")
    equal(call(outside, t.id("f"), namespace=space), "inside")
    raises("function_not_found", lambda: call(outside, t.id("f")))


@row("2.12 name conflict client", "a taken name is fatal to the newcomer and nothing to the incumbent")
def _(t):
    incumbent = t.worker("twin")
    incumbent.register_function(t.id("f"), lambda _: "first")
    has(incumbent, t.id("f"))
    twin = t.start("twin")
    until("the rejection", lambda: isinstance(twin._fatal_error, RegistrationRejectedError))
    equal((twin._fatal_error.code, twin._fatal_error.worker_name), ("WORKER_NAMESPACE_CONFLICT", f"{t.prefix}-twin"))
    equal(twin._fatal_error.owner_worker_id, incumbent.worker_id)
    equal(call(incumbent, t.id("f")), "first")


@row("1.3 fragments", "a message of 20 MiB goes both ways, sent in fragments")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("echo"), lambda data: data["text"])
    has(client, t.id("echo"))
    text = "x" * (20 << 20)
    equal(call(client, t.id("echo"), {"text": text}) == text, True)
