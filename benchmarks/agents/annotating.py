"""Two blind readings of the cases whose judge is not a list of official commands, and how far they agree.

    PYTHONPATH=benchmarks python -m agents.annotating sheet                 what a reader gets: no `right`
    PYTHONPATH=benchmarks python -m agents.annotating kappa ONE.yaml TWO.yaml

A reading is YAML, `id: act` for each case; `none` where no act of the list heals it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import yaml

from agents.questions import cases
from agents.remedies import HERE

SOURCES = ("sregym", "event")
NONE = "none"


def sheet() -> str:
    """The acts to choose from, and the cases without what is right."""
    acts = yaml.safe_load((HERE / "acts.yaml").read_text(encoding="utf-8"))
    asked = [each for each in cases() if each.id.startswith(SOURCES)]
    lines = ["For each case write the one act that heals it, or none.", "", *acts, NONE, ""]
    return "\n".join([*lines, *(f"{each.id}: {each.cause} [{each.evidence}]" for each in asked)])


def kappa(one: Mapping[str, str], two: Mapping[str, str]) -> float:
    """Cohen's kappa of two readings of the same cases."""
    if one.keys() != two.keys():
        raise SystemExit(f"not the same cases: {sorted(one.keys() ^ two.keys())}")
    agreed = sum(one[each] == two[each] for each in one) / len(one)
    first, second = Counter(one.values()), Counter(two.values())
    chance = sum(first[act] * second[act] for act in first) / len(one) ** 2
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def official() -> dict[str, str]:
    """The act that `cases.yaml` names first for each of these cases, in the order of the file, or none."""
    written = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))["cases"]
    return {each["id"]: (each["right"] or [NONE])[0] for each in written if each["id"].startswith(SOURCES)}


def main() -> None:
    """Print the sheet, or the agreement of two readings, and of each with `cases.yaml`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("what", choices=("sheet", "kappa"))
    parser.add_argument("readings", type=Path, nargs="*")
    options = parser.parse_args()
    if options.what == "sheet":
        sys.stdout.write(f"{sheet()}\n")
        return
    one, two = (yaml.safe_load(each.read_text(encoding="utf-8")) for each in options.readings)
    for name, pair in (("both", (one, two)), ("one, rules", (one, official())), ("two, rules", (two, official()))):
        sys.stdout.write(f"{name}: {kappa(*pair):.2f}\n")


if __name__ == "__main__":
    main()
