"""The core of contracts/iii-bus.md §14.1 and §14.2 through the Python client."""

import asyncio
import json
from importlib.metadata import version

from iii import TriggerAction
from iii.helpers import create_channel
from iii.triggers import TriggerHandler

from rows import Later, bound, call, equal, fetch, functions, has, raises, row, stop, triggers, until


@row("14.1 TestConnectSuccessfully", "a worker connects and lists functions")
def _(t):
    equal(isinstance(functions(t.worker("w")), list), True)


@row("14.1 TestRegisterAndInvokeFunction", "a registered function answers a call")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("double"), lambda data: {"n": 2 * data["n"]})
    has(client, t.id("double"))
    equal(call(client, t.id("double"), {"n": 21}), {"n": 42})


@row("14.1 TestInvokeFireAndForget", "a void call arrives and answers nothing")
def _(t):
    server, client, got = t.worker("server"), t.worker("client"), Later()
    server.register_function(t.id("note"), lambda data: got.give(data["n"]))
    has(client, t.id("note"))
    equal(call(client, t.id("note"), {"n": 5}, action=TriggerAction.Void()), None)
    equal(got.wait("the call"), 5)


@row("14.1 TestHandlerErrorSurfacesAsInvocationError", "a failed handler is an error of code invocation_failed")
def _(t):
    def fail(_):
        raise ValueError("out of stock")

    server = t.worker("server")
    server.register_function(t.id("fail"), fail)
    has(server, t.id("fail"))
    error = raises("invocation_failed", lambda: call(t.worker("client"), t.id("fail")))
    equal("out of stock" in str(error), True)


@row("14.1 TestInvokeUnknownFunctionErrors", "an unknown function is function_not_found")
def _(t):
    raises("function_not_found", lambda: call(t.worker("w"), t.id("absent")))


@row("14.1 TestRegisterTriggerUnknownType", "a trigger of an unknown type parks and harms nothing")
def _(t):
    server = t.worker("server")
    server.register_function(t.id("f"), lambda _: "here")
    server.register_trigger({"type": t.id("unknown"), "function_id": t.id("f"), "config": {}})
    has(server, t.id("f"))
    equal(call(server, t.id("f")), "here")
    equal(triggers(server, function_id=t.id("f")), [])


@row("14.1 TestWorkerRegistersWithGoRuntime", "a worker is listed with what it says of itself")
def _(t):
    client = t.worker("me", worker_description="tests")
    me = until("the worker", lambda: next((
        w for w in call(client, "engine::workers::list", {"runtime": "python"})["workers"]
        if w["name"] == f"{t.prefix}-me"), None))
    equal((me["status"], me["version"], me["description"]), ("connected", version("iii-sdk"), "tests"))


@row("14.2 bridge 2", "text, numbers and nesting survive, metadata travels beside")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("echo"), lambda data, metadata=None: {"data": data["v"], "metadata": metadata})
    has(client, t.id("echo"))
    value = {"text": "Åse 🙂", "list": [1, 2.5, None, True], "deep": {"a": [{"b": []}]}}
    equal(call(client, t.id("echo"), {"v": value}, metadata={"tenant": "t-9"}), {"data": value, "metadata": {"tenant": "t-9"}})


@row("14.2 bridge 5", "a worker that shuts down takes its functions along")
def _(t):
    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("brief"), lambda _: 1)
    has(client, t.id("brief"))
    stop(server)
    until("the function to be gone", lambda: not functions(client, prefix=t.id("brief")))
    raises("function_not_found", lambda: call(client, t.id("brief")))


@row("14.2 data-channels 1", "a caller streams bytes to a function")
def _(t):
    async def length(data):
        return len(await data["reader"].read_all())

    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("length"), length)
    has(client, t.id("length"))
    channel = create_channel(client, 4)

    async def send():
        await channel.writer.write(b"x" * 300_000)
        await channel.writer.close_async()

    sending = asyncio.run_coroutine_threadsafe(send(), client._loop)
    equal(call(client, t.id("length"), {"reader": channel.reader_ref.model_dump()}), 300_000)
    sending.result(timeout=10)


@row("14.2 data-channels 2", "a function streams messages and bytes back, in order")
def _(t):
    async def produce(data):
        writer = data["writer"]
        await writer.send_message_async(json.dumps({"part": 1}))
        await writer.write(b"a" * 100_000)
        await writer.send_message_async(json.dumps({"part": 2}))
        await writer.close_async()

    server, client = t.worker("server"), t.worker("client")
    server.register_function(t.id("produce"), produce)
    has(client, t.id("produce"))
    channel, messages = create_channel(client), []
    channel.reader.on_message(lambda m: messages.append(json.loads(m)))
    reading = asyncio.run_coroutine_threadsafe(channel.reader.read_all(), client._loop)
    call(client, t.id("produce"), {"writer": channel.writer_ref.model_dump()})
    equal(len(reading.result(timeout=10)), 100_000)
    equal(messages, [{"part": 1}, {"part": 2}])


@row("14.2 service-triggers 5", "functions::info has schemas and triggers")
def _(t):
    server, schema = t.worker("server"), {"type": "object"}
    server.register_function(t.id("f"), lambda _: 1, description="one", request_format=schema)
    server.register_trigger({"type": "cron", "function_id": t.id("f"), "config": {"expression": "0 0 3 1 1 *"}})
    bound(server, t.id("f"))
    info = call(server, "engine::functions::info", {"function_id": t.id("f")})
    equal((info["description"], info["request_schema"]), ("one", schema))
    equal([r["trigger_type"] for r in info["registered_triggers"]], ["cron"])


class Mailbox(TriggerHandler):
    """A provider that records what it is told."""

    def __init__(self, refuse=None):
        self.bound, self.unbound, self._refuse = [], [], refuse

    async def register_trigger(self, config):
        if self._refuse:
            raise ValueError(self._refuse)
        self.bound.append(config)

    async def unregister_trigger(self, config):
        self.unbound.append(config.id)


@row("14.2 trigger-type-lifecycle 3", "a provider is bound, fires and is unbound")
def _(t):
    provider, consumer, mailbox, got = t.worker("provider"), t.worker("consumer"), Mailbox(), Later()
    provider.register_trigger_type({"id": t.id("mail"), "description": "a mailbox"}, mailbox)
    consumer.register_function(t.id("handle"), lambda data, metadata=None: got.give((data["mail"], metadata)))
    trigger = consumer.register_trigger({
        "type": t.id("mail"), "function_id": t.id("handle"), "config": {"box": "in"}, "metadata": {"m": 1}})
    bound(consumer, t.id("handle"))
    # The engine lists a trigger once it has told the provider, not once that has
    # heard it.
    binding = until("the binding", lambda: mailbox.bound)[0]
    equal((binding.function_id, binding.config, binding.metadata), (t.id("handle"), {"box": "in"}, {"m": 1}))
    call(provider, binding.function_id, {"mail": "hi"}, metadata=binding.metadata, action=TriggerAction.Void())
    equal(got.wait("the firing"), ("hi", {"m": 1}))
    trigger.unregister()
    until("the unregister", lambda: mailbox.unbound == [binding.id])


@row("14.2 trigger-fault-tolerance 2", "a provider's refusal parks the trigger")
def _(t):
    provider, raw = t.worker("provider"), t.raw()
    provider.register_trigger_type({"id": t.id("mail"), "description": "a mailbox"}, Mailbox(refuse="mailbox unknown"))
    until("the type", lambda: call(provider, "engine::triggers::list", {"prefix": t.id("mail")})["triggers"])
    raw.send({"type": "invokefunction", "function_id": "engine::workers::register", "action": {"type": "void"}, "data": {"name": t.id("raw")}})
    raw.send({"type": "registertrigger", "id": t.id("b"), "trigger_type": t.id("mail"), "function_id": t.id("f"), "config": {}})
    refused = raw.next("triggerregistrationresult")
    equal((refused["id"], refused["error"]["code"]), (t.id("b"), "trigger_registration_failed"))
    equal(triggers(provider, trigger_type=t.id("mail")), [])


@row("14.2 api-triggers 2", "an http trigger hands over the request and returns the answer")
def _(t):
    server = t.worker("server")
    server.register_function(t.id("order"), lambda r: {
        "status_code": 201, "headers": {"x-path": r["path"]}, "body": {"id": r["path_params"]["id"], "q": r["query_params"], "got": r["body"]}})
    server.register_trigger({"type": "http", "function_id": t.id("order"), "config": {"api_path": t.path("orders/:id"), "http_method": "POST"}})
    bound(server, t.id("order"))
    status, headers, body = fetch("POST", t.path("orders/7?dry=1"), b'{"qty":2}', {"content-type": "application/json"})
    equal((status, headers["x-path"]), (201, t.path("orders/:id")))
    equal(json.loads(body), {"id": "7", "q": {"dry": "1"}, "got": {"qty": 2}})


@row("14.2 api-triggers 8", "an http trigger streams both ways")
def _(t):
    async def upper(request):
        body, response = await request["request_body"].read_all(), request["response"]
        await response.send_message_async(json.dumps({"type": "set_status", "status_code": 206}))
        await response.send_message_async(json.dumps({"type": "set_headers", "headers": {"content-type": "text/plain"}}))
        await response.write(body.upper())
        await response.close_async()

    server = t.worker("server")
    server.register_function(t.id("upper"), upper)
    server.register_trigger({"type": "http", "function_id": t.id("upper"), "config": {"api_path": t.path("upper"), "http_method": "PUT"}})
    bound(server, t.id("upper"))
    status, headers, body = fetch("PUT", t.path("upper"), b"abc " * 50_000, {"content-type": "text/plain"})
    equal((status, headers["content-type"].split(";")[0], body == b"ABC " * 50_000), (206, "text/plain", True))


@row("14.2 pubsub 1", "a published message reaches its subscriber")
def _(t):
    worker, got = t.worker("w"), Later()
    worker.register_function(t.id("f"), lambda data: got.give(data))
    worker.register_trigger({"type": "subscribe", "function_id": t.id("f"), "config": {"topic": t.id("news")}})
    bound(worker, t.id("f"))
    call(worker, "publish", {"topic": t.id("news"), "data": {"n": 1}})
    equal(got.wait("the message"), {"n": 1})


@row("14.2 state 1", "state is set, read, updated and deleted")
def _(t):
    worker, scope = t.worker("w"), t.id("scope")
    equal(call(worker, "state::set", {"scope": scope, "key": "k", "value": {"n": 1}}), {"old_value": None, "new_value": {"n": 1}})
    ops = [{"type": "increment", "path": "n", "by": 2}]
    equal(call(worker, "state::update", {"scope": scope, "key": "k", "ops": ops})["new_value"], {"n": 3})
    equal(call(worker, "state::list", {"scope": scope}), [{"n": 3}])
    equal(call(worker, "state::delete", {"scope": scope, "key": "k"}), {"n": 3})
    equal(call(worker, "state::get", {"scope": scope, "key": "k"}), None)


@row("5.4 enqueue", "an enqueued call answers with a receipt and runs later")
def _(t):
    worker, got = t.worker("w"), Later()
    worker.register_function(t.id("job"), lambda data: got.give(data))
    has(worker, t.id("job"))
    receipt = call(worker, t.id("job"), {"n": 3}, action=TriggerAction.Enqueue(queue=t.id("jobs")))
    equal(isinstance(receipt["messageReceiptId"], str), True)
    equal(got.wait("the job"), {"n": 3})
