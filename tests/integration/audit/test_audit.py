"""The trail of calls: one event for every call, written before its answer leaves, without custom labels."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.domain.workflows.requests import ListingRequest
from formulary_catalog.errors import (
    ContextError,
    FormularyError,
    InvalidInput,
    NotFound,
    NoWorkflowName,
    Unavailable,
    UnknownWorkflow,
)
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.services.workflows.listing import Listing
from formulary_catalog.store.audit.events import TraceEvent, TraceStore
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import fill
from support.trail import recorded

KEY, VALUE = "k3y-team", "v4lue-payments"
CALLER = Caller(name="system:serviceaccount:holmes:agent", access=EVERYTHING)
INCIDENT = ContextReference(remediation_id="rr-1")
NOWHERE = ContextReference()


class Recorded:
    """The trail as the database's owner sees it."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self.connection = connection

    async def rows(self) -> list[dict[str, Any]]:
        """All events in the order in which they were written."""
        return await recorded(self.connection)

    async def row(self) -> dict[str, Any]:
        """The only event."""
        (row,) = await self.rows()
        return row


@pytest.fixture
async def audit(database: str) -> AsyncIterator[Recorded]:
    connection = await asyncpg.connect(database)
    yield Recorded(connection)
    await connection.close()


@pytest.fixture
async def catalog(workflows: CatalogWriter, contexts: ContextWriter) -> None:
    """Two workflows, one of them excluded by the incident `rr-1`."""
    await fill(
        workflows,
        [
            manifest.workflow("mine", customLabels={KEY: VALUE}),
            manifest.workflow("theirs", customLabels={KEY: "search"}),
        ],
    )
    await contexts.save(
        RequestContext(
            namespace="shop",
            name="oom",
            remediation_id="rr-1",
            environment="production",
            custom_labels={KEY: (VALUE,)},
            strict_keys=frozenset({KEY}),
        )
    )


async def test_a_search_is_recorded_with_what_was_asked_and_what_was_returned(
    catalog: None, service: CatalogService, audit: Recorded
) -> None:
    request = search_request(
        query="OOMKilled critical memory",
        labels={"component": ["v1/Pod"]},
        exclude_keywords=["drain"],
        top_k=5,
        context=ContextReference(remediation_id="rr-1", analysis="shop/oom"),
        custom_labels={"tier": ("g0ld",)},
    )
    answer = await service.search(request, caller=CALLER)
    row = await audit.row()
    assert (row["kind"], row["outcome"], row["caller"]) == ("search", "ok", CALLER.name)
    assert (row["remediation_id"], row["analysis"]) == ("rr-1", "shop/oom")
    assert (str(row["search_id"]), row["mode"]) == (answer.search_id, answer.search_mode)
    assert row["arguments"] == {
        "query": "OOMKilled critical memory",
        "labels": {"component": ["v1/Pod"]},
        "exclude_keywords": ["drain"],
        "min_confidence": 0,
        "top_k": 5,
        "own_embedding": False,
    }
    (hit,) = answer.workflows
    (candidate,) = row["result"]["candidates"]
    assert row["result"]["total"] == answer.total_results == 1
    assert candidate["version_id"] == hit.version_id
    assert (candidate["confidence"], candidate["match_reasons"]) == (hit.confidence, hit.match_reasons)
    assert {"labels", "severity", "cosine", "places", "score"} <= candidate.keys()
    assert 0 < row["duration_ms"] < 10_000


async def test_details_listings_and_selections_are_recorded(
    catalog: None, service: CatalogService, parts: CatalogParts, audit: Recorded
) -> None:
    answer = await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    found = await service.details("mine", context=INCIDENT, caller=CALLER, version="1.0.0")
    await Listing(parts).page(ListingRequest(limit=7), context=INCIDENT, caller=CALLER)
    await service.record_selection(
        workflow_id="mine",
        reasoning="fits",
        search_id=answer.search_id,
        confidence=0.5,
        context=INCIDENT,
        caller=CALLER,
    )
    rows = await audit.rows()
    assert [(row["kind"], row["outcome"], row["analysis"]) for row in rows] == [
        ("search", "ok", "shop/oom"),
        ("details", "ok", "shop/oom"),
        ("list", "ok", "shop/oom"),
        ("selection", "ok", "shop/oom"),
    ]
    _, details, listing, selection = rows
    assert details["arguments"] == {"workflow_id": "mine", "version": "1.0.0"}
    assert details["result"] == {"version_id": found.version_id}
    assert (listing["arguments"], listing["result"]) == ({"limit": 7, "status": "Active"}, {"total": 1})
    assert str(selection["search_id"]) == answer.search_id
    assert selection["arguments"]["reasoning"] == "fits"
    assert selection["result"] == {"version_id": found.version_id, "namespace": "formulary", "supported": True}


UNKNOWN_SEARCH = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("action", "arguments", "error"),
    [
        ("search", {"context": ContextReference(remediation_id="rr-1", meta_remediation_id="rr-2")}, ContextError),
        ("search", {"context": INCIDENT, "custom_labels": {KEY: ("x",)}}, InvalidInput),
        ("details", {"workflow_id": "theirs", "context": INCIDENT}, UnknownWorkflow),
        ("details", {"workflow_id": "Not A Name", "context": INCIDENT}, NoWorkflowName),
        ("list", {"context": ContextReference(remediation_id="\0")}, ContextError),
        ("selection", {"workflow_id": "theirs", "reasoning": "r", "context": INCIDENT}, UnknownWorkflow),
        ("selection", {"workflow_id": "mine", "reasoning": "r", "search_id": "odd", "context": INCIDENT}, InvalidInput),
        (
            "selection",
            {"workflow_id": "mine", "reasoning": "r", "search_id": UNKNOWN_SEARCH, "context": INCIDENT},
            InvalidInput,
        ),
    ],
)
async def test_a_failed_call_leaves_one_row_that_says_why(
    catalog: None,
    service: CatalogService,
    parts: CatalogParts,
    audit: Recorded,
    action: str,
    arguments: dict[str, Any],
    error: type[FormularyError],
) -> None:
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "search": lambda: service.search(search_request(query="OOMKilled", **arguments), caller=CALLER),
        "details": lambda: service.details(**arguments, caller=CALLER),
        "list": lambda: Listing(parts).page(**arguments, caller=CALLER),
        "selection": lambda: service.record_selection(**arguments, caller=CALLER),
    }
    with pytest.raises(error) as refusal:
        await calls[action]()
    row = await audit.row()
    assert (row["kind"], row["outcome"]) == (action, error.__name__)
    assert row["result"] == {"error": str(refusal.value)}
    assert row["mode"] == ""


async def test_what_an_edge_refused_is_recorded_too(parts: CatalogParts, audit: Recorded) -> None:
    error = InvalidInput("top_k 99 is out of bounds; give 1 to 50", field="top_k")
    await parts.trail.refused("search", arguments={"top_k": 99}, reference=INCIDENT, caller=CALLER, error=error)
    row = await audit.row()
    assert (row["kind"], row["outcome"], row["remediation_id"]) == ("search", "InvalidInput", "rr-1")
    assert (row["arguments"], row["result"]) == ({"top_k": 99}, {"error": str(error)})


async def test_no_row_holds_a_custom_label(catalog: None, service: CatalogService, audit: Recorded) -> None:
    await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    await service.details("mine", context=INCIDENT, caller=CALLER)
    for custom in ({KEY: (VALUE,)}, {"tier": (VALUE,)}):
        request = search_request(query="OOMKilled", context=INCIDENT, custom_labels=custom)
        try:
            await service.search(request, caller=CALLER)
        except InvalidInput:
            continue
    with pytest.raises(NotFound):
        await service.details("theirs", context=INCIDENT, caller=CALLER)
    rows = await audit.rows()
    assert len(rows) == 5
    assert not any(label in str(row) for row in rows for label in (KEY, VALUE, "tier"))


@pytest.mark.parametrize(
    "sabotage",
    [
        "revoke execute on function formulary.append_trace from formulary_server",
        "alter table formulary.trace_head rename to gone",
    ],
)
async def test_without_its_row_no_answer_leaves(
    catalog: None, service: CatalogService, parts: CatalogParts, audit: Recorded, sabotage: str
) -> None:
    await audit.connection.execute(sabotage)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: service.search(search_request(query="OOMKilled"), caller=CALLER),
        lambda: service.details("mine", context=NOWHERE, caller=CALLER),
        lambda: Listing(parts).page(context=NOWHERE, caller=CALLER),
        lambda: service.record_selection(workflow_id="mine", reasoning="r", context=NOWHERE, caller=CALLER),
    ]
    for call in calls:
        with pytest.raises(Unavailable) as refusal:
            await call()
        assert "mine" not in str(refusal.value)
    with pytest.raises(NotFound):
        await service.details("unknown", context=NOWHERE, caller=CALLER)


@pytest.mark.parametrize("odd", ["nul \0 inside", "lone \ud800 surrogate", "\udfff\0", "🚀 \u202e fine"])
async def test_arguments_that_the_database_cannot_hold_are_recorded_as_far_as_it_can(
    catalog: None, service: CatalogService, parts: CatalogParts, audit: Recorded, odd: str
) -> None:
    with pytest.raises(InvalidInput):
        await service.details(odd, context=NOWHERE, caller=CALLER)
    await service.record_selection(workflow_id="mine", reasoning=odd, context=NOWHERE, caller=CALLER)
    error = InvalidInput(f"odd {odd}", field="query")
    arguments = {odd: [odd, {"deep": odd}], "number": float("inf")}
    await parts.trail.refused(
        "search", caller=CALLER, reference=ContextReference(analysis=odd), arguments=arguments, error=error
    )
    details, selection, refused = await audit.rows()
    for text in (
        details["arguments"]["workflow_id"],
        selection["arguments"]["reasoning"],
        refused["analysis"],
        *refused["arguments"],
    ):
        assert text == "number" or len(text) == len(odd)
    assert refused["arguments"]["number"] == "inf"


async def test_an_unexpected_failure_is_recorded_without_its_text(
    catalog: None, service: CatalogService, parts: CatalogParts, audit: Recorded
) -> None:
    class Broken:
        model_id = "broken@1"

        def embed_query(self, text: str) -> Any:
            raise ZeroDivisionError(f"secret internals {VALUE}")

        def embed_documents(self, texts: Any, *, progress: Any = None) -> Any:
            raise ZeroDivisionError

    parts.vectors.use(Broken())
    with pytest.raises(ZeroDivisionError):
        await service.search(search_request(query="OOMKilled"), caller=CALLER)
    row = await audit.row()
    assert (row["outcome"], row["result"]) == ("ZeroDivisionError", {"error": "internal error"})


async def test_only_a_recorded_search_can_be_named_by_a_selection(
    catalog: None, service: CatalogService, writing: Database
) -> None:
    details = TraceEvent(
        trace_id="tr_1", kind="details", caller=CALLER.name, search_id=UUID(UNKNOWN_SEARCH), payload={"outcome": "ok"}
    )
    await TraceStore(writing).append(details)
    with pytest.raises(InvalidInput, match="search_id"):
        await service.record_selection(
            workflow_id="mine", reasoning="r", search_id=UNKNOWN_SEARCH, context=NOWHERE, caller=CALLER
        )


async def test_a_selection_may_name_a_search_that_an_older_release_recorded(
    catalog: None, service: CatalogService, audit: Recorded
) -> None:
    await audit.connection.execute(
        """
        insert into formulary.audit_event (action, caller, search_id, arguments, result, outcome, duration_ms)
        values ('search', $1, $2::text::uuid, '{}', '{}', 'ok', 1)
        """,
        CALLER.name,
        UNKNOWN_SEARCH,
    )
    receipt = await service.record_selection(
        workflow_id="mine", reasoning="r", search_id=UNKNOWN_SEARCH, context=NOWHERE, caller=CALLER
    )
    assert (receipt.recorded, receipt.supported) == (True, False)  # it kept no record of what was returned


NO_EVIDENCE = (
    "this choice is no evidence: the search that search_id names did not return this version; choose one of its hits, "
    "or give the search_id of the answer that returned it"
)


@pytest.mark.parametrize(
    "unseen",
    [
        {"labels": {"cluster": ["elsewhere"]}},  # excluded
        {"min_confidence": 1.0},  # found, and kept back
        {"exclude_keywords": ["restarts"], "context": INCIDENT},
    ],
)
async def test_a_selection_that_its_search_did_not_return_is_recorded_as_unsupported(
    catalog: None, service: CatalogService, audit: Recorded, unseen: dict[str, Any]
) -> None:
    request = search_request(query="OOMKilled", **unseen)
    searched = await service.search(request, caller=CALLER)
    receipt = await service.record_selection(
        workflow_id="mine", reasoning="r", search_id=searched.search_id, context=request.context, caller=CALLER
    )
    assert searched.workflows == []
    assert (receipt.recorded, receipt.supported, receipt.notes) == (True, False, [NO_EVIDENCE])
    _, selection = await audit.rows()
    assert (selection["outcome"], str(selection["search_id"])) == ("ok", searched.search_id)
    assert selection["result"] == {
        "version_id": receipt.version_id,
        "namespace": "formulary",
        "supported": False,
    }


async def test_a_selection_of_another_version_than_the_one_returned_is_unsupported(
    catalog: None, service: CatalogService, workflows: CatalogWriter
) -> None:
    searched = await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    await fill(workflows, [manifest.workflow("mine", version="2.0.0", customLabels={KEY: VALUE})])
    chosen: dict[str, Any] = {"workflow_id": "mine", "reasoning": "r", "search_id": searched.search_id}
    newer = await service.record_selection(**chosen, context=INCIDENT, caller=CALLER)
    returned = await service.record_selection(**chosen, version="1.0.0", context=INCIDENT, caller=CALLER)
    assert (newer.version, newer.supported) == ("2.0.0", False)
    assert (returned.version, returned.supported, returned.notes) == ("1.0.0", True, [])


async def test_a_selection_that_names_no_search_is_supported_by_any_of_the_caller_for_the_incident(
    catalog: None, service: CatalogService
) -> None:
    chosen: dict[str, Any] = {"workflow_id": "mine", "reasoning": "r", "context": INCIDENT}
    early = await service.record_selection(**chosen, caller=CALLER)
    await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    supported = await service.record_selection(**chosen, caller=CALLER)
    stranger = await service.record_selection(**chosen, caller=Caller(name="stranger", access=EVERYTHING))
    nowhere = await service.record_selection(workflow_id="mine", reasoning="r", context=NOWHERE, caller=CALLER)
    assert [each.supported for each in (early, supported, stranger, nowhere)] == [False, True, False, False]
    assert "no search of yours for this incident returned this version" in early.notes[0]


async def test_calls_of_an_incident_share_its_trace_and_others_that_of_their_search(
    catalog: None, service: CatalogService, audit: Recorded
) -> None:
    await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    await service.details("mine", context=ContextReference(analysis="shop/oom"), caller=CALLER)
    answer = await service.search(search_request(query="OOMKilled"), caller=CALLER)
    await service.record_selection(
        workflow_id="mine", reasoning="r", search_id=answer.search_id, context=NOWHERE, caller=CALLER
    )
    await service.details("mine", context=NOWHERE, caller=CALLER)
    *traces, alone = [row["trace_id"] for row in await audit.rows()]
    own = f"tr_{UUID(answer.search_id).hex}"
    assert traces == ["rr-1", "rr-1", own, own]
    assert alone.startswith("tr_")
    assert alone != own


async def test_no_call_gets_into_the_trace_of_a_search_that_is_not_its_own(
    catalog: None, service: CatalogService, parts: CatalogParts, audit: Recorded
) -> None:
    answer = await service.search(search_request(query="OOMKilled"), caller=CALLER)
    stranger = Caller(name="stranger", access=EVERYTHING)
    own = f"tr_{UUID(answer.search_id).hex}"
    with pytest.raises(InvalidInput):
        await service.record_selection(
            workflow_id="mine", reasoning="r", search_id=answer.search_id, context=NOWHERE, caller=stranger
        )
    with pytest.raises(ContextError):
        await Listing(parts).page(context=ContextReference(remediation_id=own), caller=stranger)
    with pytest.raises(ContextError):
        await Listing(parts).page(context=ContextReference(remediation_id="r" * 300), caller=stranger)
    first, *others = await audit.rows()
    assert first["trace_id"] == own
    assert len({row["trace_id"] for row in others} - {own}) == 3
    assert [row["remediation_id"] for row in others] == ["", own, "r" * 300]


@pytest.mark.parametrize(
    ("caller", "context"),
    [
        (Caller(name="somebody-else", access=EVERYTHING), INCIDENT),
        (CALLER, ContextReference(remediation_id="rr-2")),
        (CALLER, NOWHERE),
    ],
)
async def test_a_selection_cannot_name_the_search_of_another_caller_or_for_another_incident(
    catalog: None, service: CatalogService, contexts: ContextWriter, caller: Caller, context: ContextReference
) -> None:
    await contexts.save(RequestContext(namespace="shop", name="other", remediation_id="rr-2"))
    searched = await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    with pytest.raises(InvalidInput, match="search_id names no recorded search"):
        await service.record_selection(
            workflow_id="mine", reasoning="r", search_id=searched.search_id, context=context, caller=caller
        )


async def test_a_selection_may_name_the_same_incident_in_another_way(catalog: None, service: CatalogService) -> None:
    searched = await service.search(search_request(query="OOMKilled", context=INCIDENT), caller=CALLER)
    by_object = ContextReference(analysis="shop/oom")
    receipt = await service.record_selection(
        workflow_id="mine", reasoning="r", search_id=searched.search_id, context=by_object, caller=CALLER
    )
    assert receipt.recorded
