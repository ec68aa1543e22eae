"""What embedding costs: one query, callers at once, a bulk; ours in three precisions, and the two usual ways.

The embedders run in processes of their own and take turns, so that noise hits all alike. The floor is one reading of
the weights of all layers in float32 by one thread.
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
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from catalog_texts import texts
from embedding_subject import REFERENCE, SUBJECTS
from formulary_catalog.domain.workflows.labels import CANONICAL_SIGNAL_TYPES, SEVERITIES
from formulary_catalog.embedding.model import VECTOR_DIMENSIONS, locate
from quantiles import p50_and_p95

ENDINGS = ("", "payments")
CALLERS = (1, 8, 32)
GOALS = {
    "query to the floor": "<= 2.0x",
    "query to sentence-transformers": ">= 2.3x",
    "documents to sentence-transformers": ">= 2.0x",
    "32 callers to one": ">= 2.0x",
    "least cosine": ">= 0.9999",
}


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
    """One embedder: load in seconds, query times in milliseconds, memory in megabytes, ratios within a round."""

    name: str
    load: float
    p50: float
    p95: float
    to_the_floor: float
    faster_than_reference: float
    documents_a_second: float
    memory_loaded: float
    memory: float
    least_cosine: float
    concurrency: tuple[Calls, ...]

    @property
    def gain_of_callers(self) -> float:
        """Queries a second of the most callers, as a multiple of those of one."""
        return self.concurrency[-1].a_second / self.concurrency[0].a_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run. `floor` is the reading of the weights of all layers once, in milliseconds; `tokens` are of a query."""

    processor: str
    tokens: float
    floor: float
    sides: tuple[Side, ...]


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
    layer = 4 * VECTOR_DIMENSIONS**2 + 2 * VECTOR_DIMENSIONS * config["intermediate_size"]
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
    queries = [" ".join(words).strip() for words in product(CANONICAL_SIGNAL_TYPES, SEVERITIES, ENDINGS)]
    bulk = [f"{text.when_to_use} {text.what}" for text in texts()[:documents]]
    array = weights()
    floor(array, times=10)
    floors: list[float] = []
    times: dict[str, list[list[float]]] = {name: [] for name in SUBJECTS}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(process_of(name)) for name in SUBJECTS}
        loaded = {name: process.do("memory") for name, process in processes.items()}
        for number in range(rounds):
            asked = queries[number::rounds]
            floors.append(statistics.median(floor(array, times=len(asked))))
            for name, process in processes.items():
                times[name].append([each * 1000 for each in process.do("queries", texts=asked)])
        for process in processes.values():
            process.do("documents", texts=bulk)  # the first run of each shape takes longer than the others
        rates = {name: len(bulk) / process.do("documents", texts=bulk) for name, process in processes.items()}
        expected = _vectors(processes[REFERENCE], queries=queries, documents=bulk[:64])
        sides = tuple(
            Side(
                name=name,
                load=process.load_seconds,
                **_query_times(times[name], floors=floors, reference=times[REFERENCE]),
                documents_a_second=rates[name],
                memory_loaded=loaded[name] / 1e6,
                memory=process.do("memory") / 1e6,
                least_cosine=float(
                    np.sum(_vectors(process, queries=queries, documents=bulk[:64]) * expected, axis=1).min()
                ),
                concurrency=tuple(
                    _calls(each, process.do("callers", callers=each, seconds=seconds)) for each in CALLERS
                ),
            )
            for name, process in processes.items()
        )
    return Measured(
        processor=processor(), tokens=statistics.median(_tokens(queries)), floor=statistics.median(floors), sides=sides
    )


def processor() -> str:
    """Name of the processor, and whether it computes in bfloat16."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    bfloat16 = {"avx512_bf16", "amx_bf16", "bf16"} & {
        *values.get("flags", "").split(),
        *values.get("Features", "").split(),
    }
    return f"{values.get('model name', 'unknown')}, {'with' if bfloat16 else 'without'} bfloat16"


def _query_times(
    times: Sequence[Sequence[float]], *, floors: Sequence[float], reference: Sequence[Sequence[float]]
) -> dict[str, float]:
    p50, p95 = p50_and_p95([each for some in times for each in some])
    medians = [statistics.median(some) for some in times]
    return {
        "p50": p50,
        "p95": p95,
        "to_the_floor": statistics.median(own / least for own, least in zip(medians, floors, strict=True)),
        "faster_than_reference": statistics.median(
            statistics.median(theirs) / own for own, theirs in zip(medians, reference, strict=True)
        ),
    }


def _tokens(queries: Sequence[str]) -> list[int]:
    tokenizer = Tokenizer.from_file(str(locate("bundled").path / "tokenizer.json"))
    tokenizer.no_padding()
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(queries)]


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


def _vectors(
    process: Process, *, queries: Sequence[str], documents: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    with tempfile.TemporaryDirectory() as directory:
        file = str(Path(directory) / "vectors.npy")
        process.do("vectors", queries=queries, documents=documents, file=file)
        found: np.ndarray[Any, np.dtype[np.float64]] = np.load(file).astype(np.float64)
    return found


def report(measured: Measured) -> None:
    """Print the tables."""
    console = Console(width=120)
    console.print(
        f"{measured.processor}. Queries run on one thread, a bulk on two. "
        f"A query has {measured.tokens:g} tokens (median)."
    )
    console.print(f"Reading the weights of all layers once: {measured.floor:.2f} ms.")
    console.print(_comparison(measured))
    console.print(_callers(measured))


def _comparison(measured: Measured) -> Table:
    sides = measured.sides
    (reference,) = (side for side in sides if side.name == REFERENCE)
    table = Table("embedding", *(side.name for side in sides), "goal for ours")

    def row(title: str, cells: Iterator[str], goal: str = "") -> None:
        table.add_row(title, *cells, goal)

    row("one query, p50 ms", (f"{side.p50:.2f}" for side in sides))
    row("one query, p95 ms", (f"{side.p95:.2f}" for side in sides))
    row("  p50 to reading the weights", (f"{side.to_the_floor:.2f}x" for side in sides), GOALS["query to the floor"])
    row(
        "  faster than sentence-transformers",
        (f"{side.faster_than_reference:.2f}x" for side in sides),
        GOALS["query to sentence-transformers"],
    )
    row("documents a second", (f"{side.documents_a_second:.0f}" for side in sides))
    row(
        "  to sentence-transformers",
        (f"{side.documents_a_second / reference.documents_a_second:.2f}x" for side in sides),
        GOALS["documents to sentence-transformers"],
    )
    row(
        "32 callers to one, queries a second",
        (f"{side.gain_of_callers:.2f}x" for side in sides),
        GOALS["32 callers to one"],
    )
    row("least cosine to sentence-transformers", (f"{side.least_cosine:.6f}" for side in sides), GOALS["least cosine"])
    row("import and load, s", (f"{side.load:.2f}" for side in sides))
    row("memory, loaded, MB", (f"{side.memory_loaded:.0f}" for side in sides))
    row("memory, after all, MB", (f"{side.memory:.0f}" for side in sides))
    return table


def _callers(measured: Measured) -> Table:
    table = Table("callers at once", "", "queries a second", "p50 ms", "p95 ms", "processor ms a query")
    for side in measured.sides[:2]:
        for calls in side.concurrency:
            table.add_row(
                side.name,
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
