"""Questions to a generated catalog, in classes by how much the labels leave over."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from catalogs import CUSTOM_KEY, ENVIRONMENTS, LARGEST, PRIORITIES, SEVERITIES, Catalog, Planned
from formulary_catalog.domain.workflows.labels import Constraints, fold

TEAM = "team-07"
UNKNOWN_ENVIRONMENT = "preproduction-9"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryClass:
    """Which labels a question gives, and whether it is asked in the tenant that owns half of the catalog.

    `unknown`: the environment is one that no workflow of the catalog names.
    """

    name: str
    labels: tuple[str, ...]
    largest: bool
    custom: bool = False
    unknown: bool = False


_TYPICAL = ("signal_type", "severity", "environment")
CLASSES = (
    QueryClass(name="narrow", labels=(*_TYPICAL, "priority"), largest=False, custom=True),
    QueryClass(name="typical", labels=_TYPICAL, largest=False),
    QueryClass(name="typical, largest", labels=_TYPICAL, largest=True),
    QueryClass(name="signal", labels=("signal_type",), largest=True),
    QueryClass(name="broad", labels=("severity",), largest=True),
    QueryClass(name="unfiltered", labels=(), largest=True),
)
SCALE_CLASSES = (*CLASSES, QueryClass(name="unknown value", labels=_TYPICAL, largest=True, unknown=True))
"""Only ours tells that nobody knows a value, so other stores are not asked by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one caller asks: in its namespace, under these constraints, with these words.

    `signal` and `severity` are the folded words that the text begins with; they constrain nothing.
    """

    namespace: str
    constraints: Constraints
    signal: str
    severity: str
    text: str


def questions(catalog: Catalog, wanted: QueryClass, *, count: int) -> list[Question]:
    """Questions about workflows of the catalog: each has at least one allowed answer, unless a value is unknown."""
    rng = random.Random(f"{catalog.seed}/{wanted.name}")
    return list(islice(_questions(catalog, wanted, rng=rng), count))


def _questions(catalog: Catalog, wanted: QueryClass, *, rng: random.Random) -> Iterator[Question]:
    while True:
        planned = catalog.workflow(rng.randrange(catalog.size))
        labels = planned.documents[-1]["spec"]["labels"]
        named = labels["signalType"] not in (["*"], [])
        if named and (planned.namespace == LARGEST) is wanted.largest:
            yield _question(catalog, planned, wanted=wanted, labels=labels, rng=rng)


def _question(
    catalog: Catalog, planned: Planned, *, wanted: QueryClass, labels: Mapping[str, list[str]], rng: random.Random
) -> Question:
    given = {
        "signal_type": labels["signalType"][0],
        "severity": _one(labels["severity"], SEVERITIES, rng=rng),
        "environment": UNKNOWN_ENVIRONMENT if wanted.unknown else _one(labels["environment"], ENVIRONMENTS, rng=rng),
        "priority": _one(labels["priority"], PRIORITIES, rng=rng),
    }
    teams = planned.documents[-1]["spec"]["customLabels"].get(CUSTOM_KEY, [TEAM])
    _, _, seen = catalog.sentences[planned.text].when_to_use.partition(": ")
    return Question(
        namespace=planned.namespace,
        constraints=Constraints(
            values={dimension: frozenset({fold(given[dimension])}) for dimension in wanted.labels},
            custom={CUSTOM_KEY: frozenset({_one(teams, (TEAM,), rng=rng)})} if wanted.custom else {},
        ),
        signal=fold(given["signal_type"]),
        severity=fold(given["severity"]),
        text=f"{given['signal_type']} {given['severity']} {seen.partition('. ')[0]}",
    )


def _one(declared: list[str], values: tuple[str, ...], *, rng: random.Random) -> str:
    return rng.choice(values if declared == ["*"] else declared)
