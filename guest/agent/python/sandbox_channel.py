"""The private channel to the agent: descriptor 3 brings the envelope and the
payload, descriptor 4 takes frames. Standard output is the guest program's own,
so nothing printed can be taken for a result."""

import json
import os
import struct

IN = 3
_OUT = 4
_HEADER = struct.Struct(">I")
_write = os.write
_read = os.read
_sent = False


def receive():
    """Reads the request: one line of JSON, then the payload's JSON, if any."""
    _keep_from_children()
    with os.fdopen(IN, "rb") as channel:
        return _parse(channel.read())


def receive_first():
    """Reads the first of several requests, which is one line, and leaves what follows."""
    _keep_from_children()
    os.set_inheritable(IN, False)
    line = bytearray()
    while (byte := _read(IN, 1)) not in (b"", b"\n"):
        line += byte
    return json.loads(line)


def receive_next():
    """Reads one of the others: its length, then the request. None at the end."""
    header = _read_all(_HEADER.size)
    body = header and _read_all(*_HEADER.unpack(header))
    return _parse(body) if body else None


def _read_all(size):
    parts = []
    while size:
        part = _read(IN, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _keep_from_children():
    """Children of the guest program must not hold the channel."""
    os.set_inheritable(_OUT, False)


def _parse(request):
    line, _, payload = request.partition(b"\n")
    return json.loads(line), payload


def begin():
    """Makes way for the next call's result."""
    global _sent
    _sent = False


def send_ready(text):
    """Says that the handler is loaded and may be called."""
    _send(b"Y", text.encode())


def send_begun():
    """Says that the call has arrived and begins now."""
    _send(b"B", b"")


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
