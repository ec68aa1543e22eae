"""Native crashes of processes that tests start: `scripts/test.py` has them written to a file."""

import os
import signal
import subprocess
import sys
from pathlib import Path

_CRASHING = """
import faulthandler
from threading import Event, Thread

Thread(target=Event().wait, daemon=True).start()
faulthandler._sigsegv()
"""


def test_a_crash_leaves_the_traces_of_all_threads_though_nobody_reads_the_output(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    faults.touch()
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "faults"), "FAULTS_FILE": str(faults)}

    crashed = subprocess.run(
        [sys.executable, "-c", _CRASHING], env=os.environ | environment, stderr=subprocess.DEVNULL, timeout=60
    )

    assert crashed.returncode == -signal.SIGSEGV
    written = faults.read_text()
    assert written.startswith("Fatal Python error: Segmentation fault")
    assert written.count("hread 0x") == 2
