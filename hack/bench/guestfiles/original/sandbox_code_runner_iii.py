"""The global `iii` of the original (contracts/code-runner.md §13): the SDK is
imported, and connects, when it is first used."""

import builtins
import os

_client = None


class _Lazy:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_connect(), name)


def install():
    builtins.iii = _Lazy()


def _connect():
    global _client
    if _client is None:
        address = os.environ.get("III_URL")
        if not address:
            raise RuntimeError("III_URL is not set")
        try:
            from iii import InitOptions, register_worker
        except ImportError as error:
            raise RuntimeError("iii-sdk is not installed in this runtime") from error
        _client = register_worker(address, InitOptions(
            worker_name="original:" + os.urandom(8).hex(), enable_metrics_reporting=False, otel={"enabled": False},
        ))
    return _client


def shutdown():
    if _client is not None:
        _client.shutdown()
