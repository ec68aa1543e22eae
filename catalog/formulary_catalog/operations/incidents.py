"""Incidents, and what the owners of a target demand, for people; what their rights do not allow does not exist."""

from formulary_catalog.domain.reading import IncidentAnswer, IncidentPage, TargetAnswer
from formulary_catalog.domain.targets.reference import parse_target
from formulary_catalog.operations.arguments.reading import IncidentArguments, IncidentsArguments
from formulary_catalog.operations.arguments.target import TargetArguments
from formulary_catalog.operations.operation import Operation, Route

TARGET = Operation(
    action="read.target",
    arguments=TargetArguments,
    answer=TargetAnswer,
    run=lambda call: call.services.targets.read(parse_target(call.arguments.target), caller=call.caller),
    route=Route(
        path="/context",
        id="get_context",
        tag="reading",
        summary="Read what the owners of a target demand",
        description=(
            "The constraints of a target, each with the label that says so; custom labels for those who may read them."
        ),
    ),
    of_incident=False,
)
INCIDENTS = Operation(
    action="read.incidents",
    arguments=IncidentsArguments,
    answer=IncidentPage,
    run=lambda call: call.services.incidents.page(**call.arguments.page, caller=call.caller),
    route=Route(
        path="/incidents",
        id="list_incidents",
        tag="reading",
        summary="List incidents",
        description="Incidents of the namespaces in which the caller may use them, the last changed first.",
    ),
    of_incident=False,
)
INCIDENT = Operation(
    action="read.incident",
    arguments=IncidentArguments,
    answer=IncidentAnswer,
    run=lambda call: call.services.incidents.incident(call.arguments.incident, caller=call.caller),
    route=Route(
        path="/incidents/{incident:path}",
        id="get_incident",
        tag="reading",
        summary="Read an incident",
        description="An incident and what it demands of a workflow, custom labels included.",
        errors=(404,),
        in_path={"incident": "Remediation id, or `namespace/name` of the AIAnalysis."},
    ),
    of_incident=False,
)

OPERATIONS = (TARGET, INCIDENTS, INCIDENT)
