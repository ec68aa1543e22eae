"""Requests for runs, for tests that need one without a caller."""

from dataclasses import replace
from typing import Any

from formulary_catalog.domain.governance.gate import RunFacts
from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.domain.runs.run import NewInvocation, RunTarget, Source, id_of_request, idempotency_digest

CALLER = "system:serviceaccount:shop:agent"
KEY = InputKeys.generate()
"""A line of a key file; `KEYS` is the file."""
KEYS = InputKeys.load(KEY)
HARMLESS = RunFacts(
    workflow_name="restart",
    workflow_namespace="formulary",
    action_type="RestartPod",
    namespace="shop",
    caller=CALLER,
    risk_level="low",
    environment="staging",
    timeout_seconds=60,
)
"""What the rules know of a run that nobody need approve."""
IN_PRODUCTION = replace(HARMLESS, environment="production")
"""The same of one that a person has to approve."""


def request(*, facts: RunFacts = HARMLESS, key: str = "", caller: str = CALLER, **changes: Any) -> NewInvocation:
    """A request for a run of the workflow `restart`; `changes` are of NewInvocation."""
    asked = NewInvocation(
        id=id_of_request(caller=caller, idempotency_key=key),
        source=Source.SERVER,
        namespace="shop",
        object_name="",
        version_id="wf_ver_" + "0" * 20,
        workflow_namespace="formulary",
        workflow_name="restart",
        workflow_version="1.0.0",
        document={"kind": "RemediationWorkflow"},
        values={"REPLICAS": 2},
        target=RunTarget(kind="Deployment", name="checkout", namespace="shop", api_version="apps/v1"),
        facts=facts.as_json(),
        remediation_id="rr-1",
        requester=caller,
        timeout_seconds=60,
        idempotency_key=idempotency_digest(caller=caller, idempotency_key=key),
    )
    return replace(asked, object_name=asked.id, **changes)


def job_of(invocation_id: str) -> dict[str, Any]:
    """The reference to a Job that does the work of a run."""
    return {"apiVersion": "batch/v1", "kind": "Job", "name": invocation_id, "uid": f"uid-of-{invocation_id}"}
