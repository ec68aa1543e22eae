"""What must hold of the order and of confidence, whatever the catalog and the incident (DESIGN section 5)."""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer, SearchMode
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.candidates import CandidateEvidence
from formulary_catalog.domain.search.fit import Wanted
from formulary_catalog.domain.search.label_weights import SEVERITY_CONTRADICTED, SEVERITY_WEIGHT, label_evidence
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.search.scoring import NOISE, Scored, rank
from formulary_catalog.domain.search.terms import Term, query_terms
from formulary_catalog.domain.text import WordPlace
from formulary_catalog.domain.workflows.labels import Constraints, WorkflowLabels
from formulary_catalog.domain.workflows.matching import allowed
from formulary_catalog.embedding import Embedder
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import Rights
from support.adversarial import store, store_embedded
from support.databases import migrated_database
from support.filling import entry, starter_documents
from support.services import open_parts, service_on

QUERIES = (
    "DNS lookups fail, SERVFAIL from CoreDNS",
    "OOMKilled critical exit code 137",
    "pod",
    "the disk of the node is full and pods are evicted",
)
TERMS = {query: query_terms(query) for query in QUERIES}
TEAM, OTHERS = "payments", "search"
KEYS = ("team", "region", "tier", "app")
MODES = (SearchMode.HYBRID, SearchMode.LEXICAL, SearchMode.LABELS_ONLY)


@dataclass(frozen=True)
class Workflow:
    """What a workflow declares, and how it meets a query of any number of terms."""

    name: str
    labels: WorkflowLabels
    cosine: float | None
    places: tuple[WordPlace, ...]
    severity: float

    def evidence(self, constraints: Constraints, *, terms: Sequence[Term]) -> CandidateEvidence:
        return CandidateEvidence(
            version_id=self.name,
            namespace="formulary",
            name=self.name,
            labels=label_evidence(self.labels, constraints),
            severity=self.severity,
            cosine=self.cosine,
            places=bytes(place for place, _ in zip(itertools.cycle(self.places), terms, strict=False)),
        )


@dataclass(frozen=True)
class Asked:
    """A query, and how it is ranked."""

    query: str
    mode: SearchMode
    severity_inferred: bool
    nearest_known: float | None = None

    def rank(self, workflows: Sequence[Workflow], constraints: Constraints) -> list[Scored]:
        """Those that the constraints allow, in order."""
        terms = TERMS[self.query]
        return rank(
            [each.evidence(constraints, terms=terms) for each in workflows if allowed(each.labels, constraints)],
            wanted=Wanted.of(terms, usable=[True] * len(terms)),
            mode=self.mode,
            severity_inferred=self.severity_inferred,
            nearest_known=self.nearest_known,
        )


cosines = st.none() | st.integers(-1000, 1000).map(lambda thousandths: thousandths / 1000)
declared = st.builds(
    WorkflowLabels,
    values=st.dictionaries(
        st.sampled_from(["environment", "priority", "component"]),
        st.frozensets(st.sampled_from(["production", "p0", "pod", "*"]), min_size=1, max_size=2),
        max_size=2,
    ),
    custom=st.dictionaries(
        st.sampled_from(KEYS), st.frozensets(st.sampled_from([TEAM, OTHERS, "*"]), min_size=1, max_size=2)
    ),
    detected=st.dictionaries(st.sampled_from(["gitOpsTool", "hpaEnabled"]), st.sampled_from(["true", "*"]), max_size=1),
)
workflows = st.builds(
    Workflow,
    name=st.uuids().map(str),
    labels=declared,
    cosine=cosines,
    places=st.lists(st.sampled_from(WordPlace), min_size=1, max_size=6).map(tuple),
    severity=st.sampled_from([0.0, SEVERITY_WEIGHT, -SEVERITY_CONTRADICTED]),
)
catalogs = st.lists(workflows, min_size=1, max_size=8, unique_by=lambda workflow: workflow.name)
incidents = st.builds(
    Constraints,
    values=st.fixed_dictionaries({}, optional={"environment": st.just(frozenset({"production"}))}),
    custom=st.dictionaries(st.sampled_from(KEYS[1:]), st.just(frozenset({TEAM})), max_size=3),
    detected=st.fixed_dictionaries({}, optional={"gitOpsTool": st.just("true")}),
)
queries = st.builds(
    Asked,
    query=st.sampled_from(QUERIES),
    mode=st.sampled_from(MODES),
    severity_inferred=st.booleans(),
    nearest_known=st.none() | st.floats(0, 1),
)


def names(ranked: Sequence[Scored]) -> list[str]:
    return [each.evidence.name for each in ranked]


def confidences(ranked: Sequence[Scored]) -> dict[str, float]:
    return {each.evidence.name: each.confidence for each in ranked}


@given(asked=queries, catalog=catalogs, incident=incidents)
def test_confidence_is_a_share_that_never_rises_along_the_list(
    asked: Asked, catalog: list[Workflow], incident: Constraints
) -> None:
    ranked = asked.rank(catalog, incident)
    found = [each.confidence for each in ranked]
    assert all(0 <= confidence <= 1 for confidence in found)
    assert found == sorted(found, reverse=True)
    assert len(ranked) == sum(allowed(each.labels, incident) for each in catalog)


@given(
    asked=queries,
    catalog=catalogs,
    incident=incidents,
    value=st.sampled_from([TEAM, OTHERS]),
    strict=st.booleans(),
    data=st.data(),
)
def test_a_custom_label_more_never_changes_the_order_of_two_that_declare_the_same(
    asked: Asked, catalog: list[Workflow], incident: Constraints, value: str, strict: bool, data: st.DataObject
) -> None:
    labels = data.draw(st.sampled_from([each.labels for each in catalog]))
    alike = [replace(each, labels=labels) for each in data.draw(st.permutations(catalog))[: len(catalog) // 2 + 1]]
    among = [*alike, *(each for each in catalog if each.name not in {one.name for one in alike})]
    more = replace(
        incident,
        custom={**incident.custom, KEYS[0]: frozenset({value})},
        strict_keys=frozenset({KEYS[0]} if strict else ()),
    )
    assume(allowed(labels, more))
    before, after = names(asked.rank(among, incident)), names(asked.rank(among, more))
    same = {each.name for each in alike}
    assert [name for name in before if name in same] == [name for name in after if name in same]


@given(asked=queries, catalog=catalogs, incident=incidents, data=st.data())
def test_the_confidence_of_one_does_not_rise_when_another_that_is_allowed_is_taken_away(
    asked: Asked, catalog: list[Workflow], incident: Constraints, data: st.DataObject
) -> None:
    taken = data.draw(st.sampled_from(catalog))
    before = confidences(asked.rank(catalog, incident))
    after = confidences(asked.rank([each for each in catalog if each is not taken], incident))
    assert before.keys() - after.keys() <= {taken.name}
    assert all(confidence <= before[name] + 0.05 for name, confidence in after.items())


@given(asked=queries, one=workflows, other=workflows, incident=incidents)
def test_of_two_that_fit_the_same_the_one_made_for_the_team_is_first(
    asked: Asked, one: Workflow, other: Workflow, incident: Constraints
) -> None:
    own = {**incident.custom, KEYS[0]: frozenset({TEAM})}
    of_the_team = replace(one, labels=WorkflowLabels(custom=own))
    of_nobody = replace(one, name=other.name, labels=WorkflowLabels())
    ranked = asked.rank([of_nobody, of_the_team], replace(incident, custom=own))
    assert names(ranked)[0] == of_the_team.name
    assert ranked[0].score > ranked[1].score


@given(
    query=st.sampled_from([query for query in QUERIES if query != "pod"]),
    best=st.builds(
        Workflow,
        name=st.just("best"),
        labels=st.just(WorkflowLabels()),
        cosine=st.integers(250, 1000).map(lambda thousandths: thousandths / 1000),
        places=st.sampled_from(
            [(WordPlace.WHAT,), (WordPlace.WHEN_TO_USE,), (WordPlace.NAME,), (WordPlace.WHEN_TO_USE, WordPlace.NONE)]
        ),
        severity=st.sampled_from([0.0, SEVERITY_WEIGHT, -SEVERITY_CONTRADICTED]),
    ),
    unrelated=st.lists(st.integers(-1000, round(1000 * NOISE) - 1), min_size=1, max_size=8),
    keys=st.integers(0, 4),
    environment=st.booleans(),
    detected=st.booleans(),
)
def test_what_has_nothing_in_common_with_the_query_never_passes_what_fits_whatever_labels_it_declares(
    query: str, best: Workflow, unrelated: list[int], keys: int, environment: bool, detected: bool
) -> None:
    incident = Constraints(
        values={"environment": frozenset({"production"})} if environment else {},
        custom={key: frozenset({TEAM}) for key in KEYS[:keys]},
        detected={"gitOpsTool": "argocd"} if detected else {},
    )
    labels = WorkflowLabels(
        values=dict(incident.values), custom=dict(incident.custom), detected=dict.fromkeys(incident.detected, "*")
    )
    of_the_team = [
        Workflow(
            name=f"a{number}", labels=labels, cosine=cosine / 1000, places=(WordPlace.NONE,), severity=SEVERITY_WEIGHT
        )
        for number, cosine in enumerate(unrelated)
    ]
    asked = Asked(query=query, mode=SearchMode.HYBRID, severity_inferred=False)
    ranked = asked.rank([*of_the_team, best], incident)
    assert names(ranked)[0] == "best"
    assert [each.fits_nothing for each in ranked] == [False, *(True for _ in unrelated)]


def test_nothing_is_ranked_where_nothing_is_allowed() -> None:
    for query, mode in itertools.product(QUERIES, MODES):
        assert Asked(query=query, mode=mode, severity_inferred=True).rank([], Constraints()) == []


# The same through the service: 0 to 600 unrelated workflows of the team, in a namespace of each number

OWNED = (0, 1, 12, 200, 600)
ASKED = {
    "DNS lookups fail, SERVFAIL from CoreDNS": "dns-coredns-restart-scale",
    "etcd database space exceeded, mvcc": "etcd-defragment",
    "x509 certificate has expired": "certificate-expired-renew",
    "OOMKilled critical memory grows without bound, leak": "oom-restart-leaking-process",
    "manifest unknown, the image tag does not exist": "imagepull-correct-image-tag",
    "persistent volume claim is full, no space left on device": "pvc-full-expand",
    "kubelet stopped posting node status": "node-notready-restart-kubelet",
    "exceeded quota: pods forbidden": "quota-exceeded-raise",
}
UNRELATED = (
    ("Recomputes the loyalty points of one member.", "Members miss points of their last purchase."),
    ("Prints the menu of the canteen once more.", "The menu shows the dishes of last week."),
    ("Sends vouchers to customers by mail.", "Vouchers are refused at the till."),
    ("Corrects the rate in the tax tables.", "Receipts show the rate of last year."),
    ("Withdraws a campaign from the newsletter.", "Readers who had opted out got a letter."),
    ("Merges two invoices that carry one number.", "Accounting finds an invoice twice."),
)


@dataclass(frozen=True)
class World:
    """The starter catalog, and teams that own any number of workflows with nothing to do with it."""

    service: CatalogService

    async def ask(self, query: str, *, owned: int, labels: int, also: bool) -> SearchAnswer:
        """Under the incident of a team with that many custom labels; `also`: its own workflows are visible."""
        namespace = _team(owned)
        see = {"formulary", namespace} if also else {"formulary"}
        caller = Caller(name="agent", access=Rights(see=see, use={namespace}))
        request = search_request(
            query=query, context=ContextReference(analysis=f"{namespace}/labels-{labels}"), top_k=50
        )
        return await self.service.search(request, caller=caller)


def _team(owned: int) -> str:
    return f"team-{owned}"


def _custom(owned: int, *, labels: int) -> Mapping[str, tuple[str, ...]]:
    return {key: (_team(owned),) for key in KEYS[:labels]}


def _owned(owned: int) -> list[dict[str, Any]]:
    documents = []
    for number, (what, when) in zip(range(owned), itertools.cycle(UNRELATED), strict=False):
        spec = manifest.workflow("")["spec"]
        labels = {**spec["labels"], "signalType": ["*"], "severity": "*", "environment": "*", "component": "*"}
        custom = {key: [_team(owned)] for key in KEYS}
        document = manifest.workflow(f"a{number}", what=what, labels=labels, customLabels=custom, actionType="Correct")
        document["spec"]["description"]["whenToUse"] = when
        documents.append(document)
    return documents


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path) -> AsyncIterator[World]:
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, deadline=30)
        writer, contexts = CatalogWriter(writing), ContextWriter(writing)
        await store([entry(each) for each in starter_documents(starter_catalog)], writer=writer, embedder=embedder)
        vectors = embedder.embed_documents([entry(each).embedding_text for each in _owned(len(UNRELATED))])
        for owned in OWNED:
            entries = [entry(each, namespace=_team(owned)) for each in _owned(owned)]
            # Those that say the same have the same vector: the number in the name tells nothing.
            near = [vectors[number % len(UNRELATED)] for number in range(owned)]
            await store_embedded(entries, vectors=near, writer=writer, model_id=embedder.model_id)
            for labels in range(len(KEYS) + 1):
                await contexts.save(
                    RequestContext(
                        namespace=_team(owned),
                        name=f"labels-{labels}",
                        remediation_id=f"rr-{owned}-{labels}",
                        custom_labels=_custom(owned, labels=labels),
                    )
                )
        async with open_parts(dsn, embedder=embedder) as parts:
            yield World(service=service_on(parts))
        await writing.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(query=st.sampled_from([*ASKED]), owned=st.sampled_from(OWNED), labels=st.integers(0, len(KEYS)))
async def test_unrelated_workflows_of_the_team_never_move_the_best_one_from_its_place(
    world: World, query: str, owned: int, labels: int
) -> None:
    alone = await world.ask(query, owned=owned, labels=labels, also=False)
    among = await world.ask(query, owned=owned, labels=labels, also=True)
    assert among.total_results == alone.total_results + owned
    first, best = among.workflows[0], alone.workflows[0]
    assert first.workflow_id == best.workflow_id == ASKED[query]
    assert first.confidence == pytest.approx(best.confidence, abs=0.05)
    assert np.all(np.diff([hit.confidence for hit in among.workflows]) <= 0)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(query=st.sampled_from([*ASKED]), labels=st.integers(0, len(KEYS) - 1))
async def test_a_custom_label_more_leaves_those_that_declare_the_same_in_their_order(
    world: World, query: str, labels: int
) -> None:
    owned = 200
    fewer = await world.ask(query, owned=owned, labels=labels, also=True)
    more = await world.ask(query, owned=owned, labels=labels + 1, also=True)
    for namespace in ("formulary", _team(owned)):
        before, after = (
            [hit.version_id for hit in answer.workflows if hit.namespace == namespace] for answer in (fewer, more)
        )
        common = {*before} & {*after}
        assert [id_ for id_ in before if id_ in common] == [id_ for id_ in after if id_ in common]
        assert common or namespace != "formulary"
