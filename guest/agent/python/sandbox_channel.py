"""The private channel to the agent: descriptor 3 brings the envelope and the
payload, descriptor 4 takes frames. Standard output is the guest program's own,
so nothing printed can be taken for a result."""

import json
import os
import struct

_IN = 3
_OUT = 4
_write = os.write
_sent = False


def receive():
    """Reads the request: one line of JSON, then the payload's JSON, if any."""
    # Children of the guest program must not hold the channel.
    os.set_inheritable(_OUT, False)
    with os.fdopen(_IN, "rb") as channel:
        line, _, payload = channel.read().partition(b"\n")
    return json.loads(line), payload


def send_result(text):
    """Sends the result as JSON text. Lone surrogates become U+FFFD."""
    try:
        body = text.encode()
    except UnicodeEncodeError:
        body = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    _send_first(b"R", body)


def send_failure(failure):
    """Sends a failure: {kind, type, message, stack, line}."""
    _send_first(b"E", json.dumps(failure).encode())


def send_done():
    """Says that nothing more is worth waiting for."""
    _send(b"D", b"")


def _send_first(kind, body):
    global _sent
    if not _sent:
        _sent = True
        _send(kind, body)


# A frame is one letter, four bytes of length, and the body.
def _send(kind, body):
    frame = memoryview(kind + struct.pack(">I", len(body)) + body)
    while frame:
        frame = frame[_write(_OUT, frame):]
