"""Browsing over REST: pages, relations, names, impact, sections, numbers and what waits for a person.

People and the command line read it; a call needs no incident, and one that it names still constrains the answer.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from formulary_catalog.domain.answers import WorkflowList
from formulary_catalog.domain.browsing import (
    ImpactAnswer,
    NamesAnswer,
    PendingApprovals,
    RelatedAnswer,
    SectionAnswer,
    StatisticsAnswer,
)
from formulary_catalog.domain.search.browsing import (
    DEFAULT_LIMIT,
    approvals_request,
    listing_request,
    named_text,
    related_request,
    section_request,
)
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import PREFIX, Guarded, answered, checked_call, services_of
from formulary_catalog.server.rest.openapi import BROWSING_OPERATION, error_responses

MAX_LIMIT = 1000
MAX_OFFSET = 1_000_000
_PAGE = 100

_WorkflowId = Annotated[str, Path(description="`name`, `namespace/name`, `name@version` or a version id.")]
_Limit = Annotated[int, Query(description="How many to return.")]
_Text = Annotated[str, Query()]

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["workflows"])


@router.get(
    "/workflows",
    operation_id="list_workflows",
    summary="List workflows",
    response_model=WorkflowList,
    responses=error_responses(),
    openapi_extra=BROWSING_OPERATION,
)
async def list_workflows(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many to return.")] = _PAGE,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out before.")] = 0,
    cursor: Annotated[str, Query(description="`next_cursor` of the page before.")] = "",
    signal_type: Annotated[str, Query(description="Those that answer this signal or alert.")] = "",
    action_type: Annotated[str, Query(description="Those with this action, whatever the case.")] = "",
    namespace: Annotated[str, Query(description="Those of this namespace.")] = "",
    risk_level: Annotated[str, Query(description="low, medium, high or unknown.")] = "",
    status: Annotated[
        str,
        Query(description="Active without it; Superseded, Disabled, Invalid or Pending only without an incident."),
    ] = "",
) -> Response:
    """The visible workflows in name order."""
    given: dict[str, Any] = {
        "signal_type": signal_type,
        "action_type": action_type,
        "namespace": namespace,
        "risk_level": risk_level,
        "status": status,
        "limit": limit,
        "offset": offset,
        "cursor": cursor,
    }
    context, wanted = await checked_call(
        request, "list", given=given, query=given, read=lambda _: listing_request(**given, max_limit=MAX_LIMIT)
    )
    services = services_of(request)
    return answered(await services.listing.page(wanted, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/workflows/{workflow_id:path}/related",
    operation_id="get_related",
    summary="Read what is connected with a workflow, a signal type or an action type",
    response_model=RelatedAnswer,
    responses=error_responses(404),
    openapi_extra=BROWSING_OPERATION,
)
async def get_related(
    request: Request,
    workflow_id: Annotated[str, Path(description="A workflow in any form of its name, a signal type or an action.")],
    depth: Annotated[int, Query(description="Steps to walk, 1 to 3.")] = 1,
    relations: Annotated[str, Query(description="Kinds of edges, separated by commas; all without it.")] = "",
    limit: _Limit = DEFAULT_LIMIT,
) -> Response:
    """Neighbours, the near ones first."""
    asked = {"depth": depth, "relations": relations, "limit": limit}
    context, wanted = await checked_call(
        request,
        "read.related",
        given={"entity": workflow_id, **asked},
        query=asked,
        read=lambda _: related_request(
            entity=workflow_id, depth=depth, relations=filter(None, relations.split(",")), limit=limit
        ),
    )
    services = services_of(request)
    return answered(await services.browsing.related(wanted, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/workflows/{workflow_id:path}/impact",
    operation_id="get_impact",
    summary="Read what would be missed without a workflow",
    response_model=ImpactAnswer,
    responses=error_responses(404),
    openapi_extra=BROWSING_OPERATION,
)
async def get_impact(request: Request, workflow_id: _WorkflowId) -> Response:
    """What leads to it, what only it answers, contracts, runs and searches."""
    given = {"workflow_id": workflow_id}
    context, name = await checked_call(
        request, "read.impact", given=given, query=_NOTHING, read=lambda _: _workflow(workflow_id)
    )
    services = services_of(request)
    return answered(await services.browsing.impact(name, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/workflows/{workflow_id:path}/sections/{section}",
    operation_id="get_section",
    summary="Read one section of a workflow",
    response_model=SectionAnswer,
    responses=error_responses(404),
    openapi_extra=BROWSING_OPERATION,
)
async def get_section(request: Request, workflow_id: _WorkflowId, section: str) -> Response:
    """A text, or items."""
    given = {"workflow_id": workflow_id, "section": section}
    context, asked = await checked_call(
        request, "read.section", given=given, query=_NOTHING, read=lambda _: section_request(**given)
    )
    services = services_of(request)
    return answered(await services.browsing.section(*asked, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/names",
    operation_id="find_names",
    summary="Find workflows by name",
    response_model=NamesAnswer,
    responses=error_responses(),
    openapi_extra=BROWSING_OPERATION,
)
async def find_names(
    request: Request,
    name: Annotated[str, Query(description="A name or a part of one, a version id, a signal, or a title.")],
) -> Response:
    """Exact ones first, else the nearest names."""
    given = {"name": name}
    context, wanted = await checked_call(
        request,
        "read.names",
        given=given,
        query=given,
        read=lambda _: named_text(name, field="name", example="memory-limit"),
    )
    services = services_of(request)
    return answered(await services.browsing.find(wanted, context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/stats",
    operation_id="get_statistics",
    summary="Read the catalog in numbers",
    response_model=StatisticsAnswer,
    responses=error_responses(),
    openapi_extra=BROWSING_OPERATION,
)
async def get_statistics(request: Request) -> Response:
    """Counts of workflows and searches, as far as the caller may see them."""
    context, _ = await checked_call(request, "read.statistics", given=_NOTHING, query=_NOTHING, read=lambda _: None)
    services = services_of(request)
    return answered(await services.browsing.statistics(context=context, caller=caller_of(request), browsing=True))


@router.get(
    "/approvals",
    operation_id="list_approvals",
    summary="List runs that wait for a person",
    response_model=PendingApprovals,
    responses=error_responses(),
    openapi_extra=BROWSING_OPERATION,
)
async def list_approvals(
    request: Request,
    namespace: Annotated[str, Query(description="Those in this namespace.")] = "",
    limit: _Limit = DEFAULT_LIMIT,
) -> Response:
    """The oldest first; reading approves nothing."""
    given: dict[str, Any] = {"namespace": namespace, "limit": limit}
    context, wanted = await checked_call(
        request, "read.approvals", given=given, query=given, read=lambda _: approvals_request(**given)
    )
    services = services_of(request)
    return answered(await services.approvals.pending(wanted, context=context, caller=caller_of(request), browsing=True))


_NOTHING: Mapping[str, Any] = {}


def _workflow(name: str) -> str:
    return named_text(name, field="workflow_id", example="oom-raise-memory-limit")
