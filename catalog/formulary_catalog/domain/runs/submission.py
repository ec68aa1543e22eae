"""A request for a run, built in one way for all requesters: an agent through the server, or a person with kubectl.

`services/runs/preparation` calls it for the server, the operator's `runs/request` for objects that people
created. Both have found the workflow and the incident before, and checked what only they can check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from formulary_catalog.domain.audit.sealing import seal
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.runs.facts import run_facts
from formulary_catalog.domain.runs.run import (
    MAX_TIMEOUT_SECONDS,
    UNPROVEN_USER,
    WAITING_SECONDS,
    NewInvocation,
    RunTarget,
    Source,
    duration_seconds,
)
from formulary_catalog.domain.stored import StoredManifest
from formulary_catalog.domain.workflows.inputs import check_input
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow

_SYSTEM_PREFIX = "kube-"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRun:
    """Who asks for a run, for which incident, and under which names it is recorded.

    `idempotency_key` is the digest of the caller's key. `remediation_id` is empty where there is no incident.
    """

    id: str
    source: Source
    requester: str
    namespace: str
    object_name: str
    object_uid: str = ""
    input: Mapping[str, Any]
    target: RunTarget
    timeout_seconds: float | None
    remediation_id: str = ""
    search_id: UUID | None = None
    idempotency_key: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """The settings that say what a request comes to. `tekton_bundles` and `argo_templates` are as for `unseen_pods`."""

    shared_namespace: str
    strict_keys: frozenset[str] = frozenset()
    max_timeout_seconds: float = MAX_TIMEOUT_SECONDS
    tekton_bundles: bool = False
    argo_templates: bool = False


def new_run(
    request: RequestedRun,
    *,
    version: StoredManifest,
    workflow: RemediationWorkflow,
    context: RequestContext | None,
    allowed_here: bool,
    rules: RunRules,
) -> NewInvocation:
    """The run that is asked for, with its checked input and the facts that the rules judge.

    `workflow` is the parsed document of `version`. `allowed_here`: the labels of the incident allow it.

    Raises:
        InputRefused: the input breaks a rule of the workflow's parameters.
    """
    checked = check_input(workflow.spec.parameters, request.input)
    timeout = request.timeout_seconds or default_timeout(workflow, most=rules.max_timeout_seconds)
    unproven = request.requester == UNPROVEN_USER
    facts = run_facts(
        workflow,
        workflow_namespace=version.namespace,
        namespace=request.namespace,
        target=request.target,
        context=context,
        caller="" if unproven else request.requester,
        caller_may_target=request.target.namespace in ("", request.namespace),
        allowed_here=allowed_here,
        foreign=version.namespace not in (rules.shared_namespace, request.namespace),
        unproven=unproven,
        tekton_bundles=rules.tekton_bundles,
        argo_templates=rules.argo_templates,
        timeout_seconds=timeout,
    )
    return NewInvocation(
        id=request.id,
        source=request.source,
        namespace=request.namespace,
        object_name=request.object_name,
        object_uid=request.object_uid,
        version_id=version.version_id,
        workflow_namespace=version.namespace,
        workflow_name=version.name,
        workflow_version=version.version,
        document=version.document,
        values=checked.plain,
        secret=checked.secret,
        target=request.target,
        facts=facts.as_json(),
        remediation_id=request.remediation_id,
        analysis=context.analysis if context is not None else "",
        search_id=request.search_id,
        requester=request.requester,
        timeout_seconds=timeout,
        idempotency_key=request.idempotency_key,
        dry_run=request.dry_run,
        sealed=seal(context, strict_keys=rules.strict_keys),
    )


def why_no_run_here(namespace: str, *, own_namespace: str) -> str:
    """Why nothing may run in a namespace, whatever is labelled there; empty if it may (DESIGN section 13).

    `own_namespace` is that of the product itself; empty where it has none. It is asked at the request of an agent, and
    by the operator right before a run starts.
    """
    if namespace.startswith(_SYSTEM_PREFIX):
        whose = "which belongs to Kubernetes"
    elif namespace == own_namespace:
        whose = "which is that of Formulary itself"
    else:
        return ""
    return f"nothing is run in namespace {namespace}, {whose}; choose another target, or have a person act there"


def default_timeout(workflow: RemediationWorkflow, *, most: float) -> float:
    """Seconds that a run has where nobody says: twice what the workflow estimates, as long as a call waits at least."""
    estimated = duration_seconds(workflow.spec.estimated_duration) or 0.0
    return min(max(WAITING_SECONDS, 2 * estimated), most)
