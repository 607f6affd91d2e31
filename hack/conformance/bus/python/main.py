"""Runs all rows. They go to stdout, all other output to stderr."""

import os
import sys

import iii

import rows
import core  # noqa: F401  (registers its rows)
import edges  # noqa: F401

if hasattr(iii, "RegistrationRejectedError"):  # since 0.23
    import newer  # noqa: F401

rows.run_all()
sys.stderr.flush()
# The client's threads may linger; nothing is left to wait for.
os._exit(0)
