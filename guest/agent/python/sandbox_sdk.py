"""Finds the bus SDK when it is first used: the guest's own, else one that was
planted or mounted, else the pinned one from the package index."""

import os
import sys

from . import sandbox_install

_NAME = "iii"
# The name under which the SDK is loaded when the program has a module of its own
# called iii; the SDK imports its parts by relative names only.
_PRIVATE_NAME = "sandbox_iii_sdk"
_sdk = None


def load(install_seconds=0):
    """Returns the SDK's package. If the guest has none it is installed, which may
    take install_seconds; with 0 it is not. RuntimeError if there is none."""
    global _sdk
    if _sdk is None:
        try:
            _sdk = _import(install_seconds)
        except ImportError as error:
            raise RuntimeError(f"iii-sdk is not installed in this runtime ({error})") from error
    return _sdk


def submodule(name):
    """Returns one module of the SDK."""
    import importlib

    return importlib.import_module(f"{load().__name__}.{name}")


def _import(install_seconds):
    import importlib

    loaded = sys.modules.get(_NAME)
    if hasattr(loaded, "register_worker"):
        return loaded
    folder = _find()
    if folder is None:
        folder = sandbox_install.install(install_seconds)
        sys.path.append(folder)
    if loaded is not None or _first_of_that_name() != folder:
        return _import_privately(folder)
    importlib.invalidate_caches()
    return importlib.import_module(_NAME)


def _find():
    """The first folder on the import path that holds the SDK."""
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, _NAME, "iii.py")):
            return folder
    return None


def _first_of_that_name():
    """The folder in which an import of that name would end."""
    for folder in sys.path:
        if any(os.path.isfile(os.path.join(folder, file)) for file in (_NAME + ".py", os.path.join(_NAME, "__init__.py"))):
            return folder
    return None


def _import_privately(folder):
    from importlib import util

    package = os.path.join(folder, _NAME)
    spec = util.spec_from_file_location(
        _PRIVATE_NAME, os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    module = util.module_from_spec(spec)
    sys.modules[_PRIVATE_NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_PRIVATE_NAME]
        raise
    return module
