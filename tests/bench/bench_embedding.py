"""What embedding costs: one query next to the reading of the weights and to sentence-transformers, callers, a bulk.

Our embedder and sentence-transformers run in processes of their own and take turns, so that noise hits both alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from catalog_texts import texts
from embedding_subject import OURS, REFERENCE
from quantiles import p50_and_p95
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from formulary_catalog.domain.query import CANONICAL_SIGNAL_TYPES, SEVERITIES
from formulary_catalog.embedding.model import DIMENSIONS, locate

SUBJECTS = ("", "payments")
CALLERS = (1, 8, 32)
GOALS = {"to the floor": 2.0, "to sentence-transformers": 2.3, "least cosine": 0.9999}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Queries of so many callers at once; times in milliseconds, `processor` is processor time per query."""

    callers: int
    a_second: float
    p50: float
    p95: float
    processor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One embedder: load in seconds, query times in milliseconds, memory in megabytes."""

    load: float
    p50: float
    p95: float
    documents_a_second: float
    memory_loaded: float
    memory: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run. `floor` is the reading of the weights of all layers once, in milliseconds; `tokens` are of a query."""

    tokens: float
    floor: float
    ours: Side
    reference: Side
    to_the_floor: float
    faster_than_reference: float
    least_cosine: float
    concurrency: tuple[Calls, ...]


class Process:
    """An embedder in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.load_seconds = float(self._answer())

    def do(self, task: str, **arguments: Any) -> Any:
        """The result of one of the tasks in `embedding_subject.py`."""
        assert self._process.stdin is not None
        print(json.dumps({"task": task, "arguments": arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("an embedder ended early; see above")
        return json.loads(line)


@contextmanager
def process_of(kind: str) -> Iterator[Process]:
    """Start an embedder, and end it."""
    command = [sys.executable, str(Path(__file__).with_name("embedding_subject.py")), kind]
    quietly = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    with subprocess.Popen(command, env=quietly, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Process(process)
        finally:
            process.terminate()


def weights() -> np.ndarray[Any, np.dtype[np.float32]]:
    """As many numbers as the layers of the bundled model have weights: what one query has to read at least."""
    config = json.loads((locate("bundled").path / "config.json").read_bytes())
    layer = 4 * DIMENSIONS**2 + 2 * DIMENSIONS * config["intermediate_size"]
    return np.ones(config["num_hidden_layers"] * layer, np.float32)


def floor(array: np.ndarray[Any, np.dtype[np.float32]], *, times: int) -> list[float]:
    """Milliseconds of reading the array once: its maximum, which one thread finds as fast as memory delivers."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        array.max()
        found.append((time.perf_counter() - started) * 1000)
    return found


def measure(*, rounds: int, documents: int, seconds: float) -> Measured:
    """Measure everything. Each round asks for other queries."""
    queries = [" ".join(words).strip() for words in product(CANONICAL_SIGNAL_TYPES, SEVERITIES, SUBJECTS)]
    bulk = [f"{text.when_to_use} {text.what}" for text in texts()[:documents]]
    array = weights()
    floor(array, times=10)
    floors, ours_times, reference_times, ratios = [], [], [], []
    with process_of(OURS) as ours, process_of(REFERENCE) as reference:
        loaded = [process.do("memory") for process in (ours, reference)]
        for number in range(rounds):
            asked = queries[number::rounds]
            floors.append(statistics.median(floor(array, times=len(asked))))
            ours_times.append([each * 1000 for each in ours.do("queries", texts=asked)])
            reference_times.append([each * 1000 for each in reference.do("queries", texts=asked)])
            ratios.append(statistics.median(ours_times[-1]) / floors[-1])
        concurrency = tuple(
            _calls(callers, ours.do("callers", callers=callers, seconds=seconds)) for callers in CALLERS
        )
        bulk_seconds = [process.do("documents", texts=bulk) for process in (ours, reference)]
        cosine = _least_cosine(ours, reference, queries=queries, documents=bulk[:64])
        sides = [
            _side(process, times=times, documents=len(bulk), seconds=took, loaded=memory)
            for process, times, took, memory in zip(
                (ours, reference), (ours_times, reference_times), bulk_seconds, loaded, strict=True
            )
        ]
    faster = [
        statistics.median(theirs) / statistics.median(own)
        for own, theirs in zip(ours_times, reference_times, strict=True)
    ]
    return Measured(
        tokens=statistics.median(_tokens(queries)),
        floor=statistics.median(floors),
        ours=sides[0],
        reference=sides[1],
        to_the_floor=statistics.median(ratios),
        faster_than_reference=statistics.median(faster),
        least_cosine=cosine,
        concurrency=concurrency,
    )


def _tokens(queries: Sequence[str]) -> list[int]:
    tokenizer = Tokenizer.from_file(str(locate("bundled").path / "tokenizer.json"))
    tokenizer.no_padding()
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(queries)]


def _side(process: Process, *, times: Sequence[Sequence[float]], documents: int, seconds: float, loaded: int) -> Side:
    p50, p95 = p50_and_p95([each for some in times for each in some])
    return Side(
        load=process.load_seconds,
        p50=p50,
        p95=p95,
        documents_a_second=documents / seconds,
        memory_loaded=loaded / 1e6,
        memory=process.do("memory") / 1e6,
    )


def _calls(callers: int, result: dict[str, Any]) -> Calls:
    times = [each * 1000 for each in result["times"]]
    p50, p95 = p50_and_p95(times)
    return Calls(
        callers=callers,
        a_second=len(times) / result["seconds"],
        p50=p50,
        p95=p95,
        processor=result["processor"] / len(times) * 1000,
    )


def _least_cosine(ours: Process, reference: Process, *, queries: Sequence[str], documents: Sequence[str]) -> float:
    with tempfile.TemporaryDirectory() as directory:
        files = [str(Path(directory) / f"{kind}.npy") for kind in (OURS, REFERENCE)]
        for process, file in zip((ours, reference), files, strict=True):
            process.do("vectors", queries=queries, documents=documents, file=file)
        own, theirs = (np.load(file).astype(np.float64) for file in files)
    return float(np.sum(own * theirs, axis=1).min())


def report(measured: Measured) -> None:
    """Print the tables."""
    console = Console(width=100)
    console.print(_one_query(measured))
    console.print(_callers(measured))


def _one_query(measured: Measured) -> Table:
    ours, reference = measured.ours, measured.reference
    table = Table("embedding, one thread", "ours", "sentence-transformers", "ratio", "goal")
    table.add_row("tokens of a query, median", f"{measured.tokens:g}", "", "", "")
    table.add_row("reading the weights once, ms", f"{measured.floor:.2f}", "", "", "")
    for name, own, theirs in (("p50", ours.p50, reference.p50), ("p95", ours.p95, reference.p95)):
        table.add_row(f"one query, {name} ms", f"{own:.2f}", f"{theirs:.2f}", "", "")
    table.add_row("  p50 to the reading", "", "", f"{measured.to_the_floor:.2f}x", f"<= {GOALS['to the floor']}x")
    table.add_row(
        "  p50 to sentence-transformers",
        "",
        "",
        f"{measured.faster_than_reference:.2f}x faster",
        f">= {GOALS['to sentence-transformers']}x",
    )
    table.add_row("least cosine", "", "", f"{measured.least_cosine:.7f}", f">= {GOALS['least cosine']}")
    table.add_row("documents a second", f"{ours.documents_a_second:.0f}", f"{reference.documents_a_second:.0f}", "", "")
    table.add_row("import and load, s", f"{ours.load:.2f}", f"{reference.load:.2f}", "", "")
    table.add_row("memory, loaded, MB", f"{ours.memory_loaded:.0f}", f"{reference.memory_loaded:.0f}", "", "")
    table.add_row("memory, after all, MB", f"{ours.memory:.0f}", f"{reference.memory:.0f}", "", "")
    return table


def _callers(measured: Measured) -> Table:
    table = Table("callers at once", "queries a second", "p50 ms", "p95 ms", "processor ms a query")
    for calls in measured.concurrency:
        table.add_row(
            str(calls.callers),
            f"{calls.a_second:.0f}",
            f"{calls.p50:.1f}",
            f"{calls.p95:.1f}",
            f"{calls.processor:.2f}",
        )
    return table


def main() -> None:
    """Measure once; print, and write what was measured where `--json` says."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--rounds", type=int, default=5, help="turns of both embedders (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=512, help="texts of the bulk (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="for each number of callers (default: %(default)s)")
    options = parser.parse_args()
    measured = measure(rounds=options.rounds, documents=options.documents, seconds=options.seconds)
    report(measured)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(measured), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
