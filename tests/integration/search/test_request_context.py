"""The incident of a call: how it is found, when the call fails closed, what it adds, what never shows."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import incident_context
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, SearchRequest, search_request
from formulary_catalog.errors import ContextError, FormularyError, InvalidInput, NotFound, Unavailable
from formulary_catalog.kernel.incidents import ContextResolver
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.metrics import Metrics
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.alerts import AlertReader
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextReader, ContextWriter
from formulary_catalog.store.search.candidates import ALL
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import fill
from support.services import open_parts, service_on
from support.targets import NO_TARGETS

pytestmark = pytest.mark.smoke

CALLER = Caller(name="test", access=EVERYTHING)
KEY, VALUE, OTHER = "k3y-team", "v4lue-payments", "v4lue-search"
WAIT = 0.5


@pytest.fixture
async def parts(database: str) -> AsyncIterator[CatalogParts]:
    """The read side with a short wait for contexts."""
    async with open_parts(database, context_wait_seconds=WAIT) as opened:
        yield opened


@pytest.fixture
async def catalog(workflows: CatalogWriter) -> None:
    """One workflow for each relation to the label `KEY`."""
    await fill(
        workflows,
        [
            manifest.workflow("mine", customLabels={KEY: [VALUE]}),
            manifest.workflow("theirs", customLabels={KEY: [OTHER]}),
            manifest.workflow("anyones", customLabels={KEY: "*"}),
            manifest.workflow("generic"),
        ],
    )


def _context(name: str, *, remediation_id: str = "rr-1", **more: Any) -> RequestContext:
    return RequestContext(**{"namespace": "shop", "name": name, "remediation_id": remediation_id, **more})


def _request(context: ContextReference, **more: Any) -> SearchRequest:
    return search_request(query="OOMKilled restart", context=context, **more)


def _header(remediation_id: str) -> ContextReference:
    return ContextReference(remediation_id=remediation_id)


async def _found(service: CatalogService, context: ContextReference, **more: Any) -> list[str]:
    answer = await service.search(_request(context, **more), caller=CALLER)
    return [hit.workflow_id for hit in answer.workflows]


async def _refusal(parts: CatalogParts, context: ContextReference) -> str:
    """Why every kind of call fails for this reference."""
    service = service_on(parts)
    outcomes = await asyncio.gather(
        service.search(_request(context), caller=CALLER),
        service.details("generic", context=context, caller=CALLER),
        Listing(parts).page(context=context, caller=CALLER),
        service.record_selection(workflow_id="generic", reasoning="r", context=context, caller=CALLER),
        return_exceptions=True,
    )
    assert {type(outcome) for outcome in outcomes} == {ContextError}
    (message,) = {str(outcome) for outcome in outcomes}
    assert message.isprintable()
    return message


def _mentions(texts: Iterable[str], *words: str) -> list[str]:
    return [word for text in texts for word in words if word in text]


async def test_a_call_without_an_incident_fails_where_one_is_required(catalog: None, database: str) -> None:
    async with open_parts(database, policy=ContextPolicy.REQUIRED, context_wait_seconds=WAIT) as strict:
        assert "X-Remediation-Id" in await _refusal(strict, ContextReference())


async def test_a_call_without_an_incident_is_unconstrained_where_it_is_optional(
    catalog: None, service: CatalogService
) -> None:
    assert len(await _found(service, ContextReference())) == 4


@pytest.mark.parametrize(
    "reference",
    [
        ContextReference(remediation_id="unheard-of"),
        ContextReference(meta_remediation_id="unheard-of"),
        ContextReference(analysis="shop/unheard-of"),
        ContextReference(remediation_id="rr-1", analysis="shop/unheard-of"),
        ContextReference(remediation_id="unheard-of", analysis="shop/oom"),
    ],
)
async def test_an_unknown_incident_fails_closed(
    catalog: None, parts: CatalogParts, contexts: ContextWriter, reference: ContextReference
) -> None:
    await contexts.save(_context("oom"))
    assert "unheard-of" in await _refusal(parts, reference)


@pytest.mark.parametrize("odd", ["\0", "rr-1\0", "\ud800", "rr-1\x1frr-2", "'", "*", "%"])
async def test_an_id_that_cannot_exist_fails_closed_like_any_unknown_one(
    catalog: None, parts: CatalogParts, contexts: ContextWriter, odd: str
) -> None:
    await contexts.save(_context("oom"))
    assert "not known here" in await _refusal(parts, ContextReference(meta_remediation_id=odd))
    assert "AIAnalysis" in await _refusal(parts, ContextReference(analysis=f"shop/{odd}"))
    assert "namespace/name" in await _refusal(parts, ContextReference(analysis=odd))


async def test_a_context_that_is_written_during_the_wait_is_found(
    catalog: None, service: CatalogService, contexts: ContextWriter
) -> None:
    waiting = asyncio.create_task(_found(service, _header("rr-late")))
    done, _ = await asyncio.wait({waiting}, timeout=WAIT / 5)
    assert not done
    await contexts.save(_context("late", remediation_id="rr-late", custom_labels={KEY: (VALUE,)}))
    assert sorted(await waiting) == ["anyones", "generic", "mine"]


class CountingReader(ContextReader):
    """Counts how often it is asked."""

    asked = 0

    async def find(self, *, remediation_ids: frozenset[str], analysis: str) -> list[RequestContext]:
        self.asked += 1
        return await super().find(remediation_ids=remediation_ids, analysis=analysis)


async def test_all_calls_of_one_caller_wait_together_for_an_incident_that_is_written_meanwhile(
    database: str, contexts: ContextWriter
) -> None:
    async with Database.opened(database, role=Role.SERVER, deadline=30) as reading:
        reader = CountingReader(reading)
        resolver = ContextResolver(
            reader=reader,
            alerts=AlertReader(reading),
            targets=NO_TARGETS,
            policy=ContextPolicy.REQUIRED,
            wait_seconds=60,
            metrics=Metrics(),
        )
        started = time.monotonic()
        waiting = {asyncio.create_task(resolver.resolve(_header("rr-late"), caller=CALLER)) for _ in range(5)}
        done, _ = await asyncio.wait(waiting, timeout=WAIT, return_when=asyncio.FIRST_COMPLETED)
        assert not done
        await contexts.save(_context("late", remediation_id="rr-late"))
        answers = await asyncio.gather(*waiting)
        tenths = (time.monotonic() - started) * 10

    assert [answer.name for answer in answers if answer is not None] == ["late"] * 5
    assert reader.asked <= len(waiting) + tenths + 1, "calls that wait share their looks"


async def test_a_few_calls_wait_for_unknown_incidents_and_the_others_are_told_to_retry(database: str) -> None:
    reading = await Database.open(database, role=Role.SERVER)
    resolver = ContextResolver(
        targets=NO_TARGETS,
        reader=ContextReader(reading),
        alerts=AlertReader(reading),
        policy=ContextPolicy.REQUIRED,
        wait_seconds=60,
        metrics=Metrics(),
    )
    waiting = {
        asyncio.create_task(resolver.resolve(_header(f"rr-made-up-{n}"), caller=Caller(name=name, access=EVERYTHING)))
        for name in "abcdef"
        for n in range(6)
    }
    refused: set[asyncio.Task[RequestContext | None]] = set()
    while len(refused) < 30:
        done, waiting = await asyncio.wait(waiting, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert done
        refused |= done
    assert all(isinstance(task.exception(), Unavailable) and "retry" in str(task.exception()) for task in refused)
    assert len(waiting) == 6
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await reading.close()


async def test_a_removed_context_fails_closed(
    catalog: None, service: CatalogService, parts: CatalogParts, contexts: ContextWriter
) -> None:
    await contexts.save(_context("oom"))
    assert len(await _found(service, _header("rr-1"))) == 4
    await contexts.remove(namespace="shop", name="oom")
    assert "not known here" in await _refusal(parts, _header("rr-1"))


@pytest.mark.parametrize(
    "reference",
    [
        ContextReference(remediation_id="rr-1"),
        ContextReference(meta_remediation_id="rr-1"),
        ContextReference(analysis="shop/oom"),
        ContextReference(remediation_id="rr-1", analysis="shop/oom", meta_remediation_id="rr-1"),
    ],
)
async def test_every_source_leads_to_the_constraints_of_its_incident(
    catalog: None, service: CatalogService, contexts: ContextWriter, reference: ContextReference
) -> None:
    await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}))
    await contexts.save(_context("other", remediation_id="rr-2", custom_labels={KEY: (OTHER,)}))
    assert await _found(service, reference) == ["mine", "anyones", "generic"]


@pytest.mark.parametrize(
    "reference",
    [
        ContextReference(remediation_id="rr-1", meta_remediation_id="rr-2"),
        ContextReference(remediation_id="rr-1", analysis="shop/other"),
        ContextReference(meta_remediation_id="rr-2", analysis="shop/oom"),
    ],
)
async def test_sources_that_disagree_fail_closed(
    catalog: None, parts: CatalogParts, contexts: ContextWriter, reference: ContextReference
) -> None:
    await contexts.save(_context("oom"))
    await contexts.save(_context("other", remediation_id="rr-2"))
    assert "different" in await _refusal(parts, reference)


async def test_one_id_with_equal_constraints_twice_is_one_incident(
    catalog: None, service: CatalogService, contexts: ContextWriter
) -> None:
    for name in ("oom", "oom-again"):
        await contexts.save(_context(name, custom_labels={KEY: (VALUE, "b")}, severity=name))
    assert await _found(service, _header("rr-1")) == ["mine", "anyones", "generic"]


@pytest.mark.parametrize(
    "other",
    [
        {"custom_labels": {KEY: (OTHER,)}},
        {"custom_labels": {}},
        {"custom_labels": {KEY: (VALUE,)}, "environment": "test"},
        {"custom_labels": {KEY: (VALUE,)}, "strict_keys": frozenset({KEY})},
        {"custom_labels": {KEY: (VALUE,)}, "target_namespace": "elsewhere"},
        {"custom_labels": {KEY: (VALUE,)}, "namespace": "elsewhere"},
    ],
)
async def test_one_id_with_different_constraints_fails_closed_until_the_object_is_named(
    catalog: None, service: CatalogService, parts: CatalogParts, contexts: ContextWriter, other: dict[str, Any]
) -> None:
    await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}))
    await contexts.save(_context("oom-again", **other))
    message = await _refusal(parts, _header("rr-1"))
    assert "X-AIAnalysis" in message
    assert not _mentions([message], KEY, VALUE, OTHER)
    named = ContextReference(remediation_id="rr-1", analysis="shop/oom")
    assert await _found(service, named) == ["mine", "anyones", "generic"]


@pytest.mark.parametrize("nest", [lambda labels: {"kubernetesContext": labels}, lambda labels: labels])
async def test_labels_of_both_places_in_the_manifest_reach_the_search(
    catalog: None, service: CatalogService, contexts: ContextWriter, nest: Any
) -> None:
    document = manifest.analysis("oom", remediation_id="rr-1")
    signal = document["spec"]["analysisRequest"]["signalContext"]
    signal["enrichmentResults"] = nest({"customLabels": {KEY: VALUE}})
    await contexts.save(incident_context(document, source="test", default_namespace="shop"))
    assert await _found(service, _header("rr-1")) == ["mine", "anyones", "generic"]


async def test_only_the_analysis_changes_and_the_results_change(
    catalog: None, service: CatalogService, contexts: ContextWriter
) -> None:
    for value, expected in ((VALUE, "mine"), (OTHER, "theirs")):
        await contexts.save(_context("oom", custom_labels={KEY: (value,)}))
        assert await _found(service, _header("rr-1")) == [expected, "anyones", "generic"]
    await contexts.save(_context("oom"))
    assert len(await _found(service, _header("rr-1"))) == 4


async def test_a_key_is_strict_by_the_annotation(
    catalog: None, service: CatalogService, contexts: ContextWriter
) -> None:
    await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}, strict_keys=frozenset({KEY})))
    assert await _found(service, _header("rr-1")) == ["mine", "anyones"]
    with pytest.raises(NotFound):
        await service.details("generic", context=_header("rr-1"), caller=CALLER)


async def test_a_key_is_strict_by_the_setting(catalog: None, database: str, contexts: ContextWriter) -> None:
    keys = frozenset({KEY, "unused"})
    async with open_parts(database, context_wait_seconds=WAIT, strict_custom_labels=keys) as strict:
        await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}))
        assert await _found(service_on(strict), _header("rr-1")) == ["mine", "anyones"]
        assert [
            line.workflow_id for line in (await Listing(strict).page(context=_header("rr-1"), caller=CALLER)).workflows
        ] == [
            "anyones",
            "mine",
        ]


async def test_details_and_selections_obey_the_incident_too(
    catalog: None, service: CatalogService, contexts: ContextWriter
) -> None:
    await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}))
    excluded = await service.details("theirs", context=ContextReference(), caller=CALLER)
    for form in ("theirs", "formulary/theirs", "theirs@1.0.0", excluded.version_id):
        with pytest.raises(NotFound):
            await service.details(form, context=_header("rr-1"), caller=CALLER)
        with pytest.raises(NotFound):
            await service.record_selection(workflow_id=form, reasoning="r", context=_header("rr-1"), caller=CALLER)
    receipt = await service.record_selection(workflow_id="mine", reasoning="r", context=_header("rr-1"), caller=CALLER)
    assert receipt.recorded


async def test_the_incident_wins_over_the_call_and_a_note_says_so(
    workflows: CatalogWriter, service: CatalogService, contexts: ContextWriter
) -> None:
    labels = manifest.workflow("")["spec"]["labels"]
    await fill(
        workflows,
        [
            manifest.workflow("for-production", labels=labels | {"cluster": "eu"}),
            manifest.workflow("for-test", labels=labels | {"environment": "test", "cluster": "eu"}),
            manifest.workflow("no-cluster"),
        ],
    )
    await contexts.save(_context("oom", environment="Production", priority="P0", cluster="EU"))
    asked = {"environment": ["test"], "priority": ["p0"], "cluster": ["us"]}
    answer = await service.search(_request(_header("rr-1"), labels=asked), caller=CALLER)
    assert [hit.workflow_id for hit in answer.workflows] == ["for-production"]
    notes = [note for note in answer.notes if "set by the incident" in note]
    assert sorted(note.split()[0] for note in notes) == ["cluster", "environment"]


async def test_detected_labels_of_the_incident_exclude_what_they_contradict(
    workflows: CatalogWriter, service: CatalogService, contexts: ContextWriter
) -> None:
    await fill(
        workflows,
        [
            manifest.workflow("for-argocd", detectedLabels={"gitOpsTool": "argocd"}),
            manifest.workflow("for-flux", detectedLabels={"gitOpsTool": "flux"}),
            manifest.workflow("for-stateful", detectedLabels={"stateful": True}),
        ],
    )
    await contexts.save(_context("oom", detected_labels={"gitOpsTool": "argocd"}))
    assert sorted(await _found(service, _header("rr-1"))) == ["for-argocd", "for-stateful"]


async def test_a_workflow_that_requires_what_the_incident_has_stands_above_its_equals_and_says_why(
    workflows: CatalogWriter, service: CatalogService, contexts: ContextWriter
) -> None:
    documents = [
        manifest.workflow("a-for-any"),
        manifest.workflow("b-for-stateful", detectedLabels={"stateful": True}),
        manifest.workflow("c-for-gitops", detectedLabels={"gitOpsTool": "*", "hpaEnabled": True}),
    ]
    await fill(workflows, documents)
    await contexts.save(_context("oom", detected_labels={"gitOpsTool": "argocd", "pdbProtected": "true"}))
    answer = await service.search(_request(_header("rr-1")), caller=CALLER)
    assert [hit.workflow_id for hit in answer.workflows] == ["c-for-gitops", "a-for-any", "b-for-stateful"]
    why = [[why for why in hit.match_reasons if "detected" in why] for hit in answer.workflows]
    assert why == [["requires what was detected: gitOpsTool argocd"], [], []]


async def test_what_is_required_and_detected_is_told_with_its_value(
    workflows: CatalogWriter, service: CatalogService, contexts: ContextWriter
) -> None:
    await fill(workflows, [manifest.workflow("without-hpa", detectedLabels={"hpaEnabled": False})])
    await contexts.save(_context("oom", detected_labels={"hpaEnabled": "false"}))
    (hit,) = (await service.search(_request(_header("rr-1")), caller=CALLER)).workflows
    assert "requires what was detected: hpaEnabled false" in hit.match_reasons


async def test_a_workflow_that_requires_what_the_incident_has_is_among_the_candidates_of_a_query_without_words(
    workflows: CatalogWriter, service: CatalogService, contexts: ContextWriter
) -> None:
    many = [manifest.workflow(f"a-{number}") for number in range(ALL)]
    await fill(workflows, [*many, manifest.workflow("z-for-gitops", detectedLabels={"gitOpsManaged": True})])
    await contexts.save(_context("oom", detected_labels={"gitOpsManaged": "true"}))
    answer = await service.search(replace(_request(_header("rr-1")), query="!?"), caller=CALLER)
    assert (answer.search_mode, answer.workflows[0].workflow_id) == ("labels-only", "z-for-gitops")


async def test_labels_of_the_caller_narrow_further_and_may_not_touch_those_of_the_incident(
    catalog: None, service: CatalogService, contexts: ContextWriter
) -> None:
    await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}))
    with pytest.raises(InvalidInput) as refusal:
        await service.search(_request(_header("rr-1"), custom_labels={KEY: (OTHER,)}), caller=CALLER)
    assert not _mentions([str(refusal.value)], KEY, VALUE, OTHER)
    assert len(await _found(service, _header("rr-1"), custom_labels={"tier": ("gold",)})) == 3


async def test_nothing_that_leaves_the_catalog_holds_a_custom_label(
    catalog: None, service: CatalogService, parts: CatalogParts, contexts: ContextWriter
) -> None:
    context = _header("rr-1")
    await contexts.save(_context("oom", custom_labels={KEY: (VALUE,)}, strict_keys=frozenset({KEY})))
    told = [
        (await service.search(_request(context), caller=CALLER)).model_dump_json(),
        (await service.search(_request(context, exclude_keywords=["restart"]), caller=CALLER)).model_dump_json(),
        (await service.search(_request(context, min_confidence=1), caller=CALLER)).model_dump_json(),
        (await service.details("mine", context=context, caller=CALLER)).model_dump_json(),
        (await Listing(parts).page(context=context, caller=CALLER)).model_dump_json(),
    ]
    for failing in (
        service.details("theirs", context=context, caller=CALLER),
        service.search(_request(context, custom_labels={KEY: (OTHER,)}), caller=CALLER),
        service.search(_request(_header("rr-unknown")), caller=CALLER),
    ):
        with pytest.raises(FormularyError) as refusal:
            await failing
        told.append(str(refusal.value))
    assert not _mentions(told, KEY, VALUE, OTHER)
