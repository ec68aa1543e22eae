"""Numpy on one thread: the library below it takes as many as there are, and decides that when it is loaded."""

import os
import sys

_VARIABLE = "OPENBLAS_NUM_THREADS"


def on_one_thread() -> None:
    """Start this program again with one thread for numpy, unless it has been."""
    if os.environ.get(_VARIABLE) != "1":
        os.execve(sys.executable, sys.orig_argv, os.environ | {_VARIABLE: "1"})
