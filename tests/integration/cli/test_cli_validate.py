"""`formulary validate`, offline."""

import json
from pathlib import Path

import pytest

from support.commands import formulary
from support.manifest import analysis, text, workflow

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
    assert done.out == (GOLDEN / "validate.txt").read_text()
    assert (done.code, done.err) == (1, "")


async def test_json_says_the_same(manifests: Path) -> None:
    done = await formulary("validate", "w", "--json")
    report = json.loads(done.out)
    assert (report["valid"], report["invalid"], done.code) == (3, 2, 1)
    judged = {file["file"]: file for file in report["files"]}
    assert [problem["field"] for problem in judged["w/bad.yaml"]["problems"]] == ["spec.version"]
    assert judged["w/bad.yaml"]["problems"][0]["source"] == "w/bad.yaml (document 2)"
    assert (judged["w/good.yaml"]["workflows"], judged["w/good.yaml"]["incidents"]) == (1, 1)


async def test_valid_files_end_with_zero(manifests: Path) -> None:
    done = await formulary("validate", "w/good.yaml", "w/other.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "2 valid, 0 invalid, 1 warning")


async def test_a_misspelt_field_that_restricts_nothing_is_pointed_out(tmp_path: Path) -> None:
    document = workflow("a", suspnd=True, customLabel={"team": "red"}, notes="kept", vendorData={})
    document["spec"]["labels"]["severitee"] = "low"
    document["spec"]["steps"] = [{"name": "restart", "comand": "true"}]
    (tmp_path / "a.yaml").write_text(text(document))
    done = await formulary("validate", str(tmp_path))
    warnings = [line.partition("spec.")[2] for line in done.out.splitlines() if "did you mean" in line]
    assert warnings == [
        "suspnd: is unknown and does nothing; did you mean suspend?",
        "customLabel: is unknown and does nothing; did you mean customLabels?",
        "labels.severitee: is unknown and does nothing; did you mean severity?",
        "steps[0].comand: is unknown and does nothing; did you mean command?",
    ]
    assert "notes" not in done.out
    assert "vendorData" not in done.out


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


async def test_the_starter_catalog_is_valid_and_nothing_but_its_image_is_pointed_out(starter_catalog: Path) -> None:
    done = await formulary("validate", str(starter_catalog))
    warnings = [line for line in done.out.splitlines() if "warning: " in line]
    assert (done.code, done.out.splitlines()[-1][:21]) == (0, "51 valid, 0 invalid, ")
    assert [line for line in warnings if "no digest" not in line] == []
