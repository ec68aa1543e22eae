"""What somebody meets first: help in groups, the version, a manifest to begin with, completion, and pipes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from formulary_catalog.domain.yaml_text import manifest_text
from formulary_catalog.edges.cli.authoring.manifests import new_command
from formulary_catalog.edges.cli.http_client import connected
from formulary_catalog.edges.cli.main import main
from formulary_catalog.edges.cli.sources import take_source
from formulary_catalog.errors import NoExecutor
from formulary_catalog.runtime.terminal import Page
from formulary_catalog.store.database.migrate import HEAD
from support.manifest import analysis, text

FORMULARY = Path(sys.executable).with_name("formulary")


def run(*arguments: str, environment: dict[str, str] | None = None) -> str:
    result = CliRunner().invoke(main, arguments, env=environment, prog_name="formulary")
    assert result.exit_code == 0, result.output
    return result.output


def test_help_groups_the_commands_by_what_they_are_for() -> None:
    said = run("--help")

    places = [
        said.index(f"\n{group}:\n") for group in ("Start", "Find a remedy", "Run it", "Write workflows", "Operate")
    ]
    assert places == sorted(places)
    assert places[1] < said.index("\n  search ") < places[2]


def test_the_version_comes_with_schema_and_model() -> None:
    said = run("--version")

    assert f"schema {HEAD}" in said
    assert "model formulary-minilm@" in said


@pytest.mark.parametrize("name", ["restart-leaking-cache", "on", "1e3", "2024-13-01"])
def test_a_new_manifest_is_valid_as_it_is(name: str, tmp_path: Path) -> None:
    manifest = tmp_path / f"{name}.yaml"
    manifest.write_text(run("new", name))

    said = run("validate", str(manifest))
    assert "1 valid, 0 invalid, 0 warnings" in said
    assert yaml.safe_load(manifest.read_text())["metadata"]["name"] == name


def test_an_author_sees_to_whom_a_workflow_is_offered(tmp_path: Path) -> None:
    incidents = tmp_path / "incidents"
    incidents.mkdir()
    own = {"team": ["payments"]}
    documents = [
        analysis("staging", remediation_id="rr-staging", environment="staging"),
        analysis("production", remediation_id="rr-production"),
        analysis("no-restart", remediation_id="rr-strict", environment="staging", labels={"restarts": ["no"], **own}),
    ]
    labels = {"shop": {"environment": "staging"}, "bank": {"environment": "production"}, "bare": {}}
    labels["quiet"] = {"environment": "staging", "constraint.formulary.dev/restarts": "no"}
    documents += [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": each}}
        for name, each in labels.items()
    ]
    strict = {"constraint.formulary.dev/restarts": "no"}
    documents += [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop", "labels": each}}
        for name, each in {"cart": {}, "ledger": strict}.items()
    ]
    (incidents / "all.yaml").write_text(text(*documents))
    manifest = tmp_path / "a.yaml"
    manifest.write_text(run("new", "restart-a"))

    found = json.loads(run("who-sees", str(manifest), "--manifests", str(incidents), "--json"))
    places = {each["target"]: each["excluded_by"] for each in found["namespaces"]}
    assert places["Namespace/shop"] == ""
    assert places["Namespace/bank"].startswith("environment: its labels say production")
    assert places["Namespace/quiet"].startswith("custom-label: restarts:")
    assert "kubectl label namespace bare" in places["Namespace/bare"]
    works = {each["target"]: each["excluded_by"] for each in found["workloads"]}
    assert works["shop/Deployment/cart"] == ""
    assert works["shop/Deployment/ledger"].startswith("custom-label: restarts:")
    found = found["incidents"]
    rules = {each["remediation_id"]: each["excluded_by"] for each in found}
    assert rules["rr-staging"] == ""
    assert rules["rr-production"].startswith("environment: the incident says production")
    assert rules["rr-strict"].startswith("custom-label: restarts: the incident says no, the workflow declares yes")
    assert "OFFERED" in run("who-sees", str(manifest), "--manifests", str(incidents))
    said = run("who-sees", str(manifest), "--manifests", str(incidents))
    assert "Namespace/shop" in said
    nobody = CliRunner().invoke(main, ["who-sees", str(manifest), "--manifests", str(manifest.parent / "a.yaml")])
    assert (nobody.exit_code, "There is no AIAnalysis, Namespace or workload" in nobody.stdout) == (1, True)


def test_a_new_manifest_needs_the_name_of_an_object() -> None:
    result = CliRunner().invoke(main, ["new", "Not A Name"])

    assert result.exit_code == 2
    assert "is no name of an object" in result.stderr


@pytest.mark.parametrize("typed", ["http://me:s3cret@127.0.0.1:1", "ftp://me:s3cret@x", "me:s3cret@x"])
@pytest.mark.parametrize("command", ["list", "doctor"])
def test_no_message_has_the_password_of_an_address(typed: str, command: str, tmp_path: Path) -> None:
    given = [command, "--url", typed] + (["--data-dir", str(tmp_path)] if command == "doctor" else [])
    result = CliRunner().invoke(main, given)

    assert result.exit_code != 0
    assert "s3cret" not in result.output


def test_a_command_on_a_database_does_not_print_the_password_of_a_server() -> None:
    result = CliRunner().invoke(main, ["trace", "verify"], env={"FORMULARY_URL": "https://me:s3cret@host/x@y"})

    assert result.exit_code == 2
    assert "FORMULARY_URL is 'https://host/x@y'" in result.stderr


def test_the_address_of_a_server_that_answered_is_reported_without_a_password() -> None:
    async def reached() -> None:
        async with connected("https://me:s3cret@formulary.example/", seconds=1):
            pass

    with click.Context(main):
        asyncio.run(reached())

        assert take_source() == "https://formulary.example"


def test_a_reader_that_has_enough_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([FORMULARY, "new", "a"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("place", "name"), [(new_command, "callback"), (main, "get_command")])
def test_a_command_that_is_interrupted_has_not_done_it(
    place: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, interrupted)
    result = CliRunner().invoke(main, ["new", "a"])

    assert (result.exit_code, result.stderr) == (130, "formulary: stopped\n")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("sev", ["severity="]), ("severity=c", ["severity=critical"]), ("priority=", ["priority=P0"]), ("zzz", [])],
)
def test_labels_are_completed(typed: str, completed: list[str]) -> None:
    environment = {"_FORMULARY_COMPLETE": "zsh_complete", "COMP_WORDS": f"formulary search x --label {typed}"}
    said = run(environment=environment | {"COMP_CWORD": "4"})

    offered = said.splitlines()[1::3]
    assert offered[: len(completed)] == completed
    assert completed or not offered


def test_completion_without_a_server_offers_nothing() -> None:
    environment = {"_FORMULARY_COMPLETE": "fish_complete", "COMP_WORDS": "formulary show oom", "COMP_CWORD": "oom"}

    assert run(environment=environment | {"FORMULARY_URL": "http://127.0.0.1:1"}).strip() == ""


def test_a_missing_executor_is_something_that_is_not_available() -> None:
    assert NoExecutor.exit_code == 3


def test_manifests_have_the_usual_order_and_scripts_as_lines() -> None:
    command = "set -e\nkubectl get pods\n"
    stored = {
        "kind": "Job",
        "spec": {"containers": [{"command": ["sh", "-c", command], "name": "step"}]},
        "metadata": {"labels": {"a": "b"}, "name": "x"},
        "apiVersion": "batch/v1",
    }
    said = manifest_text(stored)

    assert [line for line in said.splitlines() if line[0] not in " -"] == [
        "apiVersion: batch/v1",
        "kind: Job",
        "metadata:",
        "spec:",
    ]
    assert "    - |\n      set -e\n" in said
    assert yaml.safe_load(said) == stored


@pytest.mark.parametrize("columns", ["80", "100", "120"])
def test_a_table_keeps_every_column_on_a_narrow_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    page = Page()
    monkeypatch.setattr(type(page.console), "is_terminal", True)
    long = "KubePodCrashLooping,CrashLoopBackOff,KubePodNotReady"
    page.table(("NAME", "TITLE", "SIGNALS"), [("payments/checkout-oom-shed-carts", "t" * 60, long)], whole=("NAME",))

    for line in capsys.readouterr().out.splitlines():
        assert len(line) <= int(columns)
    page.table(("NAME", "TITLE", "SIGNALS"), [("payments/checkout-oom-shed-carts", "t" * 60, long)], whole=("NAME",))
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "TITLE", "SIGNALS"]
    assert row.startswith("payments/checkout-oom-shed-carts  ")
    assert "  Kube" in row
