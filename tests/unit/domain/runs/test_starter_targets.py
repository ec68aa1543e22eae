"""What workflows that ship with the product may act on, with a target of each kind."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.target_input import bound_input, named_objects
from formulary_catalog.domain.targets.context import target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.workflows.manifest import Parameter, RemediationWorkflow, WorkflowSpec
from formulary_catalog.errors import InvalidInput
from support.filling import entry, starter_documents
from support.targets import surroundings

DIRECTORY = Path(__file__).parents[4] / "catalog" / "workflows"
OF_TWO_NAMESPACES = {"hpa-metrics-restore"}
"""Its autoscaler is in one namespace, the metrics server in `kube-system`: for people, and for an AIAnalysis."""
NAME_NOTHING_THAT_HAS_LABELS = set(
    """
    ACCESS_MODE ACCOUNT APP APPLICATION ARCHITECTURE ATTACHMENT CERTIFICATE CIDR CLIENT_APP COMMAND_JSON COMPONENT
    CONFIGMAP CONTAINER COPY CPU CPU_LIMIT CPU_REQUEST DIRECTORY EFFECT FALLBACK_SIZE FIELD FINALIZER FORMER
    GOOD_CONFIGMAP GOOD_SECRET HARD HOST IMAGE INIT_CONTAINER JVM_OPTIONS KEEP KEY LIMIT LIMIT_RANGE MACHINE MAXIMUM
    MEMORY MEMORY_LIMIT MEMORY_REQUEST MIRROR_IMAGE MONITOR NAME_PATTERN NEW_POOL OBJECT PDB POLICY POOL PORT_NAME
    PREVIOUS_HARD PRIORITY_CLASS PROBE PROTOCOL QUOTA RANGE REFERENCE RELEASE REQUEST RESOURCE ROLE RUN RUNTIME SECRET
    SIZE SLOT SSH_TARGET STORAGE_CLASS TAINT_KEY TIMEOUT UNAVAILABLE UNIT URL URL_PATH VALUE VARIABLE VOLUME WEBHOOK
    """.split()
)
"""MONITOR, OBJECT and PROBE say with their value of which kind they are."""
POD = target_context(surroundings(selector="app=checkout"), mapping=DEFAULT_MAPPING)
ALONE = replace(POD, target_owners=(), target_node="")
ABOUT = (
    POD,
    replace(POD, target_owners=("StatefulSet/checkout",)),
    *(replace(ALONE, target_kind=each) for each in ("Deployment", "StatefulSet", "DaemonSet")),
    *(replace(ALONE, target_kind=each, target_selector="") for each in ("Job", "CronJob", "Service", "Ingress")),
    *(replace(ALONE, target_kind=each, target_selector="") for each in ("PersistentVolumeClaim", "Certificate")),
    replace(ALONE, target_kind="HorizontalPodAutoscaler", target_selector=""),
    replace(ALONE, target_kind="Node", target_namespace="", target_selector=""),
)


@cache
def _catalog() -> tuple[RemediationWorkflow, ...]:
    return tuple(entry(document).workflow for document in starter_documents(DIRECTORY))


def _fits(spec: WorkflowSpec, context: RequestContext) -> bool:
    """Whether a run about this takes values for all that it needs."""
    try:
        bound = bound_input(spec, {}, context=context)
        left = {each.name: "other" for each in spec.parameters if each.required and each.name not in bound}
        bound_input(spec, left, context=context)
        named_objects(spec, {**bound, **left}, context=context)
    except InvalidInput:
        return False
    return True


def _names_something(spec: WorkflowSpec, parameter: Parameter) -> bool:
    alone = spec.model_copy(update={"parameters": [parameter.model_copy(update={"default": None})]})
    given = {parameter.name: "other"}
    for context in (POD, ALONE):
        try:
            if bound_input(alone, {}, context=context) or named_objects(alone, given, context=context):
                return True
            bound_input(alone, given, context=context)
        except InvalidInput:
            return True
    return False


@pytest.mark.parametrize("workflow", _catalog(), ids=lambda each: each.metadata.name)
def test_each_workflow_of_the_starter_catalog_can_be_run_about_something(workflow: RemediationWorkflow) -> None:
    can_be_run = any(_fits(workflow.spec, context) for context in ABOUT)

    assert can_be_run == (workflow.metadata.name not in OF_TWO_NAMESPACES)


def test_whatever_names_an_object_with_labels_in_the_starter_catalog_is_known_to() -> None:
    """A new one names an object of a kind that is read? Then its name or its command has to say so."""
    naming_nothing = {
        parameter.name
        for workflow in _catalog()
        for parameter in workflow.spec.parameters
        if parameter.type == "string" and not _names_something(workflow.spec, parameter)
    }

    assert naming_nothing == NAME_NOTHING_THAT_HAS_LABELS
