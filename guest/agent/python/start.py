"""Starts a host: python3 start.py run PROGRAM ARGS..., or python3 start.py call or serve.

The host's modules are parts of a package that exists only in this process. Their
folder is not on the import path, so the guest's imports never end there, and no
module of the guest's is taken for one of them (contracts/code-runner.md §19.3, X23)."""

import os
import sys

sandbox_host = True

_PACKAGE = "sandbox_host"
_HERE = os.path.dirname(os.path.realpath(__file__))


def _make_package():
    # Python puts the folder there, its links resolved, unless PYTHONSAFEPATH is set.
    if os.path.realpath(sys.path[0]) == _HERE:
        del sys.path[0]
    package = type(sys)(_PACKAGE)
    package.__path__ = [_HERE]
    sys.modules[_PACKAGE] = package


# Processes that the guest's multiprocessing spawns load this file again.
if __name__ == "__main__":
    _make_package()
    _host = sys.argv.pop(1)
    if _host == "run":
        from sandbox_host.run import main
    elif _host == "serve":
        from sandbox_host.serve import main
    else:
        from sandbox_host.call import main
    main()
