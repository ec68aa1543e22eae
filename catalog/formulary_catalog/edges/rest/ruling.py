"""What people say about runs as a whole, over REST: the emergency stop, and trying a contract before it is applied."""

from fastapi import APIRouter, Request, Response

from formulary_catalog.domain.governance.answers import HaltedAnswer, HaltList, LiftedAnswer, RehearsalAnswer
from formulary_catalog.edges.calls.caller import caller_of
from formulary_catalog.edges.rest.calls import (
    PREFIX,
    answered,
    checked_call,
    object_body,
    recorded_call,
    services_of,
)
from formulary_catalog.edges.rest.guarded import Guarded
from formulary_catalog.edges.rest.openapi import body_schema, error_responses, operation, query_parameters
from formulary_catalog.operations.arguments.ruling import (
    MANIFEST_EXAMPLE,
    HaltArguments,
    HaltsArguments,
    LiftArguments,
    RehearseArguments,
)

router = APIRouter(prefix=PREFIX, route_class=Guarded, tags=["governance"])


@router.get(
    "/halts",
    operation_id="list_halts",
    summary="List halts in force",
    response_model=HaltList,
    responses=error_responses(),
    openapi_extra=operation(query=query_parameters(HaltsArguments), of_incident=False),
)
async def list_halts(request: Request) -> Response:
    """Halts of all namespaces, and those of the namespaces whose runs the caller may read."""
    _, asked = await checked_call(request, "read.halts", HaltsArguments)
    return answered(await services_of(request).halts.in_force(namespace=asked.namespace, caller=caller_of(request)))


@router.post(
    "/halts",
    operation_id="halt",
    summary="Halt runs",
    response_model=HaltedAnswer,
    responses=error_responses(413, 415),
    openapi_extra=operation(
        body=body_schema(HaltArguments),
        example={"namespace": "payments", "reason": "restarts make the outage worse"},
        of_incident=False,
    ),
)
async def halt(request: Request) -> Response:
    """End all runs and let none begin, in one namespace or everywhere. Nothing starts after the answer."""
    _, asked = await checked_call(request, "halt.refused", HaltArguments, given=await object_body(request))
    answer = await services_of(request).halts.halt(
        namespace=asked.namespace, reason=asked.reason, caller=caller_of(request)
    )
    return answered(answer)


@router.post(
    "/halts/lift",
    operation_id="lift_halt",
    summary="Lift a halt",
    response_model=LiftedAnswer,
    responses=error_responses(413, 415),
    openapi_extra=operation(
        body=body_schema(LiftArguments),
        example={"namespace": "payments", "reason": "the outage is over"},
        of_incident=False,
    ),
)
async def lift_halt(request: Request) -> Response:
    """Let new runs begin where a person halted them over a server. Halted runs stay ended."""
    _, asked = await checked_call(request, "halt.refused", LiftArguments, given=await object_body(request))
    answer = await services_of(request).halts.lift(
        namespace=asked.namespace, reason=asked.reason, caller=caller_of(request)
    )
    return answered(answer)


@router.post(
    "/contracts/rehearse",
    operation_id="rehearse_contract",
    summary="Try a contract on recorded decisions",
    response_model=RehearsalAnswer,
    responses=error_responses(413, 415),
    openapi_extra=operation(
        body=body_schema(RehearseArguments),
        example={"manifest": MANIFEST_EXAMPLE, "since": "30d"},
        of_incident=False,
    ),
)
async def rehearse_contract(request: Request) -> Response:
    """Which recorded decisions the contract would have changed. Nothing is put in force."""
    body = await object_body(request)
    rehearsing = services_of(request).rehearsing
    _, (asked, entry) = await recorded_call(
        request,
        "read.rehearsal",
        given=lambda: RehearseArguments.recordable(body),
        read=lambda _: RehearseArguments.with_contract(body, shared_namespace=rehearsing.shared_namespace),
    )
    answer = await rehearsing.rehearse(entry, since=asked.since, limit=asked.limit, caller=caller_of(request))
    return answered(answer)
