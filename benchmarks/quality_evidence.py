"""What an agent would paste of the lab's faults (`benchmarks/evidence`), as judged queries for the starter catalog.

Each fault is asked three times: with all that was collected, with the alert alone, and with its root cause.
"""

from pathlib import Path

import yaml

from lab.evidence import MOST_CHARACTERS, pasted
from lab.fault import Part
from quality_judgements import Judgement

EVIDENCE = "evidence"
"""The ids of these queries begin with it."""
_FOLDER = Path(__file__).parent / EVIDENCE


def read_evidence(part: Part) -> list[Judgement]:
    """The queries to fit on, or those to judge by: the kinds of their faults differ."""
    return [query for file in sorted((_FOLDER / part).glob("*.yaml")) for query in _queries(file, part=part)]


def _queries(file: Path, *, part: Part) -> list[Judgement]:
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    asked = {"paste": pasted(found["texts"]), "alert": found["texts"]["alert"], "cause": found["root_cause"]}
    return [
        Judgement(
            id=f"{EVIDENCE}-{way}-{file.stem}",
            kind="root-cause" if way == "cause" else "pasted",
            part="tune" if part == "fit" else "held",
            query=query[:MOST_CHARACTERS],
            best=tuple(found["right"]),
            acceptable=(),
            labels={},
        )
        for way, query in asked.items()
    ]
