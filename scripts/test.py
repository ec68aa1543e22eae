"""Runs the tests in two processes: `test.py` the first tier, `test.py all` everything.

The first tier leaves out tests marked `long`. Of the suites in `scripts/budget.toml` it runs the tests marked `smoke`,
and a module in full until it has passed on this machine with its sources as they are. Tests that share a server stay
in one process (`tests/support/distribution.py`). At the end, the first tier is held against the budget.

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
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from platformdirs import user_cache_path

import budget

ROOT = Path(__file__).parents[1]
_WORKERS = 2
_STOP_AFTER_FAILURES = 10
_RAN_TO_THE_END = (0, 1)
"""Exit codes of pytest where all passed and where some failed; others mean that it was interrupted."""
_BUSY_LOAD = 1.0
_BUSY_SHARE = 0.2
"""Where more of a suite runs in full, other tests take longer."""


def main() -> int:
    everything = sys.argv[1:] == ["all"]
    suites = {name: stamps_of_modules(suite) for name, suite in budget.load_budget()["suites"].items()}
    stamps = {module: stamp for modules in suites.values() for module, stamp in modules.items()}
    done = set() if everything else {module for module, stamp in stamps.items() if stamp.exists()}
    undone = {name: left for name, modules in suites.items() if (left := modules.keys() - done)}
    for name, left in undone.items():
        _announce(left, of=suites[name].keys())
    whole = {name: len(left) / len(suites[name]) for name, left in undone.items()}
    # Before the tests, which are a load themselves. Whole suites make all others take longer.
    busy = sum(whole.values()) > _BUSY_SHARE or os.getloadavg()[0] > _BUSY_LOAD
    with tempfile.TemporaryDirectory() as scratch, _yardstick() as yardsticks:
        report, passed = Path(scratch, "report.xml"), Path(scratch, "passed")
        passed.write_text("\n".join(done))
        selected = [] if everything else ["-m", "not long and (smoke or not passed)", f"--passed={passed}"]
        code = _run_pytest(f"--junit-xml={report}", *selected)
        for module in passing(stamps.keys() - done, report, code=code):
            stamps[module].parent.mkdir(parents=True, exist_ok=True)
            stamps[module].touch()
        if code != 0 or everything:
            return code
        return _check_budget(report, yardstick=statistics.median(yardsticks), whole=whole, busy=busy)


def _announce(modules: Collection[str], *, of: Collection[str]) -> None:
    """Say what of a suite runs in full, and why."""
    some = "all" if len(modules) == len(of) else f"{len(modules)} of {len(of)} modules"
    print(f"{os.path.commonpath(of)}: {some} in full: with its sources it has not passed on this machine", flush=True)


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


def _check_budget(report: Path, *, yardstick: float, whole: Mapping[str, float], busy: bool) -> int:
    """The exit code of the comparison of a run with the budget."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    excesses = budget.excesses_of_run(
        budget.load_budget(),
        processor_seconds=used.ru_utime + used.ru_stime,
        yardstick_milliseconds=1000 * yardstick,
        durations={_name_of(case): float(case.get("time", 0)) for case in ElementTree.parse(report).iter("testcase")},
        whole=whole,
        busy=busy,
    )
    return budget.report(excesses)


def passing(modules: Collection[str], report: Path, *, code: int) -> set[str]:
    """Those of these modules in which nothing failed, whatever else failed: what is repaired elsewhere is no reason to
    run them again. `code` is that of pytest, and `report` what it wrote.
    """
    if code not in _RAN_TO_THE_END:
        return set()
    failed = [
        _name_of(case)
        for case in ElementTree.parse(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    if len(failed) >= _STOP_AFTER_FAILURES:
        return set()
    names = {module: module.removesuffix(".py").replace("/", ".") for module in modules}
    return {module for module, name in names.items() if not any(_concerns(each, module=name) for each in failed)}


def _concerns(failed: str, *, module: str) -> bool:
    """Whether what failed is of the module, or a folder that it is in: then it has not run."""
    return f"{failed}.".startswith(f"{module}.") or f"{module}.".startswith(f"{failed}.")


def _name_of(case: ElementTree.Element) -> str:
    """With its module; a module that could not be imported is a case without a class."""
    return f"{case.get('classname')}.{case.get('name')}".lstrip(".")


def stamps_of_modules(suite: Mapping[str, Any]) -> dict[str, Path]:
    """The modules of a suite, each with the file that is there where it has passed as it is."""
    tests, directory = ROOT / suite["tests"], user_cache_path("formulary") / "passed"
    modules = sorted(tests.rglob("test_*.py"))
    shared = [path for path in sorted(tests.rglob("*")) if path.is_file() and path not in modules]
    digest = _digest_of([*map(ROOT.joinpath, suite["sources"]), *shared])
    return {
        module.relative_to(ROOT).as_posix(): directory / f"{module.stem}-{digest}-{_digest_of([module])}"
        for module in modules
    }


def _digest_of(sources: list[Path]) -> str:
    """Changes with the content of files, and of all files in folders."""
    digest = hashlib.sha256()
    for source in sources:
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


if __name__ == "__main__":
    sys.exit(main())
