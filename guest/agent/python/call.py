"""Calls one handler: request on descriptor 3, frames on 4.
In mode "check" it stops after making sure that there is a handler."""

import sys

from . import sandbox_call, sandbox_iii, sandbox_path
from . import sandbox_channel as channel

sandbox_host = True

_SHUTDOWN_SECONDS = 2.0


def main():
    envelope, payload = channel.receive()
    source = envelope["source"]
    context = envelope.get("context") or {}
    sandbox_path.prepare(source)
    sandbox_iii.install()
    sandbox_iii.set_deadline(context.get("deadline_ms"))
    handler = sandbox_call.load(source, envelope["handler"])
    if handler is not None:
        if envelope.get("mode") == "check":
            channel.send_result("null")
        else:
            sandbox_call.call(handler, source, payload, context)
    _flush()
    sandbox_iii.shutdown(_SHUTDOWN_SECONDS)
    _flush()
    channel.send_done()


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
