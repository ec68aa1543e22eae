"""Kubernetes Jobs: one container with its variables and volumes, one try, no rights beyond its ServiceAccount's.

`engines.ENGINES` lists it for `execution.engine: job`, the engine that every cluster has; `runs.execution` creates and
follows its Jobs. Values of a model become variables, never parts of a script. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from formulary_catalog.domain.workflows.manifest import NamedReference, RemediationWorkflow
from formulary_operator.api.names import Json, Resource
from formulary_operator.engines import config as reading
from formulary_operator.engines import observations
from formulary_operator.engines.config import EngineConfig, bundle_of, unrunnable
from formulary_operator.engines.observations import outputs_of
from formulary_operator.engines.parameters import facts, parameter_names, text_of
from formulary_operator.engines.plan import TTL_SECONDS, Observation, RunPlan

SCRATCH = "/tmp"

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_REFERENCE = re.compile(r"\$(?=[$(])")
# What decides which program runs, what it loads or whom it talks to must not come from a model.
_FORBIDDEN_PREFIXES = ("LD_", "DYLD_", "BASH_", "KUBERNETES_", "GIT_CONFIG", "GIT_SSH")
_FORBIDDEN = frozenset(
    "PATH HOME TMPDIR SHELL ENV IFS PS4 PWD CDPATH KUBECONFIG KUBE_EDITOR EDITOR VISUAL PAGER BROWSER HTTP_PROXY "
    "HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR CURL_HOME CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PYTHONPATH "
    "PYTHONHOME PYTHONSTARTUP PERL5LIB PERL5OPT RUBYLIB RUBYOPT NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS "
    "_JAVA_OPTIONS CLASSPATH GIT_EXEC_PATH GIT_ASKPASS GIT_EDITOR GIT_PAGER GIT_PROXY_COMMAND GCONV_PATH".split()
)
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
SECRETS_PATH = "/run/kubernaut/secrets"
CONFIG_MAPS_PATH = "/run/kubernaut/configmaps"
"""Where bundles of the existing ecosystem look."""
_NOT_PULLED = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
"""Reasons for which a kubelet keeps a container waiting that has no image."""
_SCRATCH_SIZE = "1Gi"
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def environment(plan: RunPlan) -> list[Json]:
    """The variables of the container, each named once.

    Raises:
        NotInvocable: a parameter has a name that is no name of a variable, or one that it must not have.
        InvalidInput: a value cannot be a variable.
    """
    for name in parameter_names(plan):
        _require_allowed(name, workflow=plan.workflow)
    fixed = {"HOME": SCRATCH, "TMPDIR": SCRATCH, **facts(plan)}
    given = {name: text_of(value, name=name) for name, value in plan.values.items() if name not in plan.sensitive}
    return [
        *({"name": name, "value": literal(value)} for name, value in (fixed | given).items()),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": plan.secret_name, "key": name}}}
            for name in sorted(plan.sensitive)
        ),
    ]


def literal(text: str) -> str:
    """The text in a form of which Kubernetes makes this text: it replaces `$(NAME)`, and makes one `$` of two."""
    return _REFERENCE.sub("$$", text)


def _require_allowed(name: str, *, workflow: RemediationWorkflow) -> None:
    if not _NAME.fullmatch(name):
        raise unrunnable(workflow, f"parameter {name!r} must be in capitals, digits and underscores; rename it")
    if name in _FORBIDDEN or name.startswith(_FORBIDDEN_PREFIXES):
        raise unrunnable(workflow, f"parameter {name} would change how programs run; rename it")


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


def image_problem(pods: Sequence[Mapping[str, Any]]) -> str:
    """Why the image of a run cannot be pulled, in the words of the kubelet; empty where it can, or is not tried yet."""
    waiting = [reading.mapping(_status_of(pod), "state", "waiting") for pod in pods]
    kept = next((each for each in waiting if reading.text(each.get("reason")) in _NOT_PULLED), {})
    return ": ".join(part for part in (reading.text(kept.get("reason")), reading.text(kept.get("message"))) if part)


def has_ready_pod(document: Mapping[str, Any]) -> bool:
    """Whether the container of a Job runs, as its status counts."""
    return bool(reading.number(reading.mapping(document, "status").get("ready")))


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
    return reading.mapping(_status_of(pod), "state", "terminated")


def _status_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the container of a run, empty while there is none."""
    statuses = reading.mappings(reading.mapping(pod, "status").get("containerStatuses"))
    return next((status for status in statuses if status.get("name") == CONTAINER), {})


def volumes_of(plan: RunPlan) -> tuple[list[Json], list[Json]]:
    """Volumes and mounts: scratch space, and what the workflow depends on, read-only.

    Raises:
        NotInvocable: a dependency has a name that no object can have.
    """
    needed = plan.workflow.spec.dependencies
    sources: list[tuple[str, Json]] = [
        (f"{SECRETS_PATH}/{name}", {"name": f"secret-{index}", "secret": {"secretName": name}})
        for index, name in enumerate(_names(needed.secrets, plan=plan))
    ]
    sources += [
        (f"{CONFIG_MAPS_PATH}/{name}", {"name": f"configmap-{index}", "configMap": {"name": name}})
        for index, name in enumerate(_names(needed.config_maps, plan=plan))
    ]
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": _SCRATCH_SIZE}}
    mounts = [{"name": volume["name"], "mountPath": path, "readOnly": True} for path, volume in sources]
    return [scratch, *(volume for _, volume in sources)], [{"name": "scratch", "mountPath": SCRATCH}, *mounts]


def _names(references: Sequence[NamedReference], *, plan: RunPlan) -> list[str]:
    """Each name once. A name becomes part of a path, so that it must be one."""
    for reference in references:
        if not _OBJECT_NAME.fullmatch(reference.name):
            raise unrunnable(
                plan.workflow, f"spec.dependencies names {reference.name!r}, which no object can be called; correct it"
            )
    return list(dict.fromkeys(reference.name for reference in references))
