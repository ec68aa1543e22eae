"""Why a workflow is in an answer, and why not: for a new search and for one that the trail recorded."""

import math
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.explanation.answers import Explanation
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.errors import ContextError, InvalidInput, NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.explanation.service import Explaining
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.access import Rights
from support.filling import fill
from support.services import open_parts
from support.trail import recorded

KEY, VALUE = "k3y-team", "v4lue-payments"
AGENT = Caller(name="agent", access=EVERYTHING)
SRE = Caller(name="sre", access=Rights(see=["formulary", "shop"], use=["shop"], constraints=["shop"]))
STRANGER = Caller(name="stranger", access=Rights(see=["*"], use=["bank"]))
INCIDENT = ContextReference(remediation_id="rr-1")
ANYWHERE = {"severity": "*", "environment": "*", "component": "*", "priority": "*"}
SHOP = RequestContext(
    namespace="shop",
    name="oom",
    remediation_id="rr-1",
    environment="production",
    custom_labels={KEY: (VALUE,)},
    detected_labels={"gitOpsTool": "flux"},
)


def workflow(name: str, *, labels: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return manifest.workflow(name, labels=ANYWHERE | {"signalType": "OOMKilled"} | (labels or {}), **spec)


@pytest.fixture
async def parts(database: str, workflows: CatalogWriter, contexts: ContextWriter) -> AsyncIterator[CatalogParts]:
    drain = workflow("drain", title="Drain the node")
    drain["spec"]["description"]["whenNotToUse"] = "Not for kafka brokers."
    await fill(
        workflows,
        [
            workflow("raise-limit", title="Raise the memory limit", labels={"environment": "production"}),
            workflow("staging-only", labels={"environment": ["staging", "test"]}),
            workflow("other-team", customLabels={KEY: "0ther"}),
            workflow("argo-only", detectedLabels={"gitOpsTool": "argocd"}),
            drain,
            workflow("asleep", suspend=True),
            workflow("unrelated", labels={"signalType": "NodeNotReady"}, title="Renew a certificate"),
        ],
    )
    await contexts.save(SHOP)
    async with open_parts(database) as opened:
        yield opened


@pytest.fixture
async def owner(database: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(database, server_settings={"search_path": "formulary, public"})
    yield connection
    await connection.close()


def explaining(parts: CatalogParts) -> Explaining:
    return Explaining(parts, strict_keys=frozenset())


async def explain(
    parts: CatalogParts, name: str, *, query: str = "OOMKilled memory limit", caller: Caller = AGENT, **asked: Any
) -> Explanation:
    request = search_request(query=query, **{"context": INCIDENT} | asked)
    return await explaining(parts).of_search(name, request, caller=caller)


@pytest.mark.parametrize(
    ("name", "asked", "rule", "reason"),
    [
        ("staging-only", {}, "environment", "the incident says production, the workflow declares staging or test"),
        (
            "raise-limit",
            {"labels": {"priority": ["P0"], "signal_type": ["Evicted"]}},
            "signal-type",
            "the call asks for",
        ),
        ("other-team", {}, "custom-label", f"{KEY}: the incident says {VALUE}, the workflow declares 0ther"),
        ("argo-only", {}, "detected-label", "the workflow requires gitOpsTool argocd, detected was flux"),
        ("drain", {"exclude_keywords": ["Drain"]}, "exclude-keywords", "the call excludes “drain”"),
        ("drain", {"labels": {"cluster": ["eu-1"]}}, "cluster", "the workflow declares nothing, and only"),
        ("drain", {"namespace": "elsewhere"}, "namespace", "the call asks for elsewhere, the workflow is in"),
        ("drain", {"keywords": ["heap"]}, "keywords", "the workflow contains none of: heap"),
        ("drain", {"action_type": "Nothing"}, "action-type", "the call asks for Nothing"),
        ("asleep", {}, "suspended", "the workflow is suspended"),
    ],
)
async def test_the_first_rule_that_excluded_a_workflow_is_said_in_words(
    parts: CatalogParts, name: str, asked: dict[str, Any], rule: str, reason: str
) -> None:
    why = await explain(parts, name, **asked)
    assert why.excluded_by is not None
    assert (why.allowed, why.returned, why.excluded_by.rule) == (False, False, rule)
    assert reason in why.excluded_by.reason
    assert (why.rank, why.score, why.evidence, why.to_be_first) == (None, None, [], [])


async def test_an_allowed_one_has_its_evidence_its_place_and_what_would_make_it_first(parts: CatalogParts) -> None:
    first, other = await explain(parts, "raise-limit"), await explain(parts, "drain")
    assert (first.allowed, first.returned, first.rank, first.to_be_first) == (True, True, 1, [])
    assert {part.part for part in first.evidence} >= {"words in headings", "label environment", "signal in the query"}
    assert first.first is not None
    assert other.first == first.first
    assert first.first.score == first.score
    assert other.rank is not None
    assert other.rank > 1
    assert other.score is not None
    assert other.score < first.first.score
    assert any(change.enough for change in other.to_be_first)
    assert "memory" in " ".join(change.change for change in other.to_be_first)


@pytest.mark.parametrize(
    ("name", "query"),
    [("raise-limit", "OOMKilled memory limit"), ("drain", "drain of a node with kafka brokers")],
)
async def test_how_the_confidence_follows_from_the_score_is_said_and_adds_up(
    parts: CatalogParts, name: str, query: str
) -> None:
    why = await explain(parts, name, query=query)
    assert why.confidence is not None
    (note,) = [note for note in why.notes if note.startswith("confidence ")]
    total, _, counts = note.partition(" is ")[2].partition(" in log odds: ")
    counted = [*re.findall(r" is (-?\d+\.\d\d),", counts), *re.findall(r"(?<= )[-+]\d+\.\d\d", counts)]
    assert sum(map(float, counted)) == pytest.approx(float(total), abs=0.05)
    assert why.confidence == pytest.approx(1 / (1 + math.exp(-float(total))), abs=0.005)


async def test_an_allowed_one_that_is_not_shown_says_why(parts: CatalogParts) -> None:
    assert (await explain(parts, "unrelated", query="quota zebra")).not_returned_because.startswith("nothing in")
    why = await explain(parts, "drain", top_k=1)
    assert (why.returned, why.not_returned_because) == (
        False,
        f"it is number {why.rank}, and the answer holds 1",
    )
    assert "ends before it" in (await explain(parts, "drain")).not_returned_because
    assert "min_confidence" in (await explain(parts, "drain", min_confidence=1.0, top_k=10)).not_returned_because


async def test_a_recorded_search_is_explained_under_the_constraints_that_were_sealed_with_it(
    service: CatalogService, parts: CatalogParts, contexts: ContextWriter
) -> None:
    request = search_request(query="OOMKilled memory limit", context=INCIDENT)
    answer = await service.search(request, caller=AGENT)
    await contexts.remove(namespace="shop", name="oom")
    why = await explaining(parts).of_recorded("staging-only", answer.search_id, caller=SRE)
    assert why.excluded_by is not None
    assert why.excluded_by.rule == "environment"
    assert (why.query, why.search_id) == (request.query, answer.search_id)
    found = await explaining(parts).of_recorded("raise-limit", answer.search_id, caller=SRE)
    assert found.recorded is not None
    assert (found.recorded.rank, found.recorded.returned, found.recorded.score) == (1, True, found.score)
    assert any("agent asked" in note for note in found.notes)


async def test_who_may_not_read_the_incidents_of_a_search_learns_as_much_as_of_one_that_does_not_exist(
    service: CatalogService,
    parts: CatalogParts,
) -> None:
    answer = await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=AGENT)
    messages = []
    for search_id in (answer.search_id, "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(NotFound) as refused:
            await explaining(parts).of_recorded("drain", search_id, caller=STRANGER)
        messages.append(str(refused.value).replace(search_id, "ID"))
    assert messages[0] == messages[1]
    with pytest.raises(ContextError, match="is not known here"):
        await explain(parts, "drain", caller=STRANGER)


async def test_a_search_without_an_incident_is_explained_to_whoever_made_it(
    service: CatalogService, parts: CatalogParts
) -> None:
    person = Caller(name="person", access=Rights(see=["*"]))
    answer = await service.search(search_request(query="OOMKilled"), caller=person)
    assert (await explaining(parts).of_recorded("drain", answer.search_id, caller=person)).allowed
    with pytest.raises(NotFound):
        await explaining(parts).of_recorded("drain", answer.search_id, caller=STRANGER)


async def test_a_workflow_that_the_caller_may_not_see_is_not_found(
    parts: CatalogParts, workflows: CatalogWriter
) -> None:
    await fill(workflows, [manifest.workflow("theirs", labels=ANYWHERE)], namespace="bank")
    with pytest.raises(NotFound):
        await explain(parts, "bank/theirs", caller=SRE)
    with pytest.raises(NotFound):
        await explain(parts, "no-such", caller=SRE)


async def test_an_explanation_is_recorded_as_read_only_and_never_holds_a_custom_label(
    parts: CatalogParts, owner: "asyncpg.Connection[Any]"
) -> None:
    await explain(parts, "other-team")
    (event,) = await recorded(owner)
    assert event["gate"] == {"decision": "ALLOW", "class": "read-only"}
    assert (event["action"], event["result"]["excluded_by"]) == ("read.explain", "custom-label")
    assert event["trace_id"].startswith("tr_")
    assert KEY not in str(event)
    assert VALUE not in str(event)


async def test_a_name_that_is_none_is_refused(parts: CatalogParts) -> None:
    with pytest.raises(InvalidInput):
        await explain(parts, "not a name")
