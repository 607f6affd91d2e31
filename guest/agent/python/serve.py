"""Serves calls that come later: requests on descriptor 3, frames on 4. The handler
is loaded first. A process serves one call; or, where calls share it, one after the
other until its agent ends it; or it forks for each call that arrives on 5."""

import select
import sys

from . import sandbox_call, sandbox_fork, sandbox_iii, sandbox_json, sandbox_loop, sandbox_path, sandbox_variables
from . import sandbox_channel as channel

sandbox_host = True

_SHUTDOWN_SECONDS = 2.0
_FORKS = 5


def main():
    envelope = channel.receive_first()
    source = envelope["source"]
    sandbox_path.prepare(source)
    sandbox_iii.install()
    sandbox_iii.set_deadline(envelope["context"]["deadline_ms"])
    forks = None if envelope["shared"] else sandbox_fork.prepare(_FORKS)
    handler = sandbox_call.load(source, envelope["handler"])
    if handler is None:
        return
    sandbox_iii.preload(source)
    _flush()
    if envelope["shared"]:
        _serve_all(handler, source)
    else:
        _serve_one(handler, source, forks)


def _serve_one(handler, source, forks):
    """Serves one call, in this process or in each fork of it."""
    obstacle = forks.obstacle() if forks else "it cannot be"
    channel.send_ready(sandbox_json.encode({"forks": obstacle is None, "obstacle": obstacle}))
    forked = obstacle is None and not _is_solo()
    if forked:
        forks.serve()  # returns in the forks only
        request = channel.receive()
    else:
        if forks:
            forks.forgo()
        request = channel.receive_next()
        if request is None:
            return
    _serve(handler, source, request, sandbox_variables.set_all)
    sandbox_iii.shutdown(_SHUTDOWN_SECONDS)
    _flush()
    channel.send_done()
    if forked:
        sandbox_fork.end()


def _is_solo():
    """Whether the agent wants the process for one call although it could fork."""
    ready, _, _ = select.select([channel.IN, _FORKS], [], [])
    return channel.IN in ready


def _serve_all(handler, source):
    """Serves one call after the other."""
    channel.send_ready('{"forks":false}')
    variables = sandbox_variables.Kept()
    loop = sandbox_loop.Loop()
    while True:
        loop.wait(channel.IN)
        request = channel.receive_next()
        if request is None:
            return
        channel.begin()
        _serve(handler, source, request, variables.set_all, loop.run)
        channel.send_done()


def _serve(handler, source, request, set_variables, run=None):
    envelope, payload = request
    set_variables(envelope.get("env") or {})
    sandbox_iii.set_deadline(envelope["context"]["deadline_ms"])
    channel.send_begun()
    sandbox_call.call(handler, source, payload, envelope["context"], run)
    _flush()


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
