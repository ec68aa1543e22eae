"""What belongs to a run in the cluster: made from its row, and read back.

`runs.execution` calls it before it creates objects and when it reads them. An object counts as the run's only with its
nonce, which only the operator knows. Whether a run may start is decided elsewhere.

For a person who decides on a run its content is rendered each time that it is decided upon. An approval may name the
digest: it then counts for that content alone. Values of sensitive parameters are never in it. Pure.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.runs.run import Invocation, Phase
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_operator.api.names import SECRETS, Json, Resource
from formulary_operator.engines.parameters import text_of
from formulary_operator.engines.plan import NONCE_ANNOTATION, Observation, RunPlan

_MAX_LAST_WORDS = 500
HIDDEN = "(hidden)"
"""Shown instead of the value of a sensitive parameter."""
_UNNAMED_ACCOUNTS = {"Workflow": "(of the WorkflowTemplate)", "Job": ""}
"""The account of a manifest that names none. A Job then gets no token, so that it acts as nobody."""
_DEFAULT_ACCOUNT = "default"


def plan_of(
    run: Invocation,
    *,
    workflow: RemediationWorkflow,
    owner: Mapping[str, Any] | None,
    default_image: str,
    default_user: int,
    argo_strict: bool,
    seconds: float,
    nonce: str = "",
) -> RunPlan:
    """What an engine receives about a run that may take so many seconds from now on."""
    secret = frozenset(p.name for p in workflow.spec.parameters if p.sensitive and p.name in run.input)
    return RunPlan(
        invocation_id=run.id,
        namespace=run.namespace,
        workflow=workflow,
        version_id=run.version_id,
        values={name: value for name, value in run.input.items() if name not in secret},
        sensitive=secret,
        target=run.target,
        remediation_id=run.remediation_id,
        timeout_seconds=seconds,
        owner=owner,
        image_default=default_image,
        user_default=default_user,
        argo_strict=argo_strict,
        nonce=nonce,
    )


def secret_of(plan: RunPlan, values: Mapping[str, Any]) -> Json:
    """The Secret from which a run reads the values that nobody else may see; it goes with the invocation."""
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {**plan.metadata, "name": plan.secret_name},
        "type": "Opaque",
        "immutable": True,
        "data": {name: base64.b64encode(text_of(value, name=name).encode()).decode() for name, value in values.items()},
    }


def reference_of(resource: Resource, document: Mapping[str, Any]) -> dict[str, str]:
    """`status.executionRef` of a run that this object carries out."""
    metadata = document["metadata"]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def is_made_for(document: Mapping[str, Any], *, nonce: str) -> bool:
    """Whether the object carries the nonce of the run, which only this operator knows."""
    carried = (document["metadata"].get("annotations") or {}).get(NONCE_ANNOTATION)
    return bool(nonce) and carried == nonce


def is_owned(document: Mapping[str, Any], *, uid: str) -> bool:
    """Whether the object was made for the invocation with this uid."""
    owners = document["metadata"].get("ownerReferences") or ()
    return bool(uid) and any(owner.get("uid") == uid for owner in owners)


def seconds_left(run: Invocation, *, now: datetime) -> float:
    """How long a run that has begun may go on; at most 0 when its time is over."""
    assert run.started_at is not None, "it has begun"
    return (run.started_at + timedelta(seconds=run.timeout_seconds) - now).total_seconds()


def outcome_message(observed: Observation, *, kind: str, name: str, outputs: Mapping[str, Any]) -> str:
    """How a run ended, for a person; what a failed one said last says most."""
    verb = {Phase.SUCCEEDED: "succeeded", Phase.TIMED_OUT: "was stopped at its deadline"}.get(observed.phase, "failed")
    parts = [f"{kind} {name} {verb}", observed.message]
    if observed.phase is not Phase.SUCCEEDED and isinstance(last := outputs.get("message"), str):
        parts.append(last[-_MAX_LAST_WORDS:].strip())
    return ": ".join(part for part in parts if part)


def content_of(run: Invocation, *, workflow: RemediationWorkflow, plan: RunPlan, manifest: Mapping[str, Any]) -> Json:
    """The content of a run. `manifest` was rendered without owner, nonce or elapsed time: of equal content it is equal.

    Raises nothing: what the manifest does not have is left empty.
    """
    needed = workflow.spec.dependencies
    secrets = {reference.name for reference in needed.secrets} | set(_texts(manifest, "secretName"))
    named = ", ".join(dict.fromkeys(_texts(manifest, "serviceAccountName")))
    account = named or _UNNAMED_ACCOUNTS.get(str(manifest.get("kind")), _DEFAULT_ACCOUNT)
    bundle = workflow.spec.execution.bundle
    return {
        "digest": digest_of(manifest),
        "versionId": run.version_id,
        "kind": str(manifest.get("kind", "")),
        "images": list(dict.fromkeys(_texts(manifest, "image"))) or ([bundle] if bundle else []),
        **({"serviceAccount": account} if account else {}),
        "secrets": sorted(secrets - {plan.secret_name}),
        "configMaps": sorted(reference.name for reference in needed.config_maps),
        "parameters": {
            **dict(plan.values),
            **dict.fromkeys(sorted(plan.sensitive), HIDDEN),
        },
        "steps": [{"name": step.name, "command": step.command} for step in workflow.spec.steps],
        "manifest": dict(manifest),
    }


def digest_of(manifest: Mapping[str, Any]) -> str:
    """Digest of a manifest: sha256 of its canonical JSON."""
    return f"sha256:{hashlib.sha256(canonical_json(manifest).encode()).hexdigest()}"


def _texts(value: object, name: str) -> Iterator[str]:
    """The texts that members of this name hold, wherever they are."""
    pending = [value]
    while pending:
        current = pending.pop(0)
        if isinstance(current, Mapping):
            yield from (member for key, member in current.items() if key == name and isinstance(member, str) and member)
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
