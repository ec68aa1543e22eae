"""Checks that the product stays within `scripts/budget.toml`: a step of `make check`.

`scripts/test.py` holds a run of the first tier of tests against the same file.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from formulary_catalog.settings import Settings
from formulary_operator.settings import OperatorSettings

ROOT = Path(__file__).parents[1]
BUDGET = ROOT / "scripts" / "budget.toml"
Budget = Mapping[str, Any]
_WHILE_BUSY = 1.25
"""Times the processor time of the same tests: 15.1 instead of 11.5 minutes at a load of 8, of which the yardstick,
slower there too, explains a twentieth."""


def main() -> int:
    return report(excesses_of_product(load_budget()))


def load_budget() -> Budget:
    """What `scripts/budget.toml` says."""
    return tomllib.loads(BUDGET.read_text())


def report(excesses: Iterable[str]) -> int:
    """Print them with the way out; the exit code."""
    found = list(excesses)
    for excess in found:
        print(excess, file=sys.stderr)
    if found:
        print(f"Make it smaller, or raise the number in {BUDGET.relative_to(ROOT)} and say why there.", file=sys.stderr)
    return 1 if found else 0


def excesses_of_product(budget: Budget) -> Iterator[str]:
    """What is larger than the budget allows: folders by modules and lines, files by lines, settings."""
    for folder, allowed in budget["folders"].items():
        lengths = [_lines(path) for path in (ROOT / folder).rglob("*.py")]
        for what, found in (("modules", len(lengths)), ("lines", sum(lengths))):
            if found > allowed[what]:
                yield f"{folder}: {found} {what}, budget {allowed[what]}"
    missing = {folder.as_posix() for folder in _top_folders()} - set(budget["folders"])
    yield from (f"{folder}: not in the budget" for folder in sorted(missing))
    for file, lines in budget["files"].items():
        if (found := _lines(ROOT / file)) > lines:
            yield f"{file}: {found} lines, budget {lines}"
    settings = len(Settings.model_fields.keys() | OperatorSettings.model_fields.keys())
    if settings > budget["settings"]["most"]:
        yield f"settings: {settings}, budget {budget['settings']['most']}"


def excesses_of_run(
    budget: Budget,
    *,
    processor_seconds: float,
    yardstick_milliseconds: float,
    durations: Mapping[str, float],
    whole: Mapping[str, float] | None = None,
    busy: bool,
) -> Iterator[str]:
    """What a run of the first tier took beyond the budget: with these shares of suites `whole`, and the elapsed seconds
    of tests.

    Its processor time is held against the budget as what it would have been on the machine of the budget, on which the
    yardstick of `scripts/test.py` took as long as the budget says. A test may last longer on a slower machine, and no
    shorter on a faster one: some of its time is not the processor's.
    While something else keeps the machine `busy`, elapsed time says nothing about a test and is not checked, and work
    takes more of a processor whose caches are shared.
    """
    allowed = budget["tests"]
    slowness = yardstick_milliseconds / allowed["yardstick_milliseconds"]
    minutes = processor_seconds / 60 / slowness
    suites, whole = budget["suites"], whole or {}
    more = sum(share * suites[suite]["processor_minutes"] for suite, share in whole.items())
    most = (allowed["processor_minutes"] + more) * (_WHILE_BUSY if busy else 1)
    tests = " and ".join(
        ["first tier", *(f"{share:.0%} of {suites[suite]['tests']}" for suite, share in whole.items())]
    )
    said = f"{tests}: {minutes:.1f} minutes of processor time, budget {most:.0f}"
    print(
        f"{said} ({processor_seconds / 60:.1f} minutes here, where all takes {slowness:.2f} times as long)", flush=True
    )
    if minutes > most:
        yield said
    if busy:
        print("the length of single tests is not checked: the machine was busy with more than them", flush=True)
        return
    longest = allowed["longest_seconds"] * max(slowness, 1.0)
    for test, seconds in durations.items():
        if seconds > longest:
            yield f"{test}: {seconds:.0f} s, budget {longest:.0f}: mark it long, add a short sister"


def _top_folders() -> Iterator[Path]:
    """The folders of the product that the budget names one by one."""
    catalog = ROOT / "catalog" / "formulary_catalog"
    for path in (*catalog.iterdir(), ROOT / "operator" / "formulary_operator"):
        if next(path.glob("*.py"), None) is not None:
            yield path.relative_to(ROOT)


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    sys.exit(main())
