"""Data channels in payloads (contracts/iii-bus.md §8): a reference also offers
what the SDK's ChannelReader or ChannelWriter does, as in a worker's handler. The
SDK is loaded when that is used; as data, the reference is the dict that it was."""

import os

from . import sandbox_bus, sandbox_sdk

_FIELDS = ("channel_id", "access_key", "direction")
_SURFACE = {
    "read": frozenset(("stream", "read_all", "on_message", "close_async")),
    "write": frozenset(("stream", "write", "send_message", "send_message_async", "close", "close_async")),
}
_writers = []


def open_references(payload, text):
    """Makes the references in a payload usable, if there is a bus to reach."""
    if os.environ.get("III_URL") and b'"channel_id"' in text:
        return _replace(payload)
    return payload


def _replace(value):
    if isinstance(value, dict):
        if _is_reference(value):
            return _Reader(value) if value["direction"] == "read" else _Channel(value)
        return {key: _replace(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item) for item in value]
    return value


def _is_reference(value):
    return all(isinstance(value.get(name), str) for name in _FIELDS) and value["direction"] in _SURFACE


class _Channel(dict):
    __slots__ = ("_channel",)

    def __getattr__(self, name):
        if name not in _SURFACE[self["direction"]]:
            raise AttributeError(f"a channel to {self['direction']} has no attribute {name!r}")
        return getattr(self._open(), name)

    def _open(self):
        try:
            return object.__getattribute__(self, "_channel")
        except AttributeError:
            self._channel = _connect(self)
            return self._channel


class _Reader(_Channel):
    __slots__ = ()

    def __aiter__(self):
        return self._open().__aiter__()


def _connect(reference):
    channels = sandbox_sdk.submodule("channels")
    types = sandbox_sdk.submodule("iii_types")
    found = types.StreamChannelRef(**{name: reference[name] for name in _FIELDS})
    url, _ = sandbox_bus.address()  # a channel has a key of its own, so it needs the address only
    if reference["direction"] == "read":
        return channels.ChannelReader(url, found)
    writer = channels.ChannelWriter(url, found)
    _writers.append(writer)
    return writer


async def finish(seconds):
    """Lets what was written on this loop arrive, for some seconds at most."""
    if not _writers:
        return
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=seconds)
    for writer in _writers:
        try:
            await asyncio.wait_for(writer.close_async(), seconds)
        except Exception:
            pass
    _writers.clear()
