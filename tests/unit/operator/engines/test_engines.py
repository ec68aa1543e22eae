"""Engines: the objects that run workflows, and what they are given."""

import json
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.domain.runs.run import RunTarget
from formulary_catalog.errors import InvalidInput, NotInvocable
from formulary_operator.engines import ENGINES, engine_of
from formulary_operator.engines.plan import RunPlan
from support.filling import starter_documents
from support.plans import BUNDLE, INVOCATION, command, container, environment, plan

ROOT = Path(__file__).parents[4]
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
