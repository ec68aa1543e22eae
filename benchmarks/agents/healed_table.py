"""What came of the first offers on a real node, as a part of the result page. `healing.py` writes the numbers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.remedies import HERE

ARMS = {
    "A": "all descriptions in the prompt",
    "B": "mcp-server-qdrant",
    "B2": "chroma-mcp",
    "C": "label boosts, simulated",
    "D": "flat tools, hybrid search",
    "E": "Formulary",
    "F": "Formulary with governance",
}
HEALED = HERE / "healed.json"
_HEAD = """\
{faults} faults of [the lab](../lab.md), {curable} of them with a right remedy, were put on a real node on {date}. What
each arm offers first for the root cause, of the starter catalog, was run by the same executor. *healed* and *harmed*
are what the cluster shows afterwards, not what the run reports. *harmed*: the workload next to it was changed, or
nothing may restart and a pod that was ready is gone. *healed* must hold for 20 s, which does not show a leak that comes
back. `unfilled`: the remedy needs a value that nothing in the fault says, so it was not run.
"""


def healed(written: Path = HEALED) -> Iterator[str]:
    """The lines of that part."""
    if not written.exists():
        yield "Not measured yet."
        return
    result = json.loads(written.read_text(encoding="utf-8"))
    trials: list[dict[str, Any]] = result["trials"]
    curable = {each["fault"]: each["curable"] for each in trials}
    yield _HEAD.format(faults=len(curable), curable=sum(curable.values()), date=result["date"])
    yield "| arm | offered | right | forbidden | run to its end | healed | harmed |\n|---|---|---|---|---|---|---|"
    for arm, words in ARMS.items():
        if of := [each for each in trials if each["arm"] == arm]:
            yield f"| {arm}, {words} | {' | '.join(f'{each} of {len(of)}' for each in _counts(of))} |"
    yield "\n| fault | nothing may | what the arms offered first, and how it ended |\n|---|---|---|"
    for fault in curable:
        of = [each for each in trials if each["fault"] == fault]
        yield f"| {fault} | {'restart' if of[0]['demand'] else '-'} | {'; '.join(_ends(of))} |"


def _counts(of: Sequence[Mapping[str, Any]]) -> list[int]:
    counted = {
        name: sum(bool(each[name]) for each in of) for name in ("remedy", "right", "forbidden", "healed", "harmed")
    }
    completed = sum(each["run"] == "completed" for each in of)
    return [
        *(counted[name] for name in ("remedy", "right", "forbidden")),
        completed,
        counted["healed"],
        counted["harmed"],
    ]


def _ends(of: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The arms that offered the same, what that was, and how it ended."""
    by_remedy: dict[str, list[Mapping[str, Any]]] = {}
    for each in of:
        by_remedy.setdefault(each["remedy"], []).append(each)
    for remedy, trials in by_remedy.items():
        arms = ", ".join(each["arm"] for each in trials)
        marks = [name for name in ("forbidden", "healed", "harmed") if trials[0][name]]
        yield f"{arms}: {', '.join([remedy, trials[0]['run'], *marks]) if remedy else 'nothing'}"
