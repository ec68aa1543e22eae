"""`formulary validate`, offline."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.commands import formulary
from support.golden import assert_golden
from support.manifest import analysis, contract, text, workflow
from support.process import FORMULARY

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory `w` with a file of each sort, below the working directory."""
    monkeypatch.chdir(tmp_path)
    parameter = {"name": "NAMESPACE", "type": "string", "required": True, "description": "Where"}
    command = 'for POD in a b; do kubectl -n "${NAMESPACE}" delete pod "${POD}" --grace-period="${GRACE}"; done'
    directory = tmp_path / "w"
    directory.mkdir()
    files = {
        "bad.yaml": text(workflow("good"), workflow("bad", version="one", actionType="lower")),
        "broken.yaml": "a: 1\nb: [\n",
        "good.yaml": text(
            workflow("fine", parameters=[parameter], steps=[{"name": "delete", "command": command}]),
            analysis("ai", remediation_id="rr-1"),
        ),
        "other.yaml": text({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
        "twice.yaml": text(workflow("good")),
    }
    for name, content in files.items():
        (directory / name).write_text(content)
    return directory


async def test_each_file_is_judged_with_field_and_reason(manifests: Path) -> None:
    done = await formulary("validate", "w")
    assert_golden(done.out, GOLDEN / "validate.txt")
    assert (done.code, done.err) == (1, "")


async def test_json_says_the_same(manifests: Path) -> None:
    done = await formulary("validate", "w", "--json")
    report = json.loads(done.out)
    assert (report["valid"], report["invalid"], done.code) == (2, 2, 1)
    assert report["skipped"] == 1
    judged = {file["file"]: file for file in report["files"]}
    assert [problem["field"] for problem in judged["w/bad.yaml"]["problems"]] == ["spec.version", "spec.actionType"]
    assert judged["w/bad.yaml"]["problems"][0]["source"] == "w/bad.yaml (document 2)"
    assert judged["w/bad.yaml"]["problems"][1]["message"].startswith("w/bad.yaml (document 2): spec.actionType: must ")
    assert (judged["w/other.yaml"]["valid"], judged["w/other.yaml"]["skipped"]) == (
        None,
        ["w/other.yaml: kind ConfigMap (v1) is not checked"],
    )
    assert (judged["w/good.yaml"]["workflows"], judged["w/good.yaml"]["incidents"]) == (1, 1)


async def test_valid_files_end_with_zero(manifests: Path) -> None:
    done = await formulary("validate", "w/good.yaml", "w/other.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 valid, 0 invalid, 1 skipped, 2 warnings")


async def test_nothing_but_other_kinds_does_not_pass(manifests: Path) -> None:
    (manifests / "invocation.yaml").write_text(
        text({"apiVersion": "formulary.dev/v1alpha1", "kind": "WorkflowInvocation", "metadata": {"name": "x"}})
    )
    (manifests / "values.yaml").write_text("replicas: 3\n")
    done = await formulary("validate", "w/other.yaml", "w/invocation.yaml", "w/values.yaml")
    assert done.code == 1
    assert done.out.splitlines() == [
        "skipped  w/other.yaml",
        "         skipped: kind ConfigMap (v1) is not checked",
        "skipped  w/invocation.yaml",
        "         skipped: kind WorkflowInvocation (formulary.dev/v1alpha1) is not checked",
        "skipped  w/values.yaml",
        "         skipped: has no kind, so it is no manifest",
        "",
        "0 valid, 0 invalid, 3 skipped, 0 warnings",
    ]


@pytest.mark.parametrize("content", ["", "\n\n", "---\n# nothing yet\n---\n", "null\n"])
async def test_a_file_without_a_document_is_invalid(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.yaml").write_text(text(workflow("a")))
    (tmp_path / "empty.yaml").write_text(content)
    done = await formulary("validate", str(tmp_path))
    assert done.code == 1
    assert "holds no document" in done.out.partition("empty.yaml")[2]
    assert "1 valid, 1 invalid, " in done.out


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"kind": "RemediationWorkflw"}, "kind: 'RemediationWorkflw' is unknown; did you mean RemediationWorkflow?"),
        ({"kind": "remediationworkflow"}, "kind: 'remediationworkflow' is unknown; did you mean RemediationWorkflow?"),
        ({"apiVersion": "kubernaut.io/v1alpha1"}, "apiVersion: 'kubernaut.io' is unknown; did you mean kubernaut.ai?"),
        (
            {"apiVersion": "formulary.dev/v1alpha1"},
            "kind: 'RemediationWorkflow' is no kind of formulary.dev; its kinds are GovernanceContract, "
            "IncidentSource, WorkflowInvocation, InvocationApproval",
        ),
    ],
)
async def test_a_misspelt_kind_is_invalid(tmp_path: Path, named: dict[str, str], problem: str) -> None:
    (tmp_path / "a.yaml").write_text(text(workflow("a") | named))
    done = await formulary("validate", str(tmp_path / "a.yaml"))
    assert done.code == 1
    assert f"         {problem}\n" in done.out
    assert done.out.endswith("0 valid, 1 invalid, 0 warnings\n")


async def test_a_kind_of_ours_that_is_not_loaded_is_skipped(tmp_path: Path) -> None:
    run = {"apiVersion": "formulary.dev/v1alpha1", "kind": "WorkflowInvocation", "metadata": {"name": "restart"}}
    (tmp_path / "a.yaml").write_text(text(workflow("a")))
    (tmp_path / "run.yaml").write_text(text(run))
    done = await formulary("validate", str(tmp_path))
    assert done.code == 0
    assert "skipped: kind WorkflowInvocation (formulary.dev/v1alpha1) is not checked" in done.out
    assert "1 valid, 0 invalid, 1 skipped" in done.out


async def test_a_source_of_alerts_is_checked(tmp_path: Path) -> None:
    source = {"apiVersion": "formulary.dev/v1alpha1", "kind": "IncidentSource", "metadata": {"name": "shop-alerts"}}
    spec = {"type": "alertmanager", "namespaces": ["shop"]}
    (tmp_path / "good.yaml").write_text(text(source | {"spec": spec}))
    (tmp_path / "wrong.yaml").write_text(text(source | {"spec": {**spec, "targt": {}}}))
    done = await formulary("validate", str(tmp_path))
    assert done.code == 1
    assert "(1 incident source)" in done.out
    assert "spec.targt: is unknown; did you mean target?" in done.out


async def test_all_problems_of_a_manifest_are_shown(tmp_path: Path) -> None:
    steps = [{"name": number} for number in range(9)]
    (tmp_path / "a.yaml").write_text(text(workflow("a", steps=steps)))
    done = await formulary("validate", str(tmp_path / "a.yaml"))
    assert [line.split(":")[0].strip() for line in done.out.splitlines()[1:10]] == [
        f"spec.steps.{number}.name" for number in range(9)
    ]


async def test_a_misspelt_field_that_restricts_nothing_is_pointed_out(tmp_path: Path) -> None:
    document = workflow("a", suspnd=True, notes="kept", vendorData={})
    document["spec"]["labels"]["severitee"] = "low"
    document["spec"]["steps"] = [{"name": "restart", "comand": "true"}]
    (tmp_path / "a.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    warnings = [line.partition("spec.")[2] for line in done.out.splitlines() if "did you mean" in line]
    assert warnings == [
        "suspnd: is unknown and does nothing; did you mean suspend?",
        "labels.severitee: is unknown and does nothing; did you mean severity?",
        "steps[0].comand: is unknown and does nothing; did you mean command?",
    ]
    assert "notes" not in done.out
    assert "vendorData" not in done.out


async def test_a_label_value_that_is_nearly_a_usual_one_is_pointed_out(tmp_path: Path) -> None:
    labels = {"severity": ["crtical", "high"], "environment": "prod", "signalType": ["OOMKiled", "KubePodNotReady"]}
    document = workflow("a")
    document["spec"]["labels"] |= labels
    (tmp_path / "a.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    assert done.code == 0
    assert [line.partition("spec.labels.")[2] for line in done.out.splitlines() if "did you mean" in line] == [
        "signalType: 'OOMKiled' is none of the usual values; did you mean OOMKilled?",
        "severity: 'crtical' is none of the usual values; did you mean critical?",
        "environment: 'prod' is none of the usual values; did you mean production?",
    ]


async def test_a_contract_that_lifts_less_than_in_earlier_releases_is_pointed_out_until_it_says_what_it_lifts(
    tmp_path: Path,
) -> None:
    document = contract("c", effect="ALLOW", match={"riskLevels": ["low"]})
    (tmp_path / "c.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    assert (done.code, done.out.count("warning: ")) == (0, 1)
    said = (
        "spec.rules: rule only no longer lifts the approvals that bundle, template, repeat-failure need; set `lifts` to"
    )
    assert said in done.out
    document["spec"]["rules"][0]["lifts"] = []
    (tmp_path / "c.yaml").write_text(text(document))
    assert (await formulary("validate", str(tmp_path))).out.endswith("1 valid, 0 invalid, 0 warnings\n")


@pytest.mark.parametrize(
    ("declared", "warning"),
    [
        ({}, "spec.customLabels: neither restarts nor data-loss is declared"),
        ({"restarts": "no"}, 'spec.customLabels.restarts: is "no", and a command restarts, evicts or deletes pods'),
        ({"data-loss": "never"}, 'spec.customLabels.data-loss: counts as "yes"'),
        ({"restarts": "yes", "data-loss": "no"}, ""),
    ],
)
async def test_what_commands_do_is_compared_with_what_is_declared_of_restarts_and_lost_data(
    tmp_path: Path, declared: dict[str, str], warning: str
) -> None:
    steps = [{"name": "go", "command": "kubectl rollout restart deployment/web"}]
    (tmp_path / "a.yaml").write_text(text(workflow("a", steps=steps, customLabels=declared)))

    done = await formulary("validate", str(tmp_path))

    said = [line for line in done.out.splitlines() if "customLabels" in line]
    assert (len(said), done.code) == (bool(warning), 0)
    assert warning in "".join(said)


async def test_a_link_to_nothing_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text(workflow("a")))
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere.yaml")
    done = await formulary("validate", str(tmp_path))
    assert done.code == 1
    assert "cannot be read: No such file" in done.out.partition("gone.yaml")[2]


async def test_a_missing_path_is_wrong_usage(manifests: Path) -> None:
    done = await formulary("validate", "w/good.yaml", "nowhere")
    assert done.code == 2
    assert "Path 'nowhere' does not exist" in done.err


async def test_a_directory_without_manifests_does_not_pass(tmp_path: Path) -> None:
    done = await formulary("validate", str(tmp_path))
    assert done.code == 1
    assert "no manifests found" in done.out


async def test_images_without_a_digest_are_pointed_out(tmp_path: Path) -> None:
    digest = "sha256:" + "0" * 64
    executions = {
        "tagged": {"bundle": "r.example/a:1"},
        "configured": {"engineConfig": {"image": "r.example/b:1"}},
        "pinned": {"bundle": f"r.example/c@{digest}", "engineConfig": {"image": f"r.example/c:1@{digest}"}},
        "pinned-beside": {"bundle": "r.example/d:1", "bundleDigest": digest},
        "without-image": {"engine": "ansible", "engineConfig": ["image"]},
    }
    for name, execution in executions.items():
        (tmp_path / f"{name}.yaml").write_text(text(workflow(name, execution=execution)))

    done = await formulary("validate", str(tmp_path), "--json")

    files = {Path(file["file"]).stem: " ".join(file["warnings"]) for file in json.loads(done.out)["files"]}
    assert done.code == 0
    assert {name for name, warnings in files.items() if "no digest" in warnings} == {"tagged", "configured"}
    assert "spec.execution.bundle: 'r.example/a:1'" in files["tagged"]
    assert "spec.execution.engineConfig.image: 'r.example/b:1'" in files["configured"]


async def test_the_starter_catalog_is_valid_and_draws_no_warning(starter_catalog: Path) -> None:
    done = await formulary("validate", str(starter_catalog))
    assert (done.code, done.out.splitlines()[-1]) == (0, "118 valid, 0 invalid, 0 warnings")


def test_what_another_command_prints_is_checked_as_standard_input_and_as_a_pipe(manifests: Path) -> None:
    for line in (f"cat w/good.yaml | {FORMULARY} validate -", f"{FORMULARY} validate <(cat w/good.yaml)"):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert "(1 workflow, 1 incident)" in done.stdout
    broken = subprocess.run(
        ["bash", "-c", f"cat w/bad.yaml | {FORMULARY} validate - w/good.yaml"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert broken.returncode == 1
    assert "invalid  /dev/stdin\n         (document 2): spec.version: must" in broken.stdout


@pytest.mark.parametrize(
    ("place", "field", "meant"),
    [
        ("spec", "customLabel", "customLabels"),
        ("labels", "customLabels", "customLabels"),
        ("", "customLabels", "customLabels"),
        ("spec", "detectedLabel", "detectedLabels"),
    ],
)
async def test_a_constraint_that_is_misspelt_or_misplaced_is_an_error(
    tmp_path: Path, place: str, field: str, meant: str
) -> None:
    document = workflow("a")
    part = {"": document, "spec": document["spec"], "labels": document["spec"]["labels"]}[place]
    part[field] = {"team": "secret-team"}
    (tmp_path / "a.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    assert done.code == 1
    assert f"{field}: is unknown and would constrain nothing; write spec.{meant}\n" in done.out
    assert "secret-team" not in done.out


@pytest.mark.parametrize("field", ["parameters", "rollbackParameters"])
async def test_a_parameter_that_is_declared_twice_is_an_error(tmp_path: Path, field: str) -> None:
    declared = {"name": "REPLICAS", "required": False, "description": "How many."}
    document = workflow("a")
    document["spec"][field] = [{**declared, "type": kind} for kind in ("integer", "string")]
    (tmp_path / "a.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    assert done.code == 1
    assert f"spec.{field}: 'REPLICAS' is declared more than once; declare each parameter once\n" in done.out


async def test_an_engine_that_runs_nothing_and_an_unusual_severity_are_doubtful(tmp_path: Path) -> None:
    document = workflow("a", execution={"engine": "ansible"})
    document["spec"]["labels"]["severity"] = ["urgent", "critical", "*"]
    (tmp_path / "a.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    assert done.code == 0
    assert "spec.execution.engine is ansible, which is not supported; supported are" in done.out
    assert "spec.labels.severity: 'urgent' is none of critical, high, medium, low, warning, info" in done.out
    assert (await formulary("validate", str(tmp_path), "--strict")).code == 1


async def test_quiet_shows_only_what_is_wrong(manifests: Path) -> None:
    done = await formulary("validate", "w", "--quiet")
    assert "other.yaml" not in done.out
    assert "twice.yaml" in done.out
    assert "skipped:" not in done.out
    quiet = await formulary("validate", "w/other.yaml", "w/bad.yaml", "--quiet")
    assert [line.split()[0] for line in quiet.out.splitlines() if ".yaml" in line] == ["invalid"]


async def test_findings_are_annotations_with_file_and_line(manifests: Path) -> None:
    done = await formulary("validate", "w", "--format", "github")
    lines = done.out.splitlines()
    version = next(number for number, line in enumerate(_lines(manifests / "bad.yaml"), 1) if "version: one" in line)
    assert (
        f'::error file=w/bad.yaml,line={version}::spec.version: must be a semantic version such as "1.2.0"' in done.out
    )
    assert any(line.startswith("::error file=w/broken.yaml,line=3::line 3: ") for line in lines)
    assert any(line.startswith("::warning file=w/good.yaml,line=") for line in lines)
    assert (done.code, all(line.startswith("::") for line in lines)) == (1, True)


async def test_findings_are_a_sarif_log(manifests: Path) -> None:
    done = await formulary("validate", "w", "--format", "sarif")
    log = json.loads(done.out)
    (run,) = log["runs"]
    assert (log["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "formulary")
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("invalid", "error")
    assert first["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "w/bad.yaml"}
    assert {each["level"] for each in run["results"]} == {"error", "warning"}
    as_json = await formulary("validate", "w", "--format", "json")
    assert json.loads(as_json.out) == json.loads((await formulary("validate", "w", "--json")).out)


async def test_a_file_whose_name_is_no_text_is_in_the_log_of_sarif(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.yaml", "w") as file:  # noqa: ASYNC230  # a small file
        file.write("a: [")
    done = await formulary("validate", str(tmp_path), "--format", "sarif")
    (result,) = json.loads(done.out)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/%FF.yaml")


async def test_a_helm_template_says_that_it_is_to_be_rendered(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{{- if .Values.enabled }}\n" + text(workflow("a")) + "{{- end }}\n")
    done = await formulary("validate", str(tmp_path), "--format", "github")
    assert "line=1::is a Helm template; render it with `helm template` first" in done.out


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
