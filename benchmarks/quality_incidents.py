"""Judged queries under generated incidents, over a catalog in which teams own unrelated workflows.

An incident has up to four custom labels, its team first. A team owns 0 to 200 workflows that have nothing to do with
the queries and declare the labels of its incidents: none of them may push a right answer down.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quality_judgements import BEST, Judgement
from quality_metrics import Estimate, estimate, reciprocal_rank
from quality_variants import TEAM, Ask, Variant, asks
from unrelated_workflows import unrelated_workflows

OWNED = (0, 12, 50, 200)
LABELS = (0, 1, 2, 3, 4)
_PREFIX = "team-of-"
_FURTHER = {"region": "eu-west", "tier": "gold", "line": "retail"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What was found with so many custom labels, of a team that owns so many unrelated workflows."""

    labels: int
    owned: int
    ranks: Estimate
    moved: Mapping[str, float]
    """Of the queries whose first answer is unrelated: its confidence, by their id."""

    def as_json(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return asdict(self)


def custom_labels(count: int, *, owned: int) -> Mapping[str, tuple[str, ...]]:
    """The first labels of an incident of the team that owns so many."""
    values = {TEAM: _team(owned), **_FURTHER}
    return {key: (value,) for key, value in [*values.items()][:count]}


def manifests_of_teams() -> Iterator[dict[str, Any]]:
    """The unrelated workflows of all teams. They declare one to four of the labels, in turn."""
    for owned in OWNED:
        for number, document in enumerate(unrelated_workflows(owned, prefix=_team(owned), custom={})):
            document["spec"]["customLabels"] = {
                key: list(values) for key, values in custom_labels(1 + number % 4, owned=owned).items()
            }
            yield document


def grid(
    judgements: Sequence[Judgement], *, owning: Sequence[int] = OWNED, labels: Sequence[int] = LABELS
) -> Iterator[tuple[int, int, list[Ask]]]:
    """The number of labels, how many workflows the team owns, and the queries."""
    for owned in owning:
        for count in labels:
            custom = custom_labels(count, owned=owned)
            variant = Variant.INCIDENT if custom else Variant.FILTERED
            yield count, owned, [asks(each, variant, custom=custom) for each in judgements if each.has_answer]


def cell(labels: int, owned: int, answers: Sequence[tuple[Judgement, Sequence[tuple[str, float]]]]) -> Cell:
    """One number of the table, from the names and confidences that each query was answered with."""
    return Cell(
        labels=labels,
        owned=owned,
        ranks=estimate(
            [reciprocal_rank([judged.grade(name) for name, _ in hits], least=BEST) for judged, hits in answers]
        ),
        moved={judged.id: hits[0][1] for judged, hits in answers if hits and hits[0][0].startswith(_PREFIX)},
    )


def _team(owned: int) -> str:
    return f"{_PREFIX}{owned}"
