"""Engines: the objects that run workflows, what they are told, and how their ends are read."""

import json
import os
import signal
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.runs.run import Phase, Reason, RunTarget
from formulary_catalog.errors import InvalidInput, NotInvocable
from formulary_operator.engines import ENGINES, engine_of
from formulary_operator.engines.observations import MAX_BYTES, OMITTED
from formulary_operator.engines.plan import RunPlan
from support.filling import starter_documents
from support.plans import BUNDLE, INVOCATION, command, container, environment, plan

ROOT = Path(__file__).parents[3]
STARTER = starter_documents(ROOT / "catalog" / "workflows")
DIGEST = f"sha256:{'0a' * 32}"
TEKTON = {"engine": "tekton", "bundle": BUNDLE}
ARGO = {"engine": "argo", "engineConfig": {"workflowTemplate": "restart"}}
OWNER = {
    "apiVersion": "formulary.dev/v1alpha1",
    "kind": "WorkflowInvocation",
    "name": INVOCATION,
    "uid": "0f5d",
    "controller": True,
}

every_engine = pytest.mark.parametrize("execution", [{"engine": "job", "bundle": BUNDLE}, TEKTON, ARGO])


def manifest(run: RunPlan) -> dict[str, Any]:
    return engine_of(run.workflow).manifest(run)


def pod(run: RunPlan) -> dict[str, Any]:
    spec: dict[str, Any] = manifest(run)["spec"]["template"]["spec"]
    return spec


def parameter(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "required": False, "description": "d", **more}


def refusal(run: RunPlan) -> str:
    with pytest.raises(NotInvocable) as refused:
        manifest(run)
    message = str(refused.value)
    assert message.startswith("workflow restart@1.0.0 cannot be run: ")
    assert message.isprintable()
    return message


def run_steps(run: RunPlan) -> subprocess.CompletedProcess[str]:
    """Run the container's command here, as Kubernetes would."""
    job = manifest(run)
    variables = environment(job)
    return subprocess.run(
        command(job, variables=variables),
        env={"PATH": os.defpath, **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def job_status(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"status": {"startTime": "2026-01-01T10:00:00Z", "conditions": list(conditions), **status}}


def ended_pod(message: str, *, at: str = "2026-01-01T10:00:30Z", name: str = "workflow") -> dict[str, Any]:
    terminated = {"exitCode": 0, "finishedAt": at, "message": message}
    return {"status": {"containerStatuses": [{"name": name, "state": {"terminated": terminated}}]}}


def argo_status(phase: str, *, until: str, message: str = "") -> dict[str, Any]:
    status = {"phase": phase, "message": message, "startedAt": "2026-01-01T10:00:00Z", "finishedAt": until}
    return {"spec": {"activeDeadlineSeconds": 300}, "status": status}


@every_engine
def test_the_object_has_the_name_of_the_invocation_and_says_what_it_is_for(execution: dict[str, Any]) -> None:
    metadata = manifest(plan(execution=execution, owner=OWNER))["metadata"]
    assert metadata == {
        "name": INVOCATION,
        "namespace": "shop",
        "labels": {
            "app.kubernetes.io/managed-by": "formulary",
            "formulary.dev/invocation": INVOCATION,
            "formulary.dev/workflow": "restart",
        },
        "annotations": {"formulary.dev/version-id": "wf_ver_0123456789abcdef0123"},
        "ownerReferences": [OWNER],
    }


@every_engine
def test_without_an_object_there_is_no_owner(execution: dict[str, Any]) -> None:
    assert "ownerReferences" not in manifest(plan(execution=execution))["metadata"]


@every_engine
def test_the_same_run_gives_the_same_object(execution: dict[str, Any]) -> None:
    run = plan(execution=execution, values={"B": 1, "A": 2})
    assert manifest(run) == manifest(run)


def test_a_long_name_is_cut_to_a_valid_label() -> None:
    document = STARTER[0] | {"metadata": {"name": f"{'a' * 62}.{'b' * 100}"}}
    run = plan()
    named = RunPlan(
        invocation_id=INVOCATION,
        namespace="shop",
        workflow=catalog_entry(document, source="test", default_namespace="shop").workflow,
        version_id=run.version_id,
        values={},
        target=RunTarget(),
        timeout_seconds=1,
    )
    assert manifest(named)["metadata"]["labels"]["formulary.dev/workflow"] == "a" * 62


@pytest.mark.parametrize("document", STARTER, ids=[document["metadata"]["name"] for document in STARTER])
def test_every_workflow_of_the_starter_catalog_becomes_a_job(document: dict[str, Any]) -> None:
    workflow = catalog_entry(document, source="starter", default_namespace="formulary").workflow
    values = {each.name: each.default if each.default is not None else "v" for each in workflow.spec.parameters}
    run = RunPlan(
        invocation_id=INVOCATION,
        namespace="shop",
        workflow=workflow,
        version_id="wf_ver_0123456789abcdef0123",
        values=values,
        target=RunTarget(),
        timeout_seconds=300,
    )
    job = manifest(run)
    variables = environment(job)
    assert values.keys() <= variables.keys()
    arguments = command(job, variables=variables)
    assert arguments[4:] == [part for step in workflow.spec.steps for part in (step.name, step.command)]
    for script in arguments[5::2]:
        subprocess.run(["/bin/sh", "-n", "-c", script], check=True, timeout=30)


def test_a_job_is_tried_once_ends_in_time_and_is_kept_for_a_day() -> None:
    spec = manifest(plan(timeout_seconds=90.2))["spec"]
    del spec["template"]
    assert spec == {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "activeDeadlineSeconds": 91,
        "ttlSecondsAfterFinished": 86_400,
    }


def test_a_pod_meets_the_restricted_standard_and_writes_to_scratch_space_alone() -> None:
    spec = pod(plan())
    assert spec["restartPolicy"] == "Never"
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    found = spec["containers"][0]
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    assert found["volumeMounts"] == [{"name": "scratch", "mountPath": "/tmp"}]
    assert found["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_pod_has_a_token_only_where_the_workflow_names_a_service_account() -> None:
    without = pod(plan())
    assert without["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in without
    with_account = pod(plan(execution={"bundle": BUNDLE, "serviceAccountName": "remediation"}))
    assert with_account["automountServiceAccountToken"] is True
    assert with_account["serviceAccountName"] == "remediation"


@pytest.mark.parametrize(
    ("execution", "image"),
    [
        ({"bundle": BUNDLE}, BUNDLE),
        ({"bundle": BUNDLE, "bundleDigest": DIGEST}, f"{BUNDLE}@{DIGEST}"),
        ({"bundle": f"{BUNDLE}@{DIGEST}", "bundleDigest": DIGEST}, f"{BUNDLE}@{DIGEST}"),
        ({"engineConfig": {"image": "tools:1"}}, "tools:1"),
        ({"bundle": BUNDLE, "engineConfig": {"image": "tools:1"}}, BUNDLE),
    ],
)
def test_the_image_is_the_bundle_or_what_the_engine_is_told(execution: dict[str, Any], image: str) -> None:
    assert container(manifest(plan(execution=execution)))["image"] == image


def test_the_default_image_runs_steps_and_nothing_else() -> None:
    steps = [{"name": "look", "command": "true"}]
    assert container(manifest(plan(execution={}, steps=steps, image_default="tools:1")))["image"] == "tools:1"
    assert "no image" in refusal(plan(execution={}, image_default="tools:1"))
    assert "no image" in refusal(plan(execution={}, steps=steps))


def test_without_commands_the_image_runs_what_it_was_made_for() -> None:
    found = container(manifest(plan(steps=[{"name": "look", "description": "Look around"}])))
    assert "command" not in found
    assert "args" not in found


def test_resources_have_modest_defaults_and_are_the_workflows_to_set() -> None:
    assert container(manifest(plan()))["resources"] == {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"cpu": "500m", "memory": "256Mi"},
    }
    own = {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}, "claims": ["ignored"]}
    run = plan(execution={"bundle": BUNDLE, "engineConfig": {"resources": own, "runAsUser": 1001}})
    assert container(manifest(run))["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    assert pod(run)["securityContext"]["runAsUser"] == 1001


def test_where_the_cluster_assigns_ids_a_job_names_none_unless_its_workflow_does() -> None:
    assigned = pod(plan(user_default=0))["securityContext"]
    own = pod(plan(user_default=0, execution={"bundle": BUNDLE, "engineConfig": {"runAsUser": 1001}}))

    assert assigned == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert own["securityContext"]["runAsUser"] == 1001


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (["image"], "engineConfig must be a map, not a list"),
        ("image", "engineConfig must be a map, not text"),
        ({"image": 5}, "engineConfig.image must be text, not 5"),
        ({"resources": "big"}, "engineConfig.resources must be a map"),
        ({"resources": {"limits": ["1Gi"]}}, "engineConfig.resources.limits must be a map"),
        ({"resources": {"limits": {"memory": True}}}, "engineConfig.resources.limits.memory must be a quantity"),
        ({"runAsUser": 0}, "engineConfig.runAsUser must be a whole number above 0, not 0"),
        ({"runAsUser": "1001"}, "engineConfig.runAsUser must be a whole number above 0, not text"),
    ],
)
def test_settings_of_a_wrong_type_are_named(config: object, named: str) -> None:
    assert named in refusal(plan(execution={"bundle": BUNDLE, "engineConfig": config}))


@pytest.mark.parametrize(
    ("execution", "named"),
    [
        ({"bundle": BUNDLE, "bundleDigest": "0a0a"}, "bundleDigest must be"),
        ({"bundleDigest": DIGEST}, "pins no bundle"),
        ({"bundle": f"{BUNDLE}@sha256:{'0b' * 32}", "bundleDigest": DIGEST}, "two digests"),
        ({"engine": "ansible", "bundle": BUNDLE}, "ansible, which is not supported; supported are argo, job, tekton"),
        ({"engine": "tekton"}, "names no pipeline"),
        ({**TEKTON, "engineConfig": {"pipelineRef": "restart"}}, "names two pipelines"),
        ({"engine": "argo"}, "engineConfig.workflowTemplate"),
        ({"engine": "argo", "engineConfig": {"workflowTemplate": "a", "clusterScope": "yes"}}, "true or false"),
    ],
)
def test_a_workflow_that_cannot_be_run_says_why(execution: dict[str, Any], named: str) -> None:
    assert named in refusal(plan(execution=execution))


def test_the_container_is_told_parameters_and_facts() -> None:
    values = {
        "TEXT": "a b",
        "YES": True,
        "COUNT": 3,
        "SHARE": 0.5,
        "ITEMS": ["a", 1, "ä"],
        "NUMERIC_TEXT": "007",
    }
    assert environment(manifest(plan(values=values))) == {
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "FORMULARY_INVOCATION_ID": INVOCATION,
        "FORMULARY_REMEDIATION_ID": "rr-1",
        "FORMULARY_TARGET_KIND": "Deployment",
        "FORMULARY_TARGET_NAME": "checkout",
        "FORMULARY_TARGET_NAMESPACE": "shop",
        "TARGET_RESOURCE": "shop/Deployment/checkout",
        "TEXT": "a b",
        "YES": "true",
        "COUNT": "3",
        "SHARE": "0.5",
        "ITEMS": '["a",1,"ä"]',
        "NUMERIC_TEXT": "007",
    }


def test_a_sensitive_value_comes_from_the_secret_and_is_nowhere_in_the_job() -> None:
    job = manifest(plan(values={"NAME": "checkout", "PASSWORD": "hunter2"}, sensitive=frozenset({"PASSWORD"})))
    assert "hunter2" not in json.dumps(job)
    (variable,) = [each for each in container(job)["env"] if each["name"] == "PASSWORD"]
    assert variable["valueFrom"] == {"secretKeyRef": {"name": INVOCATION, "key": "PASSWORD"}}


@pytest.mark.parametrize("execution", [TEKTON, ARGO])
def test_engines_that_would_show_sensitive_values_refuse_them(execution: dict[str, Any]) -> None:
    told = refusal(plan(execution=execution, sensitive=frozenset({"PASSWORD"})))
    assert "PASSWORD" in told
    assert "engine job" in told


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "KUBERNETES_SERVICE_HOST", "BASH_ENV", "HTTPS_PROXY", "HOME"])
def test_a_parameter_cannot_change_how_programs_run(name: str) -> None:
    assert f"parameter {name} would change how programs run" in refusal(plan(parameters=[parameter(name)]))


@pytest.mark.parametrize("name", ["lower", "A-B", "1A", "A B", "Ä", "A\n"])
def test_a_parameter_of_a_job_has_the_name_of_a_variable(name: str) -> None:
    assert "must be in capitals" in refusal(plan(values={name: "v"}))


@every_engine
@pytest.mark.parametrize("name", ["FORMULARY_INVOCATION_ID", "FORMULARY_NEW", "TARGET_RESOURCE"])
def test_a_parameter_cannot_pose_as_a_fact(execution: dict[str, Any], name: str) -> None:
    assert "set for every run" in refusal(plan(execution=execution, parameters=[parameter(name)]))


@pytest.mark.parametrize("value", ["a\0b", "\ud800", "x" * 100_001])
def test_a_value_that_no_process_can_be_given_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidInput, match="VALUE") as refused:
        manifest(plan(values={"VALUE": value}))
    assert refused.value.field == "VALUE"


def test_secrets_and_config_maps_are_mounted_read_only_once_each() -> None:
    needed = {"secrets": [{"name": "git.creds"}, {"name": "git.creds"}], "configMaps": [{"name": "settings"}]}
    spec = pod(plan(dependencies=needed))
    assert spec["volumes"][1:] == [
        {"name": "secret-0", "secret": {"secretName": "git.creds"}},
        {"name": "configmap-0", "configMap": {"name": "settings"}},
    ]
    assert spec["containers"][0]["volumeMounts"][1:] == [
        {"name": "secret-0", "mountPath": "/run/kubernaut/secrets/git.creds", "readOnly": True},
        {"name": "configmap-0", "mountPath": "/run/kubernaut/configmaps/settings", "readOnly": True},
    ]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "A", ".."])
def test_a_dependency_cannot_be_mounted_elsewhere(name: str) -> None:
    assert repr(name) in refusal(plan(dependencies={"secrets": [{"name": name}]}))


def test_steps_run_in_order_each_by_itself() -> None:
    steps = [
        {"name": "first", "command": 'cd /; LEFT=behind; echo "$NAME in $PWD"'},
        {"name": "for people", "description": "Look at the dashboard"},
        {"name": "second", "command": 'echo "${LEFT:-nothing}"; test "$PWD" != /'},
    ]
    done = run_steps(plan(values={"NAME": "checkout"}, steps=steps))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["==> first", "checkout in /", "==> second", "nothing"]


@pytest.mark.parametrize("script", ["exit 7", "(exit 7); echo on", 'echo "$NOT_GIVEN"', "if then"])
def test_the_first_step_that_fails_ends_the_run(script: str) -> None:
    steps = [{"name": "bad", "command": script}, {"name": "next", "command": "echo reached"}]
    done = run_steps(plan(steps=steps))
    assert done.returncode != 0
    assert "reached" not in done.stdout
    assert f"step bad failed with exit code {done.returncode}" in done.stderr


def test_commands_and_values_reach_the_shell_as_they_were_written() -> None:
    hostile = "$(FORMULARY_INVOCATION_ID) $$ $$(HOME) `id` ' \" \\ ; exit 1 #"
    script = "cat <<'END'\n$(NAME) $$ ) ' %s\nEND\nprintf '%s\\n' \"$NAME\"  # ("
    done = run_steps(plan(values={"NAME": hostile}, steps=[{"name": "a 'b' %s \\n", "command": script}]))
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["==> a 'b' %s \\n", "$(NAME) $$ ) ' %s", hostile]


def test_a_run_that_is_asked_to_end_does_so_at_once() -> None:
    job = manifest(plan(steps=[{"name": "wait", "command": "echo waiting; sleep 60"}]))
    process = subprocess.Popen(
        command(job, variables={}),
        env={"PATH": os.defpath},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["==> wait\n", "waiting\n"]
        process.terminate()
        assert process.wait(timeout=30) == 143
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_tekton_runs_the_pipeline_of_the_bundle() -> None:
    execution = {**TEKTON, "bundleDigest": DIGEST, "serviceAccountName": "remediation"}
    spec = manifest(plan(execution=execution, values={"NAMES": ["a", 1], "COUNT": 3, "YES": False}))["spec"]
    assert spec["pipelineRef"] == {
        "resolver": "bundles",
        "params": [
            {"name": "bundle", "value": f"{BUNDLE}@{DIGEST}"},
            {"name": "name", "value": "workflow"},
            {"name": "kind", "value": "pipeline"},
        ],
    }
    parameters = {each["name"]: each["value"] for each in spec["params"]}
    assert parameters["TARGET_RESOURCE"] == "shop/Deployment/checkout"
    assert (parameters["NAMES"], parameters["COUNT"], parameters["YES"]) == (["a", "1"], "3", "false")
    assert spec["timeouts"] == {"pipeline": "300s"}
    assert spec["taskRunTemplate"]["serviceAccountName"] == "remediation"


def test_tekton_runs_a_pipeline_of_the_namespace_or_another_one_of_the_bundle() -> None:
    own = plan(execution={"engine": "tekton", "engineConfig": {"pipelineRef": "restart"}})
    assert manifest(own)["spec"]["pipelineRef"] == {"name": "restart"}
    other = plan(execution={**TEKTON, "engineConfig": {"pipeline": "undo"}})
    assert {"name": "name", "value": "undo"} in manifest(other)["spec"]["pipelineRef"]["params"]


def test_tekton_binds_dependencies_as_workspaces() -> None:
    needed = {"secrets": [{"name": "creds"}], "configMaps": [{"name": "settings"}]}
    assert manifest(plan(execution=TEKTON, dependencies=needed))["spec"]["workspaces"] == [
        {"name": "secret-creds", "secret": {"secretName": "creds"}},
        {"name": "configmap-settings", "configMap": {"name": "settings"}},
    ]


def test_argo_runs_a_template() -> None:
    config = {"workflowTemplate": "restart", "clusterScope": True}
    execution = {"engine": "argo", "engineConfig": config, "serviceAccountName": "remediation"}
    spec = manifest(plan(execution=execution, values={"NAMES": ["a", 1]}))["spec"]
    assert spec["workflowTemplateRef"] == {"name": "restart", "clusterScope": True}
    assert {"name": "NAMES", "value": '["a","1"]'} in spec["arguments"]["parameters"]
    assert spec["activeDeadlineSeconds"] == 300
    assert spec["serviceAccountName"] == "remediation"
    assert spec["ttlStrategy"] == {"secondsAfterCompletion": 86_400}


def test_argo_with_restrictions_is_given_what_it_takes_and_nothing_else() -> None:
    execution = {**ARGO, "serviceAccountName": "remediation"}
    spec = manifest(plan(execution=execution, argo_strict=True))["spec"]
    assert set(spec) == {"workflowTemplateRef", "arguments", "activeDeadlineSeconds", "ttlStrategy"}


@pytest.mark.parametrize(
    ("execution", "value"), [(TEKTON, "a $(tasks.x.results.y)"), (TEKTON, ["$(params.A)"]), (ARGO, "{{workflow.name}}")]
)
def test_a_value_that_an_engine_would_replace_is_refused(execution: dict[str, Any], value: object) -> None:
    with pytest.raises(InvalidInput, match=r"NAME: holds .* would replace"):
        manifest(plan(execution=execution, values={"NAME": value}))


@pytest.mark.parametrize(
    ("document", "phase", "reason", "message"),
    [
        ({}, Phase.RUNNING, Reason.STARTED, ""),
        (job_status(active=1), Phase.RUNNING, Reason.STARTED, ""),
        (job_status({"type": "Complete", "status": "False"}), Phase.RUNNING, Reason.STARTED, ""),
        (job_status({"type": "Complete", "status": "True"}), Phase.SUCCEEDED, Reason.COMPLETED, ""),
        (
            job_status({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}),
            Phase.FAILED,
            Reason.RUN_FAILED,
            "BackoffLimitExceeded: too often",
        ),
        (
            job_status({"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}),
            Phase.TIMED_OUT,
            Reason.DEADLINE_EXCEEDED,
            "DeadlineExceeded",
        ),
    ],
)
def test_how_a_job_stands_is_read_from_its_conditions(
    document: dict[str, Any], phase: Phase, reason: Reason, message: str
) -> None:
    found = ENGINES["job"].observe(document)
    assert (found.phase, found.reason, found.message) == (phase, reason, message)


def test_when_a_run_began_and_ended_is_read_too() -> None:
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T10:00:45Z"}
    found = ENGINES["job"].observe(job_status(complete, completionTime="2026-01-01T10:00:40Z"))
    assert found.started_at is not None
    assert found.finished_at is not None
    assert (found.finished_at - found.started_at).total_seconds() == 40
    without = ENGINES["job"].observe(job_status(complete))
    assert without.finished_at is not None
    assert without.finished_at.second == 45


@pytest.mark.parametrize(
    ("condition", "phase"),
    [
        ({"status": "Unknown", "reason": "Running"}, Phase.RUNNING),
        ({"status": "True", "reason": "Succeeded"}, Phase.SUCCEEDED),
        ({"status": "False", "reason": "Failed"}, Phase.FAILED),
        ({"status": "False", "reason": "Cancelled"}, Phase.FAILED),
        ({"status": "False", "reason": "PipelineRunTimeout"}, Phase.TIMED_OUT),
    ],
)
def test_how_a_pipeline_run_stands_is_read_from_its_condition(condition: dict[str, str], phase: Phase) -> None:
    document = {"status": {"conditions": [{"type": "Succeeded", "message": "m", **condition}]}}
    assert ENGINES["tekton"].observe(document).phase is phase
    assert ENGINES["tekton"].observe(document).message.endswith("m")


@pytest.mark.parametrize(
    ("document", "phase"),
    [
        ({"status": {}}, Phase.RUNNING),
        (argo_status("Pending", until=""), Phase.RUNNING),
        (argo_status("Succeeded", until="2026-01-01T10:06:00Z"), Phase.SUCCEEDED),
        (argo_status("Failed", until="2026-01-01T10:04:59Z"), Phase.FAILED),
        (argo_status("Error", until="2026-01-01T10:00:01Z", message="no pods"), Phase.FAILED),
        (argo_status("Failed", until="2026-01-01T10:05:00Z"), Phase.TIMED_OUT),
    ],
)
def test_how_an_argo_workflow_stands_is_read_from_its_phase_and_its_times(
    document: dict[str, Any], phase: Phase
) -> None:
    assert ENGINES["argo"].observe(document).phase is phase


@pytest.mark.parametrize(
    ("message", "outputs"),
    [
        ('{"replicas": 3, "note": "done"}', {"replicas": 3, "note": "done"}),
        ("==> look\nstep look failed with exit code 1\n", {"message": "==> look\nstep look failed with exit code 1\n"}),
        ("[1, 2]", {"message": "[1, 2]"}),
        ("", {}),
        ('{"a": "b\\u0000c"}', {"a": "b\N{REPLACEMENT CHARACTER}c"}),
        ("[" * 4000, {"message": "[" * 4000}),
    ],
)
def test_outputs_of_a_job_are_its_termination_message(message: str, outputs: dict[str, Any]) -> None:
    assert ENGINES["job"].outputs({}, [ended_pod(message)]) == outputs


def test_outputs_of_a_job_are_those_of_the_container_that_ended_last() -> None:
    first = ended_pod('{"n": 1}', at="2026-01-01T10:00:10Z")
    last = ended_pod('{"n": 2}', at="2026-01-01T10:00:20Z")
    sidecar = ended_pod('{"n": 3}', at="2026-01-01T10:00:30Z", name="proxy")
    assert ENGINES["job"].outputs({}, [last, first, sidecar]) == {"n": 2}
    assert ENGINES["job"].outputs({}, []) == {}


def test_outputs_of_tekton_and_argo_are_their_results() -> None:
    results = [{"name": "replicas", "value": "3"}, {"name": "hosts", "value": ["a"]}, {"value": "nameless"}]
    expected = {"replicas": "3", "hosts": ["a"]}
    assert ENGINES["tekton"].outputs({"status": {"results": results}}, []) == expected
    assert ENGINES["argo"].outputs({"status": {"outputs": {"parameters": results}}}, []) == expected


def test_outputs_that_are_too_large_are_left_out_and_counted() -> None:
    results = [{"name": "log", "value": "x" * MAX_BYTES}, {"name": "replicas", "value": "3"}]
    found = ENGINES["tekton"].outputs({"status": {"results": results}}, [])
    assert found["replicas"] == "3"
    assert "1 of 2 outputs" in found[OMITTED]
    assert len(json.dumps(found).encode()) <= MAX_BYTES


def test_the_server_reaches_every_engine_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = project["entry-points"]["formulary.engines"]
    assert points.keys() == ENGINES.keys()
    executions: dict[str, dict[str, Any]] = {"job": {"bundle": BUNDLE}, "tekton": TEKTON, "argo": ARGO}
    for name, execution in executions.items():
        run = plan(execution=execution)
        module, _, attribute = points[name].partition(":")
        fields = {field: getattr(run, field) for field in RunPlan.__dataclass_fields__}
        assert getattr(import_module(module), attribute)(**fields) == manifest(run)
