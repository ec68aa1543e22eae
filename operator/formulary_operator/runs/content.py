"""What a run would run, for a person who decides on it: its manifest, the parts that matter most, and a digest.

`runs.execution` renders it each time a run is decided upon. An approval may name the digest: it then counts for that
content alone. Values of sensitive parameters are never in it. Pure.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.domain.runs.run import Invocation
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_operator.api.names import Json
from formulary_operator.engines.plan import RunPlan

HIDDEN = "(hidden)"
"""Shown instead of the value of a sensitive parameter."""
_UNNAMED_ACCOUNTS = {"Workflow": "(of the WorkflowTemplate)", "Job": ""}
"""The account of a manifest that names none. A Job then gets no token, so that it acts as nobody."""
_DEFAULT_ACCOUNT = "default"


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
