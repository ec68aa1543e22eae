"""Imported by every Python below `scripts/test.py`: a native crash leaves the traces of all threads.

They go to one file, which the script prints at its end: what a test does with the standard error of a process that it
starts does not matter. In pytest's own process, its handler takes the place of this one and writes to standard error.
"""

import faulthandler
import os
from contextlib import suppress

# A process under another account, or in a root directory of its own, may not reach the file.
with suppress(KeyError, OSError):
    # Open as long as the process lives, and a number: an object would be closed with a warning.
    faulthandler.enable(os.open(os.environ["FAULTS_FILE"], os.O_WRONLY | os.O_APPEND))
