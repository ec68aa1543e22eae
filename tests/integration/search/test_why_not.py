"""Why-not is the matcher's word: 500 random pairs of a search and a workflow, with incidents and custom labels."""

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import (
    MAX_TOP_K,
    ContextReference,
    SearchRequest,
    search_request,
)
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels, fold_all, wire_name
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.explanation.service import Explaining
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import fill
from support.runnable import EVERYWHERE, runnable
from support.services import open_parts

CHANCE = random.Random(25)
AGENT = Caller(name="agent", access=EVERYTHING)
VALUES = {
    "severity": ["critical", "low"],
    "environment": ["production", "staging"],
    "component": ["v1/Pod", "v1/Node"],
    "priority": ["P1", "P2"],
}
TEAMS, TIERS = ["payments", "search"], ["gold", "basic"]
STRICT = "tier"
WORKFLOWS = 20
SEARCHES = 25


def some(values: Sequence[str]) -> list[str]:
    return CHANCE.choice([[CHANCE.choice(values)], list(values), ["*"]])


DOCUMENTS = [
    runnable(
        f"random-{number}",
        what=f"Changes the {CHANCE.choice(['memory limit', 'replicas', 'node'])} of number {number}.",
        labels=EVERYWHERE
        | {name: some(values) for name, values in VALUES.items()}
        | {"signalType": CHANCE.choice(["OOMKilled", "Evicted", "*"])},
        customLabels={key: some(values) for key, values in (("team", TEAMS), (STRICT, TIERS)) if CHANCE.random() < 0.6},
        detectedLabels=CHANCE.choice([{}, {"gitOpsTool": "argocd"}, {"gitOpsTool": "*"}, {"hpaEnabled": True}]),
    )
    for number in range(WORKFLOWS)
]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A search, the incident that it is for, and what both demand of a workflow, written down by hand."""

    request: SearchRequest
    incident: RequestContext | None
    constraints: Constraints


def some_case(number: int) -> Case:
    incident = None
    if CHANCE.random() < 0.7:
        incident = RequestContext(
            namespace="shop",
            name=f"case-{number}",
            remediation_id=f"rr-{number}",
            environment=CHANCE.choice(["", *VALUES["environment"]]),
            priority=CHANCE.choice(["", *VALUES["priority"]]),
            custom_labels={
                key: (CHANCE.choice(values),)
                for key, values in (("team", TEAMS), (STRICT, TIERS))
                if CHANCE.random() < 0.5
            },
            strict_keys=frozenset(CHANCE.sample([STRICT, "team"], CHANCE.choice([0, 1]))),
            detected_labels=CHANCE.choice(
                [{}, {"gitOpsTool": "flux"}, {"gitOpsTool": "argocd", "hpaEnabled": "false"}]
            ),
        )
    labels = {name: [CHANCE.choice(values)] for name, values in VALUES.items() if CHANCE.random() < 0.2}
    if CHANCE.random() < 0.3:
        labels["signal_type"] = [CHANCE.choice(["OOMKilled", "Evicted"])]
    excluded = CHANCE.choice([[], [], ["replicas"]])
    own: Mapping[str, tuple[str, ...]] = {} if incident else CHANCE.choice([{}, {"team": (CHANCE.choice(TEAMS),)}])
    return Case(
        request=search_request(
            query="memory limit",
            labels=labels,
            exclude_keywords=excluded,
            custom_labels=own,
            top_k=MAX_TOP_K,
            context=ContextReference(remediation_id=incident.remediation_id if incident else ""),
        ),
        incident=incident,
        constraints=Constraints(
            values={name: fold_all(values) for name, values in labels.items()}
            | {
                name: fold_all([value])
                for name in ("environment", "priority")
                if incident and (value := getattr(incident, name))
            },
            custom={key: frozenset(values) for key, values in (incident.custom_labels if incident else own).items()},
            strict_keys=incident.strict_keys if incident else frozenset(),
            detected=incident.detected_labels if incident else {},
            excluded_phrases=tuple(f" {word} " for word in excluded),
        ),
    )


CASES = [some_case(number) for number in range(SEARCHES)]


@pytest.fixture
async def entries(workflows: CatalogWriter, contexts: ContextWriter) -> list[CatalogEntry]:
    for case in CASES:
        if case.incident is not None:
            await contexts.save(case.incident)
    return await fill(workflows, DOCUMENTS)


@pytest.fixture
async def parts(database: str, entries: list[CatalogEntry]) -> AsyncIterator[CatalogParts]:
    async with open_parts(database) as opened:
        yield opened


def rules_against(workflow: WorkflowLabels, constraints: Constraints) -> set[str]:
    """The rules that exclude the workflow, each asked for alone."""
    alone = {
        **{wire_name(name): Constraints(values={name: wanted}) for name, wanted in constraints.values.items()},
        "custom-label": Constraints(custom=constraints.custom, strict_keys=constraints.strict_keys),
        "detected-label": Constraints(detected=constraints.detected),
        "exclude-keywords": Constraints(excluded_phrases=constraints.excluded_phrases),
    }
    return {rule for rule, each in alone.items() if not allowed(workflow, each)}


async def test_why_not_agrees_with_the_matcher_and_with_the_search_for_500_pairs(
    service: CatalogService, parts: CatalogParts, entries: list[CatalogEntry]
) -> None:
    explaining = Explaining(parts, strict_keys=frozenset())
    seen = list[str]()
    pairs = 0
    for case in CASES:
        answer = await service.search(case.request, caller=AGENT)
        found = {hit.version_id for hit in answer.workflows}
        for entry in entries:
            pairs += 1
            why = await explaining.of_search(entry.version_id, case.request, caller=AGENT)
            rules = rules_against(entry.labels, case.constraints)
            said = [each.rule for each in ([why.excluded_by] if why.excluded_by else []) + why.also_excluded_by]
            assert why.allowed == allowed(entry.labels, case.constraints) == (not rules), (case, entry.name)
            assert set(said) == rules, (case, entry.name)
            assert why.returned == (entry.version_id in found), (case, entry.name)
            seen += said[:1] or ["allowed"]
    assert pairs == 500
    assert {"allowed", "custom-label", "detected-label", "exclude-keywords", "environment", "signal-type"} <= set(seen)
    assert all(20 < seen.count(each) for each in ("allowed", "custom-label", "detected-label"))
