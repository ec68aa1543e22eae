"""Tenancy is held by the database: whatever our queries ask, rows of other namespaces do not come back."""

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.workflows.identity import parse_reference
from formulary_catalog.domain.workflows.labels import Constraints
from formulary_catalog.errors import InvalidInput, NotFound
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextReader, ContextWriter
from formulary_catalog.store.search.page import PageReader
from formulary_catalog.store.search.statement import CandidateQuery, CandidateReader
from formulary_catalog.store.workflows.listing import ListingQuestion, ListingReader
from formulary_catalog.store.workflows.reader import WorkflowReader
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import fill
from support.tenants import ALICE, IN_ALPHA

pytestmark = pytest.mark.smoke

NOWHERE = ContextReference()


@pytest.mark.parametrize("form", ["restart", "restart@1.0.0", "restart@2.0.0"])
async def test_a_name_means_the_workflow_of_the_callers_own_namespace(
    tenants: dict[str, str], service: CatalogService, form: str
) -> None:
    found = await service.details(form, context=IN_ALPHA, caller=ALICE)
    assert found.namespace == "alpha"
    assert [line.version for line in found.versions] == ["2.0.0", "1.0.0"]


async def test_no_form_of_a_name_reaches_another_namespace(tenants: dict[str, str], service: CatalogService) -> None:
    forms = (
        "beta/restart",
        "beta/restart@1.0.0",
        "beta/restart@2.0.0",
        "only-beta",
        "only-beta@1.0.0",
        tenants["beta"],
    )
    for form in forms:
        with pytest.raises(NotFound):
            await service.details(form, context=IN_ALPHA, caller=ALICE)
        with pytest.raises(NotFound):
            await service.record_selection(workflow_id=form, reasoning="r", context=IN_ALPHA, caller=ALICE)


async def test_searches_and_listings_hold_only_visible_namespaces(
    tenants: dict[str, str], service: CatalogService, parts: CatalogParts
) -> None:
    request = search_request(query="OOMKilled betaword restart", top_k=50, context=IN_ALPHA)
    answer = await service.search(request, caller=ALICE)
    assert {hit.namespace for hit in answer.workflows} == {"alpha"}
    assert answer.total_results == 2
    listed = await Listing(parts).page(context=IN_ALPHA, caller=ALICE)
    assert {line.namespace for line in listed.workflows} == {"alpha"}
    assert listed.total_results == 2


async def test_what_is_in_use_elsewhere_changes_nothing_here(
    service: CatalogService, workflows: CatalogWriter, contexts: ContextWriter
) -> None:
    labels = manifest.workflow("")["spec"]["labels"]
    theirs = manifest.workflow("theirs", labels=labels | {"signalType": ["BetaAlert"], "riskTolerance": ["betalow"]})
    await fill(workflows, [theirs], namespace="beta")
    other = manifest.workflow("other", labels=labels | {"riskTolerance": ["alphalow"]})
    await fill(workflows, [manifest.workflow("mine"), other], namespace="alpha")
    await contexts.save(RequestContext(namespace="alpha", name="oom", remediation_id="rr-alpha"))
    request = search_request(
        query="BetaAlert high restart", labels={"risk_tolerance": ["betalow"]}, top_k=50, context=IN_ALPHA
    )
    mine = await service.search(request, caller=ALICE)
    assert [hit.workflow_id for hit in mine.workflows] == ["mine"]
    assert mine.inferred == {}
    assert any("betalow" in note for note in mine.notes)
    theirs_too = await service.search(request, caller=Caller(name="all", access=EVERYTHING))
    assert theirs_too.inferred == {"signal_type": "BetaAlert", "severity": "high"}
    assert not any("betalow" in note for note in theirs_too.notes)


@pytest.mark.parametrize("namespaces", [frozenset[str](), frozenset({"gamma"}), frozenset({"Alpha"}), frozenset({"1"})])
async def test_a_caller_without_a_known_namespace_sees_nothing(
    tenants: dict[str, str], reading: Database, namespaces: frozenset[str]
) -> None:
    workflows, candidates = WorkflowReader(reading), CandidateReader(reading)
    question = CandidateQuery(constraints=Constraints(), words=["restart"], signal="oomkilled", severity="critical")
    found = await candidates.read(question, namespaces=namespaces)
    assert (found.evidence, found.total, found.versions) == ((), 0, {})
    assert not found.signal_declared
    asked = {"signal_type": frozenset({"oomkilled"}), "cluster": frozenset({"east"})}
    unfamiliar = await candidates.unfamiliar(asked, constraints=Constraints(), namespaces=namespaces)
    assert unfamiliar == ("cluster",)
    assert await PageReader(reading).read([*tenants.values()], known=(), namespaces=namespaces) == ({}, {})
    everything = ListingQuestion(constraints=Constraints())
    assert await ListingReader(reading).read(everything, namespaces=namespaces, limit=10) == ([], 0)
    for form in ("restart", "beta/restart", "restart@1.0.0", *tenants.values()):
        assert await workflows.find(parse_reference(form), namespaces=namespaces) == []


async def test_a_caller_who_sees_everything_must_say_which_of_two_it_means(
    tenants: dict[str, str], service: CatalogService
) -> None:
    everyone = Caller(name="admin", access=EVERYTHING)
    with pytest.raises(InvalidInput, match="alpha/restart, beta/restart"):
        await service.details("restart", context=NOWHERE, caller=everyone)
    assert (await service.details("beta/restart", context=NOWHERE, caller=everyone)).namespace == "beta"


async def test_a_context_is_found_only_by_its_own_names(tenants: dict[str, str], reading: Database) -> None:
    contexts = ContextReader(reading)
    found = await contexts.find(remediation_ids=frozenset({"rr-alpha"}), analysis="")
    assert [context.namespace for context in found] == ["alpha"]
    found = await contexts.find(remediation_ids=frozenset(), analysis="beta/oom")
    assert [context.namespace for context in found] == ["beta"]
    for unknown in ("", "rr", "RR-alpha", "rr-alpha ", "%", "rr-alpha\x1frr-beta", "beta/oom"):
        assert await contexts.find(remediation_ids=frozenset({unknown}), analysis="") == []
