"""What an agent would paste, as judged queries for the starter catalog (`benchmarks/evidence`).

Of the lab's faults, `fit` and `judge`, each is asked three times: with all that was collected, with the alert alone,
and with its root cause. `issues` are what people paste into public issues, in our own words; nothing is fitted on them.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import yaml

from formulary_catalog.domain.pasted.problems import is_compound
from lab.evidence import MOST_CHARACTERS, pasted
from lab.fault import Part
from quality_judgements import Judgement

EVIDENCE = "evidence"
"""The ids of these queries begin with it."""
ISSUES = "issues"
_FOLDER = Path(__file__).parent / EVIDENCE
_OF_ALERTS = ("alert", "nothing")


class Evidence(Judgement):
    """A judged query, and the workflows that would do harm."""

    harmful: tuple[str, ...]


def read_evidence(part: Part) -> list[Evidence]:
    """The queries to fit on, or those to judge by: the kinds of their faults differ."""
    return [query for file in sorted((_FOLDER / part).glob("*.yaml")) for query in _of_fault(file, part=part)]


def read_issues() -> list[Evidence]:
    """The texts of public issues, by the format in which they are printed."""
    return [
        _query(f"{file.stem}-{each['id']}", each["text"], judged=each, part="held")
        for file in sorted((_FOLDER / ISSUES).glob("*.yaml"))
        for each in yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
    ]


def notifications(judged: Iterable[Judgement]) -> Iterator[Judgement]:
    """Alerts of judged queries, also those that nothing answers, as Alertmanager sends them: people paste these."""
    for each in judged:
        name, _, said = each.query.partition(" ")
        if each.kind in _OF_ALERTS and is_compound(name := name.rstrip(":")):
            alert = {"status": "firing", "labels": {"alertname": name}, "annotations": {"description": said}}
            query = json.dumps({"status": "firing", "alerts": [alert]})
            yield each.model_copy(update={"id": f"{EVIDENCE}-notification-{each.id}", "query": query})


def _of_fault(file: Path, *, part: Part) -> Iterator[Evidence]:
    found = yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
    asked = {"paste": pasted(found["texts"]), "alert": found["texts"]["alert"], "cause": found["root_cause"]}
    for way, text in asked.items():
        yield _query(f"{way}-{file.stem}", text, judged=found, part="tune" if part == "fit" else "held")


def _query(name: str, text: str, *, judged: dict[str, Any], part: Literal["tune", "held"]) -> Evidence:
    return Evidence(
        id=f"{EVIDENCE}-{name}",
        kind="root-cause" if name.startswith("cause-") else "pasted",
        part=part,
        query=text[:MOST_CHARACTERS],
        best=tuple(judged["right"]),
        acceptable=(),
        labels={},
        harmful=tuple(judged["harmful"]),
    )
