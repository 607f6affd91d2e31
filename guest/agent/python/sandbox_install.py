"""Installs the pinned SDK with pip, into the agent's private folder, where every
later program finds it (contracts/code-runner.md §10, "SDK on Python")."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_REQUIREMENTS = os.path.join(_HERE, "requirements.txt")
# Beside the folder of the hosts, and on the import path of every program.
_TARGET = os.path.join(os.path.dirname(os.path.dirname(_HERE)), "python-packages")
_MAX_SECONDS = 120
_ERROR_TAIL = 500
_INDEX_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")


def install(seconds):
    """Returns the folder of the installed packages. ImportError says why not."""
    import shutil
    import tempfile

    if seconds <= 0:
        raise ImportError("it is in none of the folders of packages")
    if not _has_network():
        raise ImportError("and there is no network to install it over")
    try:
        folder = tempfile.mkdtemp(prefix=".python-packages-", dir=os.path.dirname(_TARGET))
    except OSError as error:
        raise ImportError(f"and there is no place to install it: {error}") from None
    try:
        _pip(folder, min(seconds, _MAX_SECONDS))
        os.chmod(folder, 0o755)
        _move(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _TARGET


def _has_network():
    """A package index that was named counts, wherever it is."""
    import socket

    return any(name in os.environ for name in _INDEX_VARIABLES) or any(name != "lo" for _, name in socket.if_nameindex())


def _pip(folder, seconds):
    import signal
    import subprocess

    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir",
               "--no-deps", "--only-binary=:all:", "--retries=0", "--target", folder, "--requirement", _REQUIREMENTS]
    # In a folder of the program "-m pip" might find the program's own modules.
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ImportError(f"installing it took longer than {seconds:.0f} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise ImportError(f"installing it failed: {errors.strip()[-_ERROR_TAIL:]}")


def _move(folder):
    """Another process may have been quicker; its packages are the same."""
    try:
        os.rename(folder, _TARGET)
    except OSError as error:
        if not os.path.isdir(_TARGET):
            raise ImportError(f"storing it failed: {error}") from None
