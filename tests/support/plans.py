"""Runs of small workflows, as engines are told of them, and what Kubernetes makes of their manifests."""

import re
from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.runs.run import RunTarget
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_operator.engines.plan import RunPlan
from support.manifest import workflow

BUNDLE = "registry.example/remedies/restart:1.2.0"
INVOCATION = "inv-0123456789abcdef0123"

_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z0-9]+)\))")


def plan(
    *,
    values: Mapping[str, Any] | None = None,
    sensitive: frozenset[str] = frozenset(),
    execution: Mapping[str, Any] | None = None,
    namespace: str = "shop",
    timeout_seconds: float = 300,
    owner: Mapping[str, Any] | None = None,
    image_default: str = "",
    user_default: int = 65532,
    argo_strict: bool = False,
    **spec: Any,
) -> RunPlan:
    """A run of a workflow with this execution; other keyword arguments are put into its spec."""
    given = {"engine": "job", "bundle": BUNDLE} if execution is None else dict(execution)
    return RunPlan(
        invocation_id=INVOCATION,
        namespace=namespace,
        workflow=RemediationWorkflow.model_validate(workflow("restart", execution=given, **spec)),
        version_id="wf_ver_0123456789abcdef0123",
        values=values or {},
        sensitive=sensitive,
        target=RunTarget(api_version="apps/v1", kind="Deployment", name="checkout", namespace="shop"),
        remediation_id="rr-1",
        timeout_seconds=timeout_seconds,
        owner=owner,
        image_default=image_default,
        user_default=user_default,
        argo_strict=argo_strict,
    )


def container(job: Mapping[str, Any]) -> dict[str, Any]:
    """The one container of a Job."""
    (only,) = job["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def environment(job: Mapping[str, Any], *, secrets: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment that the container of a Job gets."""
    found: dict[str, str] = {}
    for variable in container(job)["env"]:
        if "value" in variable:
            found[variable["name"]] = expanded(variable["value"], variables=found)
        else:
            found[variable["name"]] = (secrets or {})[variable["valueFrom"]["secretKeyRef"]["key"]]
    return found


def command(job: Mapping[str, Any], *, variables: Mapping[str, str]) -> list[str]:
    """The command line that the container of a Job gets."""
    found = container(job)
    return [expanded(part, variables=variables) for part in (*found["command"], *found["args"])]


def expanded(text: str, *, variables: Mapping[str, str]) -> str:
    """What Kubernetes makes of a value, a command or an argument: references replaced, one `$` of two."""

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables.get(name, match.group())

    return _REFERENCE.sub(replacement, text)
