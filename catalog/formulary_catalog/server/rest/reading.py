"""What people read over REST beside the catalog: explanations, searches, traces, incidents, runs and contracts.

Each answer is what the caller's own rights allow; what they do not is answered as if it did not exist.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from formulary_catalog.domain.reading import (
    ContractList,
    IncidentAnswer,
    IncidentPage,
    InvocationPage,
    OutcomesAnswer,
    TargetAnswer,
    TraceAnswer,
    TraceFiles,
    TracePage,
    WaitingRunList,
)
from formulary_catalog.domain.search.explanation.answers import Explanation, RecordedAnswer
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.operations.arguments.reading import (
    ContractsPageArguments,
    ExplainArguments,
    IncidentArguments,
    IncidentsArguments,
    InvocationsArguments,
    OutcomesArguments,
    RecordedArguments,
    TraceArguments,
    TraceFilesArguments,
    TracesArguments,
    WaitingArguments,
)
from formulary_catalog.operations.arguments.target import TargetArguments
from formulary_catalog.operations.searching import search_request_of
from formulary_catalog.server.calls.caller import caller_of
from formulary_catalog.server.rest.calls import PREFIX, Guarded, answered, checked_call, services_of
from formulary_catalog.server.rest.openapi import error_responses, operation, query_parameters

_HOW_TO_DECIDE = "decide with `formulary approve ID --digest DIGEST --reason …` or `formulary reject ID --reason …`"
router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["reading"])


@router.get(
    "/explain",
    operation_id="explain",
    summary="Explain why a workflow is in an answer, or why not",
    response_model=Explanation,
    responses=error_responses(404),
    openapi_extra=operation(query=query_parameters(ExplainArguments)),
)
async def explain(request: Request) -> Response:
    """The first rule that excludes it, or its evidence part by part. A recorded search has its own incident."""
    context, asked = await checked_call(request, "read.explain", ExplainArguments)
    explaining, caller = services_of(request).explaining, caller_of(request)
    if asked.search_id:
        return answered(await explaining.of_recorded(asked.workflow, asked.search_id, caller=caller))
    wanted = search_request_of(asked, context=context)
    return answered(await explaining.of_search(asked.workflow, wanted, caller=caller))


@router.get(
    "/searches/{search_id}",
    operation_id="get_search",
    summary="Read a recorded search",
    response_model=RecordedAnswer,
    responses=error_responses(404),
    openapi_extra=operation(of_incident=False),
)
async def get_search(
    request: Request,
    search_id: Annotated[str, Path(description="`search_id` of an answer, or of an event of a trace.")],
) -> Response:
    """What was asked, under which constraints, and what was found then, with scores and reasons."""
    _, asked = await checked_call(request, "read.explain", RecordedArguments)
    return answered(await services_of(request).explaining.recorded(asked.search_id, caller=caller_of(request)))


@router.get(
    "/context",
    operation_id="get_context",
    summary="Read what the owners of a target demand",
    response_model=TargetAnswer,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(TargetArguments), of_incident=False),
)
async def get_context(request: Request) -> Response:
    """The constraints of a target, each with the label that says so; custom labels for those who may read them."""
    _, asked = await checked_call(request, "read.target", TargetArguments)
    return answered(await services_of(request).targets.read(parse_target(asked.target), caller=caller_of(request)))


@router.get(
    "/traces",
    operation_id="list_traces",
    summary="List traces",
    response_model=TracePage,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(TracesArguments), of_incident=False),
)
async def list_traces(request: Request) -> Response:
    """Traces of the namespaces in which the caller may use incidents, the last changed first."""
    _, asked = await checked_call(request, "read.traces", TracesArguments)
    page = await services_of(request).traces.page(
        since=asked.since,
        namespace=asked.namespace,
        remediation_id=asked.remediation_id,
        outcome=asked.outcome,
        of_incidents=asked.of == "incidents",
        limit=asked.limit,
        after=asked.cursor,
        caller=caller_of(request),
    )
    return answered(page)


@router.get(
    "/traces/{trace_id:path}/files",  # before what takes any path of traces
    operation_id="get_trace_files",
    summary="Read a trace as files",
    response_model=TraceFiles,
    responses=error_responses(404),
    openapi_extra=operation(of_incident=False),
)
async def get_trace_files(
    request: Request, trace_id: Annotated[str, Path(description="`trace_id`, or the remediation id of its incident.")]
) -> Response:
    """The files of `formulary trace export`: events as they were hashed, verdict, verification."""
    _, asked = await checked_call(request, "read.trace", TraceFilesArguments)
    return answered(await services_of(request).traces.files(asked.trace_id, caller=caller_of(request)))


@router.get(
    "/traces/{trace_id:path}",
    operation_id="get_trace",
    summary="Read a trace",
    response_model=TraceAnswer,
    responses=error_responses(404),
    openapi_extra=operation(query=query_parameters(TraceArguments, in_path=("trace_id",)), of_incident=False),
)
async def get_trace(
    request: Request, trace_id: Annotated[str, Path(description="`trace_id`, or the remediation id of its incident.")]
) -> Response:
    """A page of its events, as they were recorded and in words, and whether its chain is intact."""
    _, asked = await checked_call(request, "read.trace", TraceArguments)
    story = await services_of(request).traces.story(
        asked.trace_id, limit=asked.limit, after=asked.cursor, caller=caller_of(request)
    )
    return answered(story)


@router.get(
    "/incidents",
    operation_id="list_incidents",
    summary="List incidents",
    response_model=IncidentPage,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(IncidentsArguments), of_incident=False),
)
async def list_incidents(request: Request) -> Response:
    """Incidents of the namespaces in which the caller may use them, the last changed first."""
    _, asked = await checked_call(request, "read.incidents", IncidentsArguments)
    page = await services_of(request).incidents.page(
        namespace=asked.namespace, limit=asked.limit, after=asked.cursor, caller=caller_of(request)
    )
    return answered(page)


@router.get(
    "/incidents/{incident:path}",
    operation_id="get_incident",
    summary="Read an incident",
    response_model=IncidentAnswer,
    responses=error_responses(404),
    openapi_extra=operation(of_incident=False),
)
async def get_incident(
    request: Request,
    incident: Annotated[str, Path(description="Remediation id, or `namespace/name` of the AIAnalysis.")],
) -> Response:
    """An incident and what it demands of a workflow, custom labels included."""
    _, asked = await checked_call(request, "read.incident", IncidentArguments)
    return answered(await services_of(request).incidents.incident(asked.incident, caller=caller_of(request)))


@router.get(
    "/invocations",
    operation_id="list_invocations",
    summary="List runs",
    response_model=InvocationPage,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(InvocationsArguments), of_incident=False),
)
async def list_invocations(request: Request) -> Response:
    """The caller's own runs, and those of the namespaces in which it may read runs, the newest first."""
    _, asked = await checked_call(request, "read.invocations", InvocationsArguments)
    page = await services_of(request).runs.page(
        phase=asked.phase,
        namespace=asked.namespace,
        limit=asked.limit,
        after=asked.cursor,
        caller=caller_of(request),
    )
    return answered(page)


@router.get(
    "/outcomes",
    operation_id="get_outcomes",
    summary="Read how runs ended over time",
    response_model=OutcomesAnswer,
    responses=error_responses(404),
    openapi_extra=operation(query=query_parameters(OutcomesArguments), of_incident=False),
)
async def get_outcomes(request: Request) -> Response:
    """Outcomes by day or week, of all runs that the caller may read or of one workflow. Dry runs do not count."""
    _, asked = await checked_call(request, "read.outcomes", OutcomesArguments)
    runs = services_of(request).runs
    return answered(
        await runs.outcomes(days=asked.days, by=asked.by, workflow_id=asked.workflow_id, caller=caller_of(request))
    )


@router.get(
    "/approvals",
    operation_id="list_approvals",
    summary="List runs that wait for a person",
    response_model=WaitingRunList,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(WaitingArguments), of_incident=False),
)
async def list_approvals(request: Request) -> Response:
    """Runs that wait, the oldest first, with what each would run. Reading approves nothing."""
    _, asked = await checked_call(request, "read.approvals", WaitingArguments)
    waiting = await services_of(request).runs.waiting(
        namespace=asked.namespace, limit=asked.limit, after=asked.cursor, caller=caller_of(request)
    )
    notes = [*([_HOW_TO_DECIDE] if waiting.approvals else []), *waiting.notes]
    return answered(waiting.model_copy(update={"notes": notes}))


@router.get(
    "/contracts",
    operation_id="list_contracts",
    summary="List contracts in force",
    response_model=ContractList,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(ContractsPageArguments), of_incident=False),
)
async def list_contracts(request: Request) -> Response:
    """Contracts of the namespaces in which the caller may read them, with their rules."""
    _, asked = await checked_call(request, "read.contracts", ContractsPageArguments)
    contracts = await services_of(request).runs.contracts(
        namespace=asked.namespace, limit=asked.limit, after=asked.cursor, caller=caller_of(request)
    )
    return answered(contracts)
