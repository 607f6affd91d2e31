"""The import path of guest programs."""

import os
import sys


def prepare(source):
    """Makes imports work as if `source` had been started directly: its folder
    comes first, the host's package hides no name (contracts/code-runner.md §19.3,
    X23). Folders of packages that the agent names come last."""
    sys.path.insert(0, os.path.dirname(source))
    for name in [name for name in sys.modules if name.partition(".")[0] == __package__]:
        del sys.modules[name]
    for folder in os.environ.pop("SANDBOX_PYTHON_PACKAGES", "").split(os.pathsep):
        if folder and folder not in sys.path and os.path.isdir(folder):
            sys.path.append(folder)
