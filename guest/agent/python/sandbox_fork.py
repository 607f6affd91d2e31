"""Forks the process, its handler loaded, for each call that arrives.

A fork makes two processes: a guardian, to which whatever the handler starts comes
back when its parent ends, and below it the handler's own. The guardian reports how
that one ended and itself ends when nothing is left below it, so the agent can tell
the processes of calls that run at the same time apart."""

import gc
import os
import signal
import struct

from . import sandbox_random

sandbox_host = True

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_CLEAN = b"C"
_FDS = 5  # of one call: its request, frames, standard output, standard error, and the guardian's report


def prepare(control):
    """Takes note of how the process is before the guest's source is loaded. None
    where the means to fork safely are missing."""
    try:
        import array
        import ctypes
        import socket

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except Exception:
        return None
    link = socket.socket(fileno=control)
    link.set_inheritable(False)
    return _Forks(link, array, socket, prctl)


class _Forks:
    def __init__(self, link, array, socket, prctl):
        self._link = link
        self._array, self._socket = array.array, socket
        self._prctl = prctl
        # Taken before guest code loads, which may replace them.
        self._fork, self._waitpid, self._exit = os.fork, os.waitpid, os._exit
        self._before = _descriptors()

    def forgo(self):
        """Gives up forking: the process serves a call itself."""
        self._link.close()

    def obstacle(self):
        """What keeps the process from being forked, now that the source is loaded:
        forks would share it, or lack it. None if nothing does."""
        if len(os.listdir("/proc/self/task")) != 1:
            return "threads are running"
        if _descriptors() - self._before:
            return "files or sockets are open"
        if _has_children():
            return "processes are running"
        if _shares_memory():
            return "memory is shared"
        return None

    def serve(self):
        """Forks for each call; returns in the handlers' processes only. Ends the
        process when the agent is gone."""
        # A handler must not reach this process's memory and descriptors through
        # /proc: what it changed there would be in every later fork.
        self._prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        # Nobody waits for guardians: the agent follows their reports.
        self._on_child = signal.getsignal(signal.SIGCHLD)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        gc.collect()
        gc.freeze()  # so that a collection in a fork does not copy every page
        parent = os.getpid()
        while True:
            descriptors = self._receive()
            if descriptors is None:
                self._exit(0)
            if self._fork() == 0:
                return self._guard(parent, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def _receive(self):
        size = _FDS * self._array("i").itemsize
        message, ancillary, _, _ = self._link.recvmsg(1, self._socket.CMSG_SPACE(size))
        if not message:
            return None
        found = self._array("i")
        for level, kind, data in ancillary:
            if level == self._socket.SOL_SOCKET and kind == self._socket.SCM_RIGHTS:
                found.frombytes(data[:size])
        return list(found) if len(found) == _FDS else None

    def _guard(self, parent, descriptors):
        """Is the guardian; returns in the handler's process."""
        self._die_with(parent)
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        *channels, report = descriptors
        guardian = os.getpid()
        handler = self._fork()
        if handler == 0:
            os.close(report)
            return self._become_handler(guardian, channels)
        os.write(report, struct.pack("=ii", guardian, handler))
        for descriptor in (0, 1, 2, 3, 4, self._link.fileno(), *channels):
            try:
                os.close(descriptor)
            except OSError:
                pass
        self._await(handler, report)

    def _await(self, handler, report):
        while True:
            try:
                process, status = self._waitpid(-1, 0)
            except ChildProcessError:
                break
            if process == handler:
                os.write(report, struct.pack("=i", status))
        os.write(report, _CLEAN)
        self._exit(0)

    def _become_handler(self, guardian, channels):
        self._die_with(guardian)
        os.setpgid(0, 0)
        self._link.close()
        for source, target in zip(channels, (3, 4, 1, 2)):
            os.dup2(source, target, inheritable=target in (1, 2))
            os.close(source)
        self._prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        signal.signal(signal.SIGCHLD, self._on_child or signal.SIG_DFL)
        sandbox_random.refresh()

    def _die_with(self, parent):
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            self._exit(1)


def end():
    """Ends a fork once its call is over. What the source has registered for the
    exit of the process it was loaded in is not this process's to run."""
    os._exit(0)


def _descriptors():
    """The open descriptors, but for the one that listing them takes."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue
        found.add(int(name))
    return found


def _has_children():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _shares_memory():
    """Whether there is memory that a fork's writes would change in all others."""
    with open("/proc/self/maps", "rb") as maps:
        return any(b"w" in modes and b"s" in modes for modes in (line.split(None, 2)[1] for line in maps))
