"""Kubernetes Jobs: one container, one try, no more rights than the workflow's ServiceAccount has."""

from collections.abc import Mapping, Sequence
from typing import Any

from formulary_operator.api.names import Resource
from formulary_operator.engines import observations, reading
from formulary_operator.engines.config import EngineConfig, bundle_of, unrunnable
from formulary_operator.engines.environment import environment, literal
from formulary_operator.engines.outputs import outputs_of
from formulary_operator.engines.plan import TTL_SECONDS, Json, Observation, RunPlan
from formulary_operator.engines.volumes import volumes_of

JOBS = Resource(group="batch", version="v1", plural="jobs", kind="Job")
CONTAINER = "workflow"
DEFAULT_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "256Mi"},
}

# A shell of its own for each step: nothing leaks, and a step that is no valid script fails alone. It waits for a child
# in the background because only then a shell hears at once that it should end.
_RUN_STEPS = """\
trap 'exit 143' TERM
while [ "$#" -gt 0 ]; do
  printf '==> %s\\n' "$1"
  /bin/sh -ceu "$2" &
  wait "$!" || { status=$?; printf 'step %s failed with exit code %s\\n' "$1" "$status" >&2; exit "$status"; }
  shift 2
done
"""


class JobEngine:
    """Runs a workflow as a Job."""

    name = "job"
    resource = JOBS

    def manifest(self, plan: RunPlan) -> Json:
        """The Job of a run; see `Engine.manifest`."""
        return {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": plan.metadata,
            "spec": {
                "backoffLimit": 0,
                "completions": 1,
                "parallelism": 1,
                "activeDeadlineSeconds": plan.deadline_seconds,
                "ttlSecondsAfterFinished": TTL_SECONDS,
                "template": {"metadata": {"labels": plan.labels}, "spec": _pod(plan)},
            },
        }

    def observe(self, document: Mapping[str, Any]) -> Observation:
        """How the Job stands; see `Engine.observe`."""
        status = reading.mapping(document, "status")
        started_at = reading.moment(status.get("startTime"))
        if (complete := reading.true_condition(document, "Complete")) is not None:
            finished = status.get("completionTime") or complete.get("lastTransitionTime")
            return observations.succeeded(started_at=started_at, finished_at=reading.moment(finished))
        if (failure := reading.true_condition(document, "Failed")) is not None:
            reason = reading.text(failure.get("reason"))
            return observations.failed(
                timed_out=reason == "DeadlineExceeded",
                started_at=started_at,
                finished_at=reading.moment(failure.get("lastTransitionTime")),
                message=": ".join(part for part in (reason, reading.text(failure.get("message"))) if part),
            )
        return observations.running(started_at=started_at)

    def outputs(self, document: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Json:
        """The termination message of the container that ended last; see `Engine.outputs`."""
        ended = [terminated for pod in pods if (terminated := _terminated(pod))]
        last = max(ended, key=lambda terminated: reading.text(terminated.get("finishedAt")), default={})
        return outputs_of(reading.text(last.get("message")))


def _pod(plan: RunPlan) -> Json:
    config = EngineConfig(plan.workflow)
    account = plan.workflow.spec.execution.service_account_name
    user = config.positive("runAsUser", default=plan.user_default)
    ids = {"runAsUser": user, "runAsGroup": user, "fsGroup": user} if user else {}
    volumes, mounts = volumes_of(plan)
    return {
        "restartPolicy": "Never",
        **({"serviceAccountName": account} if account else {}),
        "automountServiceAccountToken": bool(account),
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, **ids, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(plan, config=config, mounts=mounts)],
        "volumes": volumes,
    }


def _container(plan: RunPlan, *, config: EngineConfig, mounts: list[Json]) -> Json:
    steps = _steps(plan)
    return {
        "name": CONTAINER,
        "image": _image(plan, config=config, has_steps=bool(steps)),
        **({"command": ["/bin/sh", "-ceu", _RUN_STEPS, "formulary"], "args": steps} if steps else {}),
        "env": environment(plan),
        "resources": config.quantities("resources", default=DEFAULT_RESOURCES),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _steps(plan: RunPlan) -> list[str]:
    """Name and command of each step in turn; steps that only describe something are for people."""
    runnable = [step for step in plan.workflow.spec.steps if step.command.strip()]
    return [literal(part) for step in runnable for part in (step.name, step.command)]


def _image(plan: RunPlan, *, config: EngineConfig, has_steps: bool) -> str:
    bundle, image = bundle_of(plan.workflow), config.text("image")
    if found := bundle or image or (plan.image_default if has_steps else ""):
        return found
    raise unrunnable(plan.workflow, "it names no image; add spec.execution.bundle")


def _terminated(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the container of a run ended, empty while it has not."""
    statuses = reading.mappings(reading.mapping(pod, "status").get("containerStatuses"))
    ours = next((status for status in statuses if status.get("name") == CONTAINER), {})
    return reading.mapping(ours, "state", "terminated")
