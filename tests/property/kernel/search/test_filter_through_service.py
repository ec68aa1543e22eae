"""Whatever else is in a query, an answer holds what the label rules allow (DESIGN section 4), and counts it."""

import itertools
import re
from collections.abc import AsyncIterator, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.explanation.answers import Explanation
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.text import exclusion_phrase
from formulary_catalog.domain.workflows.exclusion import narrowed_out
from formulary_catalog.domain.workflows.labels import (
    CANONICAL_SIGNAL_TYPES,
    DIMENSIONS,
    SEVERITIES,
    Constraints,
    Narrowing,
    fold,
    fold_all,
    normalize_detected,
)
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.explanation.service import Explaining
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import Rights
from support.adversarial import store
from support.databases import migrated_database
from support.examples import examples
from support.filling import entry
from support.services import open_parts, service_on

EVERY_ONE = 50
SIGNALS = ["OOMKilled", "DiskAlert", "Evicted", "evicted"]
VALUES = ["production", "Production", "staging", "critical", "high", "P0", "*"]
WORDS = ["memory", "drain", "node", "limit", "restart", "reboot"]
ACTIONS = ["RestartPod", "DrainNode"]
TEAMS = ["web", "data", "*"]
SWITCHES: list[bool | str] = [True, False, "true", "argocd", "*"]
NOTHING_SAID = RequestContext(namespace="", name="", remediation_id="")

some_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
some_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=2)
some_labels = st.dictionaries(st.sampled_from(DIMENSIONS), some_values, max_size=2)
some_custom = st.dictionaries(
    st.sampled_from(["team", "region"]), st.lists(st.sampled_from(TEAMS), min_size=1, max_size=2), max_size=2
)
some_detected = st.dictionaries(st.sampled_from(["hpaEnabled", "gitOpsTool"]), st.sampled_from(SWITCHES), max_size=1)


@dataclass(frozen=True)
class Workflow:
    """What a workflow in one of two namespaces declares and says."""

    namespace: str
    text: str
    signals: list[str]
    labels: dict[str, list[str]]
    custom: dict[str, list[str]]
    detected: dict[str, bool | str]

    def entry(self, position: int, *, number: int) -> CatalogEntry:
        anywhere = dict.fromkeys(("severity", "environment", "component", "priority"), "*")
        labels = {**anywhere, "signalType": self.signals} | {to_camel(name): self.labels[name] for name in self.labels}
        spec: dict[str, Any] = {"labels": labels, "customLabels": self.custom, "detectedLabels": self.detected}
        action = ACTIONS[position % len(ACTIONS)]
        document = manifest.workflow(f"w{position}", what=self.text, actionType=action, **spec)
        return entry(document, namespace=f"{self.namespace}{number}")


@dataclass(frozen=True)
class Asked:
    """What a caller asks in a search."""

    query: str
    labels: dict[str, list[str]] = field(default_factory=dict)
    exclude: list[str] = field(default_factory=list)


catalogs = st.lists(
    st.builds(
        Workflow,
        namespace=st.sampled_from("ab"),
        text=some_words,
        signals=st.lists(st.sampled_from([*SIGNALS, "*"]), max_size=2),
        labels=some_labels,
        custom=some_custom,
        detected=some_detected,
    ),
    min_size=1,
    max_size=6,
)
searches = st.builds(
    Asked,
    query=st.tuples(st.sampled_from([*SIGNALS, ""]), st.sampled_from(["critical", "HIGH,", ""]), some_words).map(
        " ".join
    ),
    labels=some_labels,
    exclude=st.lists(st.sampled_from([*WORDS, "restartpod", "helps", "…"]), max_size=2),
)
incidents = st.builds(
    replace,
    st.just(NOTHING_SAID),
    environment=st.sampled_from(["", "production", "staging"]),
    priority=st.sampled_from(["", "", "P0"]),
    cluster=st.sampled_from(["", "", "eu"]),
    custom_labels=some_custom.map(lambda given: {key: tuple(values) for key, values in given.items()}),
)
closer_incidents = st.builds(
    replace,
    incidents,
    strict_keys=st.frozensets(st.sampled_from(["team", "region"]), max_size=1),
    detected_labels=some_detected.map(
        lambda given: {key: normalize_detected(value) for key, value in given.items() if value != "*"}
    ),
)
sights = st.sampled_from([frozenset("ab"), frozenset("a"), frozenset("b")])


@dataclass(frozen=True)
class Loaded:
    """A catalog in namespaces of its own, with the incident `oom` in the first and its target in the second."""

    number: int
    entries: list[CatalogEntry]
    incident: RequestContext

    def caller(self, see: frozenset[str]) -> Caller:
        namespaces = {f"{name}{self.number}" for name in see}
        return Caller(name="agent", access=Rights(see=namespaces, use={self.incident.namespace}))

    @property
    def context(self) -> ContextReference:
        return ContextReference(analysis=f"{self.incident.namespace}/{self.incident.name}")

    def visible(self, see: frozenset[str]) -> list[CatalogEntry]:
        return [each for each in self.entries if each.namespace[0] in see]


class World:
    """One database, and the same service with and without an embedder."""

    def __init__(
        self,
        *,
        writer: CatalogWriter,
        contexts: ContextWriter,
        embedder: Embedder,
        parts: Mapping[str, CatalogParts],
    ) -> None:
        self._writer = writer
        self._contexts = contexts
        self._embedder = embedder
        self.parts = parts["meaning"]
        self._services = {by: service_on(each) for by, each in parts.items()}
        self._numbers = itertools.count()

    async def load(
        self, catalog: list[Workflow], *, incident: RequestContext, only: Container[int] = range(1_000)
    ) -> Loaded:
        number = next(self._numbers)
        entries = [
            workflow.entry(position, number=number) for position, workflow in enumerate(catalog) if position in only
        ]
        await store(entries, writer=self._writer, embedder=self._embedder)
        loaded = Loaded(number=number, entries=entries, incident=await self.happens(incident, number=number))
        return loaded

    async def happens(self, incident: RequestContext, *, number: int, name: str = "oom") -> RequestContext:
        """The incident, in the first namespace of a catalog."""
        own = replace(incident, namespace=f"a{number}", target_namespace=f"b{number}", name=name)
        named = replace(own, remediation_id=f"rr-{number}-{name}")
        await self._contexts.save(named)
        return named

    async def search(
        self, asked: Asked, loaded: Loaded, *, see: frozenset[str], by: str = "meaning", **more: Any
    ) -> SearchAnswer:
        given: dict[str, Any] = {"context": loaded.context, "top_k": EVERY_ONE} | more
        request = search_request(query=asked.query, labels=asked.labels, exclude_keywords=asked.exclude, **given)
        return await self._services[by].search(request, caller=loaded.caller(see))

    async def explain(
        self, workflow: CatalogEntry, asked: Asked, loaded: Loaded, *, see: frozenset[str]
    ) -> Explanation:
        request = search_request(
            query=asked.query,
            labels=asked.labels,
            exclude_keywords=asked.exclude,
            context=loaded.context,
            top_k=EVERY_ONE,
        )
        explaining = Explaining(self.parts, strict_keys=frozenset())
        return await explaining.of_search(workflow.version_id, request, caller=loaded.caller(see))


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[World]:
    async with (
        migrated_database(postgres) as dsn,
        Database.opened(dsn, role=Role.WRITER, deadline=30) as writing,
        open_parts(dsn, embedder=embedder, policy=ContextPolicy.REQUIRED) as meaning,
        open_parts(dsn, policy=ContextPolicy.REQUIRED) as words,
    ):
        parts = {"meaning": meaning, "words": words}
        yield World(writer=CatalogWriter(writing), contexts=ContextWriter(writing), embedder=embedder, parts=parts)


def demanded(asked: Asked, incident: RequestContext) -> Constraints:
    """What the labels of a request come to: those given, and those of the incident; the query demands nothing."""
    said = {
        "environment": [incident.environment],
        "priority": [incident.priority],
        "cluster": [incident.cluster],
    }
    wanted = {name: fold_all(values) for given in (asked.labels, said) for name, values in given.items() if any(values)}
    return Constraints(
        values=wanted,
        custom={key: frozenset(values) for key, values in incident.custom_labels.items()},
        strict_keys=incident.strict_keys,
        detected=incident.detected_labels,
    )


def holds_word(workflow: CatalogEntry, word: str) -> bool:
    """Whether a keyword stands in the texts that exclude."""
    spec = workflow.workflow.spec
    texts = [workflow.name, spec.title, spec.description.what, spec.description.when_to_use, spec.action_type]
    found = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    return any(found.search(text) for text in texts)


def may_be_returned(asked: Asked, loaded: Loaded, *, see: frozenset[str]) -> set[str]:
    visible = loaded.visible(see)
    constraints = demanded(asked, loaded.incident)
    excluded = [word for word in asked.exclude if word != "…"]  # which holds no word
    return {
        each.version_id
        for each in visible
        if allowed(each.labels, constraints) and not any(holds_word(each, word) for word in excluded)
    }


def mentioned(asked: Asked, loaded: Loaded, *, may: set[str]) -> dict[str, str]:
    """What is to be inferred of a query, where these may be returned."""
    first, second, *_ = [*asked.query.replace(",", " ").split(), ""]
    declared = {
        fold(signal)
        for each in loaded.entries
        if each.version_id in may
        for signal in each.workflow.spec.labels.signal_type
    }
    if fold(first) not in {*map(fold, CANONICAL_SIGNAL_TYPES), *declared}:
        return {}
    severity = {"severity": second.lower()} if second.lower() in SEVERITIES else {}
    return {
        "signal_type": next((each for each in CANONICAL_SIGNAL_TYPES if fold(each) == fold(first)), first)
    } | severity


def ids(answer: SearchAnswer) -> list[str]:
    return [hit.version_id for hit in answer.workflows]


some = examples(few=8, many=60)


@examples(few=40, many=200)
@given(catalog=catalogs, incident=closer_incidents, asked=st.lists(searches, min_size=3, max_size=5), see=sights)
async def test_an_answer_holds_exactly_what_the_rules_allow_to_the_caller(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: list[Asked], see: frozenset[str]
) -> None:
    loaded = await world.load(catalog, incident=incident)
    for each in asked:
        answer = await world.search(each, loaded, see=see)
        found, may = ids(answer), may_be_returned(each, loaded, see=see)
        assert len(set(found)) == len(found) == answer.total_results
        assert set(found) == may
        assert answer.inferred == mentioned(each, loaded, may=may)


@some
@given(
    catalog=catalogs, incident=closer_incidents, asked=searches, see=sights, by=st.sampled_from(["meaning", "words"])
)
async def test_without_a_length_a_page_holds_the_same_but_for_what_fits_nothing(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: Asked, see: frozenset[str], by: str
) -> None:
    loaded = await world.load(catalog, incident=incident)
    whole = await world.search(asked, loaded, see=see, by=by)
    page = await world.search(asked, loaded, see=see, by=by, top_k=None)
    kept = set(ids(page))
    assert page.workflows == [hit for hit in whole.workflows if hit.version_id in kept]
    assert (page.total_results, page.inferred) == (whole.total_results, whole.inferred)
    left_out = [note for note in page.notes if "left out" in note or "nothing that is allowed here fits" in note]
    assert bool(left_out) == (len(kept) < len(whole.workflows))


@some
@given(catalog=catalogs, keywords=st.lists(st.sampled_from([*WORDS, "restartpod", "…"]), min_size=1, max_size=2))
async def test_a_narrowed_search_holds_what_nothing_narrows_out(
    world: World, catalog: list[Workflow], keywords: list[str]
) -> None:
    loaded, see = await world.load(catalog, incident=NOTHING_SAID), frozenset("ab")
    of_a = f"a{loaded.number}"
    ways: list[dict[str, Any]] = [{"keywords": keywords}, {"namespace": of_a}, {"namespace": f"b{loaded.number}"}]
    ways += [{"action_type": action} for action in ("restartPod", "DRAINNODE", "Other")]
    ways.append({"action_type": "RestartPod", "namespace": of_a, "keywords": keywords})
    for way in ways:
        phrases = tuple(filter(None, map(exclusion_phrase, way.get("keywords", ()))))
        narrowing = Narrowing(**way | {"keywords": phrases})
        left = {
            each.version_id
            for each in loaded.entries
            if not any(
                narrowed_out(
                    each.labels, narrowing, namespace=each.namespace, action_type=each.workflow.spec.action_type
                )
            )
        }

        answer = await world.search(Asked(query="restart"), loaded, see=see, **way)

        assert set(ids(answer)) == may_be_returned(Asked(query="restart"), loaded, see=see) & left
        assert answer.total_results == len(ids(answer))


@some
@given(catalog=catalogs, incident=closer_incidents, asked=searches, data=st.data())
async def test_what_a_caller_may_not_have_changes_nothing_of_an_answer(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: Asked, data: st.DataObject
) -> None:
    """Excluded workflows and those of other namespaces influence neither how a query is read nor how others rank."""
    everyone, see = await world.load(catalog, incident=incident), data.draw(sights)
    may = may_be_returned(asked, everyone, see=see)
    allowed_ones = [position for position, each in enumerate(everyone.entries) if each.version_id in may]
    alone = await world.load(catalog, incident=incident, only=allowed_ones)
    among, by_themselves = [
        (
            [(hit.workflow_id, hit.confidence, hit.match_reasons) for hit in answer.workflows],
            answer.total_results,
            answer.inferred,
        )
        for answer in [await world.search(asked, loaded, see=see) for loaded in (everyone, alone)]
    ]
    assert among == by_themselves


@some
@given(catalog=catalogs, asked=searches, data=st.data())
async def test_a_least_confidence_drops_what_is_below_it_and_is_not_counted(
    world: World, catalog: list[Workflow], asked: Asked, data: st.DataObject
) -> None:
    loaded = await world.load(catalog, incident=NOTHING_SAID)
    whole = await world.search(asked, loaded, see=frozenset("ab"))
    reached = sorted({hit.confidence for hit in whole.workflows})
    least = data.draw(st.sampled_from([0.0, 1.0, *reached]) | st.floats(0, 1))
    answer = await world.search(asked, loaded, see=frozenset("ab"), min_confidence=least)
    assert answer.workflows == [hit for hit in whole.workflows if hit.confidence >= least]
    assert (answer.total_results, answer.search_mode) == (whole.total_results, whole.search_mode)


@some
@given(
    catalog=catalogs, incident=closer_incidents, asked=searches, see=sights, by=st.sampled_from(["meaning", "words"])
)
async def test_a_shorter_page_is_the_beginning_of_a_longer_one(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: Asked, see: frozenset[str], by: str
) -> None:
    loaded = await world.load(catalog, incident=incident)
    whole = await world.search(asked, loaded, see=see, by=by)
    for length in range(1, len(catalog) + 1):
        page = await world.search(asked, loaded, see=see, by=by, top_k=length)
        assert page.workflows == whole.workflows[:length]
        assert (page.total_results, page.search_mode) == (whole.total_results, whole.search_mode)


@some
@given(catalog=catalogs, incident=closer_incidents, asked=searches, see=sights)
async def test_without_an_embedder_the_same_workflows_are_allowed(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: Asked, see: frozenset[str]
) -> None:
    loaded = await world.load(catalog, incident=incident)
    by_meaning = await world.search(asked, loaded, see=see)
    by_words = await world.search(asked, loaded, see=see, by="words")
    assert set(ids(by_words)) == set(ids(by_meaning))
    assert by_words.total_results == by_meaning.total_results
    assert by_words.search_mode == "lexical"


@some
@given(catalog=catalogs, incident=closer_incidents, see=sights, limit=st.integers(1, 7))
async def test_the_pages_of_the_list_are_the_allowed_workflows_in_name_order(
    world: World, catalog: list[Workflow], incident: RequestContext, see: frozenset[str], limit: int
) -> None:
    loaded = await world.load(catalog, incident=incident)
    caller, listed = loaded.caller(see), []
    for offset in range(0, len(catalog) + limit, limit):
        request = ListingRequest(limit=limit, offset=offset)
        page = await Listing(world.parts).page(request, context=loaded.context, caller=caller)
        listed += page.workflows
        assert len(page.workflows) == min(limit, max(page.total_results - offset, 0))
    nothing_asked = Asked(query="anything")
    assert {each.version_id for each in listed} == may_be_returned(nothing_asked, loaded, see=see)
    names = [(each.workflow_id.rpartition("/")[2], each.namespace) for each in listed]
    assert names == sorted(set(names))


@some
@given(catalog=catalogs, incident=closer_incidents, asked=st.lists(searches, min_size=2, max_size=3), see=sights)
async def test_an_explanation_agrees_with_the_rules_and_with_the_answer_for_every_workflow(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: list[Asked], see: frozenset[str]
) -> None:
    loaded = await world.load(catalog, incident=incident)
    for each in asked:
        answer, may = await world.search(each, loaded, see=see), may_be_returned(each, loaded, see=see)
        for workflow in loaded.entries:
            if workflow.namespace[0] not in see:
                with pytest.raises(NotFound):
                    await world.explain(workflow, each, loaded, see=see)
                continue
            why = await world.explain(workflow, each, loaded, see=see)
            assert why.allowed == why.returned == (workflow.version_id in may)
            assert (why.excluded_by is None) == why.allowed
            assert why.total_results == answer.total_results
            if why.allowed:
                assert ids(answer)[(why.rank or 0) - 1] == workflow.version_id
                assert why.confidence == answer.workflows[(why.rank or 0) - 1].confidence
                # Each part is rounded to six digits, and so is the score.
                parts = sum(part.log_odds for part in why.evidence if part.in_score)
                assert why.score == pytest.approx(parts, abs=1e-5)
                assert bool(why.to_be_first) <= (why.rank != 1)


@some
@given(catalog=catalogs, incident=incidents, asked=searches)
async def test_what_the_incident_says_counts_as_if_the_caller_had_said_it(
    world: World, catalog: list[Workflow], incident: RequestContext, asked: Asked
) -> None:
    loaded = await world.load(catalog, incident=incident)
    silent = await world.happens(NOTHING_SAID, number=loaded.number, name="silent")
    said = {"environment": incident.environment, "priority": incident.priority, "cluster": incident.cluster}
    saying = replace(asked, labels=asked.labels | {name: [value] for name, value in said.items() if value})
    appended = await world.search(asked, loaded, see=frozenset("ab"))
    given = await world.search(
        saying,
        loaded,
        see=frozenset("ab"),
        custom_labels=incident.custom_labels,
        context=ContextReference(analysis=f"{silent.namespace}/{silent.name}"),
    )
    assert appended.workflows == given.workflows
    assert (appended.total_results, appended.search_mode) == (given.total_results, given.search_mode)
