"""What processes cost: processor time, and memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

MEGABYTE = 1_000_000


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process with all that it started."""
    return [process, *process.children(recursive=True)]


def postgres_here() -> psutil.Process:
    """The PostgreSQL that this process has started."""
    return next(child for child in psutil.Process().children() if child.name() == "postgres")


@dataclass(slots=True)
class Spent:
    """Processor seconds, once the block is over."""

    seconds: float = 0.0


@contextmanager
def processor_time(roots: Sequence[psutil.Process]) -> Iterator[Spent]:
    """What the processes and all that they started spend inside the block."""
    spent = Spent()
    before = _seconds(roots)
    yield spent
    spent.seconds = _seconds(roots) - before


def resident(process: psutil.Process) -> float:
    """Megabytes of memory that the process has now."""
    return float(process.memory_info().rss) / MEGABYTE


def peak_resident(process: psutil.Process) -> float:
    """Megabytes of memory that the process had at most."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / MEGABYTE


def _seconds(roots: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for root in roots for process in family(root)]
    return float(sum(each.user + each.system for each in times))
