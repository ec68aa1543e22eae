"""Runs the tests in two processes: `test.py` the first tier, `test.py all` everything.

The first tier leaves out tests marked `long`. Of `tests/cluster` it runs those marked `smoke`, and all of them where
what they test has changed since they last passed on this machine. Tests that share a server stay in one process
(`tests/support/distribution.py`). At the end, the first tier is held against `scripts/budget.toml`.

A native crash leaves the traces of all threads: that of pytest in what it prints, those of the processes that tests
start at the very end (`tests/faults`).
"""

import hashlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from platformdirs import user_cache_path

import budget

ROOT = Path(__file__).parents[1]
_WORKERS = 2
_STOP_AFTER_FAILURES = 10
_CLUSTER_SOURCES = ("operator", "crds", "charts", "tests/cluster")
_CLUSTER_TESTS = "tests.cluster."
_RAN_TO_THE_END = (0, 1)
"""Exit codes of pytest where all passed and where some failed; others mean that it was interrupted."""
_BUSY_LOAD = 1.0


def main() -> int:
    everything = sys.argv[1:] == ["all"]
    stamp = user_cache_path("formulary") / "passed" / f"cluster-{_digest_of_cluster_sources()}"
    with_cluster = everything or not stamp.exists()
    selected = [] if everything else ["-m", "not long" if with_cluster else "not long and (smoke or not cluster)"]
    if with_cluster and not everything:
        print("tests/cluster runs in full: what it tests has not passed on this machine", flush=True)
    # Before the tests, which are a load themselves. The whole of tests/cluster makes all others take longer.
    busy = with_cluster or os.getloadavg()[0] > _BUSY_LOAD
    with tempfile.TemporaryDirectory() as scratch, _yardstick() as yardsticks:
        report = Path(scratch, "report.xml")
        code = _run_pytest(f"--junit-xml={report}", *selected)
        if with_cluster and passed_cluster(report, code=code):
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()
        if code != 0 or everything:
            return code
        return _check_budget(report, yardstick=statistics.median(yardsticks), with_cluster=with_cluster, busy=busy)


@contextmanager
def _yardstick() -> Iterator[list[float]]:
    """Seconds of processor time that the same small work takes, measured now and each 20 s until the block ends.

    The same tests take half as much again on a slower machine, or beside the neighbours of a virtual one.
    """
    data, text = bytes(1 << 20), json.dumps([list(range(20))] * 300)

    def measure() -> float:
        begun = time.thread_time()
        for _ in range(10):
            hashlib.sha256(data).digest()
            json.loads(text)
        sum(number for number in range(200_000))
        return time.thread_time() - begun

    measured = [measure()]
    ended = threading.Event()

    def keep_measuring() -> None:
        while not ended.wait(20):
            measured.append(measure())

    thread = threading.Thread(target=keep_measuring)
    thread.start()
    try:
        yield measured
    finally:
        ended.set()
        thread.join()


def _run_pytest(*options: str) -> int:
    """The exit code of pytest; the faults of the processes below it are printed when it ends, however it ends."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        f"--numprocesses={_WORKERS}",
        "--dist=loadscope",
        "--no-loadscope-reorder",
    ]
    command += [f"--maxfail={_STOP_AFTER_FAILURES}", "--durations=15", "-o", "junit_duration_report=call", *options]
    with _faults() as environment:
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # pytest gets it too, and ends what it has started
        return process.wait()


@contextmanager
def _faults() -> Iterator[dict[str, str]]:
    """An environment in which a native crash of any Python below is written to a file, which is printed at the end."""
    with tempfile.NamedTemporaryFile(mode="r", errors="replace") as faults:
        os.chmod(faults.name, 0o666)  # tests of root start programs under other accounts, too
        environment = dict(os.environ)
        # Else each process compiles all tests again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        path = os.pathsep.join(filter(None, [str(ROOT / "tests" / "faults"), environment.get("PYTHONPATH", "")]))
        yield environment | {"FAULTS_FILE": faults.name, "PYTHONPATH": path}
        sys.stdout.write(faults.read())


def _check_budget(report: Path, *, yardstick: float, with_cluster: bool, busy: bool) -> int:
    """The exit code of the comparison of a run with the budget."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    excesses = budget.excesses_of_run(
        budget.load_budget(),
        processor_seconds=used.ru_utime + used.ru_stime,
        yardstick_milliseconds=1000 * yardstick,
        durations={
            f"{case.get('classname')}.{case.get('name')}": float(case.get("time", 0))
            for case in ElementTree.parse(report).iter("testcase")
        },
        with_cluster=with_cluster,
        busy=busy,
    )
    return budget.report(excesses)


def passed_cluster(report: Path, *, code: int) -> bool:
    """Whether all of `tests/cluster` ran and passed, whatever else failed: what is repaired elsewhere is no reason to
    run it again. `code` is that of pytest, and `report` what it wrote.
    """
    if code not in _RAN_TO_THE_END:
        return False
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    stopped = len(failed) >= _STOP_AFTER_FAILURES
    return not stopped and not any(case.get("classname", "").startswith(_CLUSTER_TESTS) for case in failed)


def _digest_of_cluster_sources() -> str:
    """Changes with what `tests/cluster` tests, and with the tests themselves."""
    digest = hashlib.sha256()
    for folder in _CLUSTER_SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


if __name__ == "__main__":
    sys.exit(main())
