"""Coverage over REST: remedies for signals and for alerts of rule files, stale and duplicate workflows.

Alerts come in a POST, as the caller read them: a rule file is no resource of the catalog, is larger than a query string
may be, and its reader can name the line that is wrong. Nothing is kept of them but the event of the call.
"""

from fastapi import APIRouter, Request, Response

from formulary_catalog.domain.coverage.answers import CoverageAnswer, DuplicatesAnswer, StaleAnswer
from formulary_catalog.operations.arguments.coverage import AlertsArguments, LinesArguments
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import PREFIX, Guarded, answered, checked_call, object_body, services_of
from formulary_catalog.server.rest.openapi import body_schema, error_responses, operation, query_parameters

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["coverage"])


@router.get(
    "/coverage",
    operation_id="get_coverage",
    summary="Read which signals have a remedy, and which queries found too little",
    response_model=CoverageAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(LinesArguments), of_incident=False),
)
async def get_coverage(request: Request) -> Response:
    """The canonical signals and those that workflows declare, the alerts of the cluster, and the weak queries.

    A page has at most `limit` signals and `limit` alerts. Totals count what is on other pages too.
    """
    _, asked = await checked_call(request, "read.coverage", LinesArguments)
    return answered(
        await services_of(request).coverage.of_catalog(limit=asked.limit, after=asked.cursor, caller=caller_of(request))
    )


@router.post(
    "/coverage",
    operation_id="compare_alerts",
    summary="Compare alerts with the catalog",
    response_model=CoverageAnswer,
    responses=error_responses(413, 415),
    openapi_extra=operation(
        body=body_schema(AlertsArguments),
        example={"alerts": [{"name": "KubePodCrashLooping", "severity": "warning"}]},
        of_incident=False,
    ),
)
async def compare_alerts(request: Request) -> Response:
    """The remedy for each alert. The searches belong to no incident."""
    _, asked = await checked_call(request, "read.coverage", AlertsArguments, given=await object_body(request))
    return answered(await services_of(request).coverage.of_alerts(asked.request, caller=caller_of(request)))


@router.get(
    "/coverage/stale",
    operation_id="list_stale_workflows",
    summary="List workflows that may be of no use",
    response_model=StaleAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(LinesArguments), of_incident=False),
)
async def list_stale_workflows(request: Request) -> Response:
    """Workflows whose image is gone, then those that fail, those never chosen, and those never found."""
    _, asked = await checked_call(request, "read.stale", LinesArguments)
    return answered(
        await services_of(request).upkeep.stale(limit=asked.limit, after=asked.cursor, caller=caller_of(request))
    )


@router.get(
    "/coverage/duplicates",
    operation_id="list_duplicate_workflows",
    summary="List pairs of workflows that say nearly the same",
    response_model=DuplicatesAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(LinesArguments), of_incident=False),
)
async def list_duplicate_workflows(request: Request) -> Response:
    """Pairs of workflows, those with the nearest texts first."""
    _, asked = await checked_call(request, "read.duplicates", LinesArguments)
    return answered(
        await services_of(request).upkeep.duplicates(limit=asked.limit, after=asked.cursor, caller=caller_of(request))
    )
