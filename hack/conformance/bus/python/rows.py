"""What all rows share: registering and running them, workers that end with
their row, and waiting for something to become true."""

import json
import logging
import os
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

from iii import InitOptions, register_worker
from iii_helpers.observability import ReconnectionConfig
from websockets.sync.client import connect

URLS = json.loads(os.environ["CONFORMANCE_URLS"])
BUS, RBAC, GUARDED, HTTP = URLS["bus"], URLS["rbac"], URLS["guarded"], URLS["http"]
WAIT_SECONDS = 10
ROW_SECONDS = 20
ROWS = []

logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
# Requests to loopback must not go to a proxy of the environment.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def row(row_id, name):
    """Adds a row: the contract's id and what must hold; the check gets a Row."""

    def add(check):
        ROWS.append((row_id, name, check))
        return check

    return add


def until(what, probe):
    """Polls until probe gives something truthy and returns that."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {WAIT_SECONDS} s for {what}")
        time.sleep(0.015)


def equal(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def raises(code, call):
    """Runs the call, which must fail with the code, and returns the error."""
    try:
        got = call()
    except Exception as error:  # the SDK's own class has the code
        equal(getattr(error, "code", repr(error)), code)
        return error
    raise AssertionError(f"got {got!r}, want an error {code}")


class Later:
    """A value that another thread will give."""

    def __init__(self):
        self._given, self._value = threading.Event(), None

    def give(self, value):
        self._value = value
        self._given.set()

    def wait(self, what):
        if not self._given.wait(WAIT_SECONDS):
            raise AssertionError(f"waited {WAIT_SECONDS} s for {what}")
        return self._value


class Row:
    """The row's own names, clients and clean-up."""

    def __init__(self, number):
        self.prefix = f"row{number}"
        self._cleanups = []

    def id(self, name):
        return f"{self.prefix}::{name}"

    def path(self, name):
        return f"/{self.prefix}/{name}"

    def after(self, cleanup):
        self._cleanups.append(cleanup)

    def worker(self, name, url=BUS, **options):
        """A worker of the published client, connected."""
        client = self.start(name, url, **options)
        until("the connection", lambda: client.get_connection_state() == "connected")
        return client

    def start(self, name, url=BUS, **options):
        """A worker of the published client that may still be connecting."""
        client = register_worker(url, InitOptions(
            worker_name=f"{self.prefix}-{name}", enable_metrics_reporting=False, otel={"enabled": False},
            invocation_timeout_ms=WAIT_SECONDS * 1000,
            reconnection_config=ReconnectionConfig(initial_delay_ms=50), **options))
        self.after(lambda: stop(client))
        return client

    def raw(self, url=BUS):
        """A raw socket that speaks frames."""
        raw = Raw(url)
        self.after(raw.socket.close)
        return raw

    def end(self):
        for cleanup in reversed(self._cleanups):
            cleanup()


class Raw:
    """A WebSocket that sends and receives frames."""

    def __init__(self, url):
        self.socket = connect(url, proxy=None)
        self._kept = []

    def send(self, frame):
        self.socket.send(json.dumps(frame))

    def next(self, kind):
        """The next frame of a type."""
        while True:
            for at, frame in enumerate(self._kept):
                if frame.get("type") == kind:
                    return self._kept.pop(at)
            self._kept.append(json.loads(self.socket.recv(timeout=WAIT_SECONDS)))


def stop(client):
    """Ends a worker. The client's own shutdown waits forever the second time."""
    if client._running:
        client.shutdown()


def call(client, function_id, payload=None, **more):
    return client.trigger({"function_id": function_id, "payload": {} if payload is None else payload, **more})


def functions(client, **payload):
    return call(client, "engine::functions::list", payload)["functions"]


def has(client, function_id):
    """Waits until the engine lists the function."""
    until(f"function {function_id}", lambda: any(
        f["function_id"] == function_id for f in functions(client, prefix=function_id)))


def triggers(client, **payload):
    return call(client, "engine::registered-triggers::list", payload)["registered_triggers"]


def bound(client, function_id, count=1):
    """Waits until the engine lists this many bindings of the function."""
    until(f"{count} triggers of {function_id}", lambda: len(triggers(client, function_id=function_id)) == count)


def fetch(method, path, body=None, headers=None):
    """Status, headers and body of an answer of the HTTP port."""
    request = urllib.request.Request(HTTP + path, data=body, method=method, headers=headers or {})
    try:
        with OPENER.open(request, timeout=WAIT_SECONDS) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def run_all():
    report({"plan": len(ROWS)})
    for number, (row_id, name, check) in enumerate(ROWS):
        began = time.monotonic()
        problems = run_one(Row(number), check)
        took = int((time.monotonic() - began) * 1000)
        report({"id": row_id, "name": name, "ok": not problems, "error": "".join(problems), "ms": took})


def run_one(current, check):
    """The problems of one row; a row that hangs is given up, not waited for."""
    problems = []

    def act():
        for part in (lambda: check(current), current.end):
            try:
                part()
            except Exception:
                problems.append(traceback.format_exc())

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(ROW_SECONDS)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident)
        problems.append(f"hangs after {ROW_SECONDS} s at\n" + "".join(traceback.format_stack(frame)))
    return problems


def report(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
