"""What `bench_scale.py` measured, and how that stands to the goals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from goals import Goal, goals_table
from scale_subject import CANDIDATES, EXACT, LEXICAL, NUMBERS, SCAN, SEARCH, SORTED, TRIP, WAYS
from workload import SCALE_CLASSES

GOAL_SIZE, GROWN_FROM = 100_000, 10_000
TYPICAL = ("typical", "typical, largest")
"""Both are typical by their labels: of some tenant, drawn as often as it has workflows, and of the one with half."""
_SIGNAL, _UNFILTERED = "signal", "unfiltered"
_NO_SIGNAL = tuple(each.name for each in SCALE_CLASSES if "signal_type" not in each.labels)
_TO_NUMPY, _SIGNAL_TO_NUMPY, _GROWTH, _NO_SIGNAL_MS, _WORDS = 8.0, 12.0, 1.5, 25.0, 2.0
_NUMBERS = 2.0
_UNFILTERED_TO_SCAN = {1_000: 15.0, GOAL_SIZE: 2.0}
"""By size: how many times as long as numpy's scan of the same rows a search without any filter may take."""
_RECALL, _EXACT_UP_TO = 0.995, 10_000
"""Up to so many workflows nothing may be lost; beyond, where no signal is given, this share has to be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Milliseconds of one way to answer; `processor` is the back end's, None where it was not taken."""

    p50: float
    p95: float
    processor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """One class of questions at one size.

    `recall` is the share of the exact best ten, by id, that are the best ten of the candidates; `lost` the
    mean cosine lost.
    """

    name: str
    candidates: float
    recall: float
    lost: float
    times: dict[str, Times]

    def ratio(self, way: str, to: str) -> float:
        """How many times as long one way takes as another, at the median."""
        return self.times[way].p50 / self.times[to].p50


Results = Mapping[int, Sequence[ClassResult]]


def goals(results: Results) -> list[Goal]:
    """The goals that the measured sizes tell of.

    The search of the older goals is the exact semantic one alone. What the product does more, looking for words,
    reading the page, is held against the same numbers, and called the whole search.
    """
    return [*_everywhere(results), *_at_goal_size(results), *_growth(results)]


def _everywhere(results: Results) -> Iterator[Goal]:
    for size, classes in results.items():
        found = _by_name(classes)
        recalls = [each.recall for each in classes if size <= _EXACT_UP_TO or each.name not in _NO_SIGNAL]
        yield Goal(
            what=f"recall@10 where it is exact, the worst class, {size:,}",
            measured=min(recalls),
            limit=1.0,
            unit="",
            least=True,
        )
        if size > _EXACT_UP_TO:
            yield Goal(
                what=f"recall@10 without a signal, the worst class, {size:,}",
                measured=min(found[name].recall for name in _NO_SIGNAL),
                limit=_RECALL,
                unit="",
                least=True,
            )
        if limit := _UNFILTERED_TO_SCAN.get(size):
            to_scan = found[_UNFILTERED].ratio(SEARCH, SCAN)
            yield Goal(what=f"unfiltered: whole search to numpy's scan, {size:,}", measured=to_scan, limit=limit)


def _at_goal_size(results: Results) -> Iterator[Goal]:
    found = _by_name(results.get(GOAL_SIZE, ()))
    if not found:
        return
    for way in (EXACT, SEARCH):
        for name in TYPICAL:
            yield Goal(what=f"{name}: {way} to numpy", measured=found[name].ratio(way, SORTED), limit=_TO_NUMPY)
        to_numpy = found[_SIGNAL].ratio(way, SORTED)
        yield Goal(what=f"signal only: {way} to numpy", measured=to_numpy, limit=_SIGNAL_TO_NUMPY)
    for name in _NO_SIGNAL:
        p50 = found[name].times[SEARCH].p50
        yield Goal(what=f"no signal, {name}: {SEARCH}", measured=p50, limit=_NO_SIGNAL_MS, unit=" ms")
    for name in TYPICAL:
        with_words = found[name].ratio(CANDIDATES, EXACT)
        yield Goal(what=f"{name}: with words to {EXACT}", measured=with_words, limit=_WORDS)
    in_numbers = found[_UNFILTERED].ratio(NUMBERS, SEARCH)
    yield Goal(what=f"{_UNFILTERED}: {NUMBERS} to {SEARCH}", measured=in_numbers, limit=_NUMBERS)


def _growth(results: Results) -> Iterator[Goal]:
    small, large = (_by_name(results.get(size, ())) for size in (GROWN_FROM, GOAL_SIZE))
    if not small or not large:
        return
    for way in (EXACT, SEARCH):
        for name in TYPICAL:
            grown = large[name].times[way].p50 / small[name].times[way].p50
            yield Goal(what=f"{name}: {way}, {GROWN_FROM:,} to {GOAL_SIZE:,}", measured=grown, limit=_GROWTH)


def _by_name(classes: Sequence[ClassResult]) -> dict[str, ClassResult]:
    return {each.name: each for each in classes}


def report(size: int, classes: Sequence[ClassResult]) -> None:
    """Print what was measured at one size."""
    console = Console(width=190)
    times = Table("question", "allowed", "recall@10", *(f"{way}\np50/p95 ms" for way in WAYS))
    times.title = f"{size:,} workflows"
    pairs = (
        *((SEARCH, SORTED), (SEARCH, SCAN), (EXACT, SORTED), (CANDIDATES, EXACT), (LEXICAL, EXACT)),
        *((CANDIDATES, TRIP), (NUMBERS, SEARCH)),
    )
    ratios = Table("question", *(f"{way}\nto {to}" for way, to in pairs), title=f"{size:,} workflows, ratios at p50")
    for each in classes:
        times.add_row(
            each.name,
            f"{each.candidates:,.0f}",
            f"{each.recall:.3f}",
            *(f"{each.times[way].p50:.2f}/{each.times[way].p95:.2f}" for way in WAYS),
        )
        ratios.add_row(each.name, *(f"{each.ratio(way, to):.1f}x" for way, to in pairs))
    console.print(times)
    console.print(ratios)


def report_all(results: Results) -> None:
    """Print how many times as long searches take from each size to the next, and the goals."""
    console = Console(width=190)
    for (small, before), (large, after) in pairwise(results.items()):
        for way in (SEARCH, CANDIDATES, EXACT, LEXICAL):
            grown = ", ".join(
                f"{one.name} {two.times[way].p50 / one.times[way].p50:.2f}x"
                for one, two in zip(before, after, strict=True)
            )
            console.print(f"{way}, {small:,} to {large:,} workflows: {grown}")
    console.print(
        f"The goals are for {GOAL_SIZE:,} workflows. Two classes are typical: `{TYPICAL[0]}` asks in a tenant as it is "
        f"drawn, `{TYPICAL[1]}` in the one that owns half. numpy, where nothing is "
        "said of it, is the scan of rows sorted by tenant and signal."
    )
    console.print(goals_table(goals(results), title="goal"))
