"""The search statement returns exactly what the pure label rules allow, over generated catalogs and requests."""

import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.entry import CatalogEntry, catalog_entry
from formulary_catalog.domain.search.label_weights import label_evidence
from formulary_catalog.domain.text import exclusion_phrase
from formulary_catalog.domain.workflows.labels import DIMENSIONS, Constraints, fold_all, normalize_detected
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader, Candidates
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.databases import migrated_database
from support.examples import few_and_many

FIELDS = {dimension: to_camel(dimension) for dimension in DIMENSIONS}
CONSTRAINED = [*DIMENSIONS, "signal_type", "signal_type", "cluster"]  # those with SQL of their own more often
REQUIRED = ("severity", "environment", "component", "priority")

# What trips up SQL, JSON, LIKE or case folding. Each example draws a few of these, so that catalog and requests meet.
VALUES = ["high", "HIGH", " High ", "low", "*", "**", "Straße", "STRASSE", "İ", "i\u0307", "Σ", "ς", "a,b", "it's", "%"]
TEXTS = [
    "team",
    "Team",
    "a=b",
    "a,b",
    "it's",
    '"q"',
    "\\",
    "100%",
    "{}",
    "{0}",
    "$1",
    "a\nb",
    "🚀",
    " a ",
    "%s",
    "x" * 999,
]
WORDS = [
    "restart",
    "Restart Pod",
    "pod-kill",
    "Straße",
    "it's",
    "100% CPU",
    "C++",
    "drain_node",
    "drain node",
    "İzmir",
    "a|b",
    "…",
]
SOUGHT = [*WORDS, "pod", "kill", "strasse", "s", "izmir", "cpu c", "|", "kill title", "restartpod", "generated"]
DETECTED: list[bool | str] = [True, False, "true", "False", " TRUE ", "*", "ArgoCD", "argocd", ""]
LABELS = [
    *(("values", dimension) for dimension in DIMENSIONS),
    *(("custom", key) for key in ("a", "b", "c")),
    *(("detected", key) for key in ("gitOpsTool", "hpaEnabled")),
]
DETECTED_KEYS = ["hpaEnabled", "gitOpsTool", "it's"]
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)


@dataclass(frozen=True)
class Request:
    """What one search demands, and who sees what."""

    constraints: Constraints
    tenants: frozenset[str]


@dataclass(frozen=True)
class Scenario:
    """A catalog, as tenant and spec of each workflow, and what is asked of it."""

    catalog: list[tuple[str, dict[str, Any]]]
    requests: list[Request]


def specs(values: st.SearchStrategy[str], texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """The parts of a workflow's spec that decide whether it may be returned."""
    declared = st.lists(values | st.just("*"), min_size=1, max_size=2)
    maybe_empty = st.lists(values | st.just("*"), max_size=2)
    optional = {FIELDS[dimension]: maybe_empty for dimension in DIMENSIONS if dimension not in REQUIRED}
    return st.fixed_dictionaries(
        {
            "labels": st.fixed_dictionaries(dict.fromkeys(REQUIRED, declared), optional=optional),
            "customLabels": st.dictionaries(texts, st.lists(texts, max_size=2) | texts | st.just("*"), max_size=2),
            "detectedLabels": st.dictionaries(st.sampled_from(DETECTED_KEYS), st.sampled_from(DETECTED), max_size=2),
            "keywords": st.lists(st.sampled_from(WORDS), max_size=2),
            "title": st.sampled_from(["", "Title", "Kill it"]),
        }
    )


@st.composite
def requests(draw: st.DrawFn, values: st.SearchStrategy[str], texts: st.SearchStrategy[str]) -> Request:
    """Some constraints, of callers who see either tenant, both, or another one."""
    wanted = draw(st.dictionaries(st.sampled_from(CONSTRAINED), st.lists(values, max_size=2), max_size=2))
    custom = draw(st.dictionaries(texts, st.frozensets(texts, max_size=2), max_size=2))
    observed = draw(st.dictionaries(st.sampled_from(DETECTED_KEYS), st.sampled_from(DETECTED), max_size=1))
    excluded = draw(st.lists(st.sampled_from(SOUGHT), max_size=1))
    return Request(
        constraints=Constraints(
            values={dimension: fold_all(given) for dimension, given in wanted.items()},
            custom=custom,
            strict_keys=draw(st.frozensets(texts, max_size=1)),
            detected={key: normalize_detected(value) for key, value in observed.items()},
            excluded_phrases=tuple(phrase for keyword in excluded if (phrase := exclusion_phrase(keyword))),
        ),
        tenants=draw(st.sampled_from([frozenset("ab"), frozenset("a"), frozenset("b"), frozenset("c")])),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A small catalog of two tenants, and requests that share its words."""
    values = st.sampled_from(draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4)))
    texts = st.sampled_from(draw(st.lists(st.sampled_from(TEXTS) | anything, min_size=1, max_size=3)))
    return Scenario(
        catalog=draw(st.lists(st.tuples(st.sampled_from("ab"), specs(values, texts)), min_size=1, max_size=6)),
        requests=draw(st.lists(requests(values, texts), min_size=5, max_size=15)),
    )


@dataclass(frozen=True)
class Store:
    """Both sides of the store."""

    writer: CatalogWriter
    reader: CandidateReader

    async def candidates(self, constraints: Constraints, *, visible: frozenset[str]) -> Candidates:
        return await self.reader.read(
            CandidateQuery(constraints=constraints, words=["restart", "pod"]), namespaces=visible
        )


@pytest.fixture(scope="module")
async def store(postgres: EmbeddedPostgres) -> AsyncIterator[Store]:
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        reading = await Database.open(dsn, role=Role.SERVER, deadline=30)
        yield Store(writer=CatalogWriter(writing), reader=CandidateReader(reading))
        await writing.close()
        await reading.close()


# Each catalog has namespaces of its own: those of all earlier ones stay, as the other tenants of a full database.
catalog_numbers = itertools.count()


async def _returns_exactly_the_workflows_that_the_rules_allow(store: Store, scenario: Scenario) -> None:
    number = next(catalog_numbers)
    entries = [
        catalog_entry(manifest.workflow(f"w{position}", **spec), source="", default_namespace=f"{tenant}{number}")
        for position, (tenant, spec) in enumerate(scenario.catalog)
    ]
    for entry in entries:
        await store.writer.apply(entry)
    for request in scenario.requests:
        visible = frozenset(f"{tenant}{number}" for tenant in request.tenants)
        await _finds_what_the_rules_allow(store, entries, constraints=request.constraints, visible=visible)


test_a_search_returns_exactly_the_workflows_that_the_rules_allow, test_so_do_many_searches = few_and_many(
    _returns_exactly_the_workflows_that_the_rules_allow, few=50, many=350, scenario=scenarios()
)


async def test_each_label_decides_beside_any_other_one_and_beside_one_that_is_asked_for_without_values(
    store: Store,
) -> None:
    namespace = f"pairs{next(catalog_numbers)}"
    entries = [
        catalog_entry(_declaring_otherwise(label, name=f"w{position}"), source="", default_namespace=namespace)
        for position, label in enumerate([None, *LABELS])
    ]
    for entry in entries:
        await store.writer.apply(entry)
    for one, other in itertools.permutations(LABELS, 2):
        for asked in ({one, other}, {other}):
            constraints = Constraints(
                values={name: _wanted((kind, name) in asked) for kind, name in (one, other) if kind == "values"},
                custom={name: _wanted((kind, name) in asked) for kind, name in (one, other) if kind == "custom"},
                strict_keys=frozenset({"a"}),
                detected={name: "asked" for kind, name in asked if kind == "detected"},
            )
            await _finds_what_the_rules_allow(store, entries, constraints=constraints, visible=frozenset({namespace}))


def _declaring_otherwise(label: tuple[str, str] | None, *, name: str) -> dict[str, Any]:
    """A workflow that declares for each label what is asked for, but for this one."""
    declared = {each: "other" if each == label else "asked" for each in LABELS}
    return manifest.workflow(
        name,
        labels={FIELDS[key]: [value] for (kind, key), value in declared.items() if kind == "values"},
        customLabels={key: [value] for (kind, key), value in declared.items() if kind == "custom"},
        detectedLabels={key: value for (kind, key), value in declared.items() if kind == "detected"},
    )


def _wanted(asked: bool) -> frozenset[str]:
    return frozenset({"asked"}) if asked else frozenset()


async def _finds_what_the_rules_allow(
    store: Store, entries: Sequence[CatalogEntry], *, constraints: Constraints, visible: frozenset[str]
) -> None:
    expected = {
        (entry.namespace, entry.name): pytest.approx(label_evidence(entry.labels, constraints), abs=1e-9)
        for entry in entries
        if entry.namespace in visible and allowed(entry.labels, constraints)
    }
    candidates = await store.candidates(constraints, visible=visible)
    assert {(each.namespace, each.name): each.labels for each in candidates.evidence} == expected
    assert candidates.total == len(candidates.evidence) == len(expected)
