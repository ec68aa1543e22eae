"""Contracts without a cluster: validated from files, in force from manifests, judged as the tools judge."""

import json
from pathlib import Path
from typing import Any

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.contracts import ContractWriter
from support.commands import formulary
from support.manifest import contract, text


async def validated(path: Path) -> dict[str, Any]:
    said = await formulary("validate", str(path), "--json")
    (file,) = json.loads(said.out)["files"]
    assert said.code == (0 if file["valid"] else 1)
    found: dict[str, Any] = file
    return found


async def test_a_valid_contract_is_counted(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text(contract("freeze", match={"environments": ["production"]})))
    found = await validated(file)
    assert (found["contracts"], found["problems"]) == (1, [])


async def test_each_broken_field_of_a_contract_is_named_with_its_rule(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    broken = {
        "spec.rules.0.effect": contract("a", effect="FORBID"),
        "spec.rules.0.match.enviroments": contract("b", match={"enviroments": ["production"]}),
        "spec.rules.0.match.workflows.0": contract("c", match={"workflows": ["rest*"]}),
        "spec.rules.0.match.during.timeZone": contract("d", match={"during": {"timeZone": "Middle/Earth"}}),
        "spec.rules.0": contract("e", effect="HALT", match={"workflows": ["restart"]}),
        "metadata.name": contract("Not A Name"),
        "apiVersion": contract("f") | {"apiVersion": "formulary.dev/v1"},
        "spec.rules": {**contract("g"), "spec": {}},
    }
    for field, document in broken.items():
        file.write_text(text(document))
        (problem,) = (await validated(file))["problems"]
        assert problem["field"] == field
        assert problem["message"].startswith(f"{file}: {field}: ")


async def test_the_contracts_in_force_are_listed(database: str, writing: Database) -> None:
    none = await formulary("governance", "contracts", FORMULARY_DATABASE_URL=database)
    assert none.out.startswith("no contract is in force")
    spec = contract("freeze")["spec"]
    await ContractWriter(writing, shared_namespace="formulary").save(spec, namespace="shop", name="freeze", uid="u")
    said = await formulary("governance", "contracts", "--json", FORMULARY_DATABASE_URL=database)
    (found,) = json.loads(said.out)["contracts"]
    assert (found["namespace"], found["name"], found["rules"]) == ("shop", "freeze", [{"id": "only", "effect": "DENY"}])
    assert "shop/freeze" in (await formulary("governance", "contracts", FORMULARY_DATABASE_URL=database)).out


async def test_actions_are_judged_as_the_tools_judge_them_in_one_trace(database: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(text(contract("freeze", match={"actionTypes": ["delete"]})))
    judged = ("governance", "evaluate", "--task", "clean up")
    said = await formulary(
        *judged, "--action", "delete", "--contract", str(rules), "--json", FORMULARY_DATABASE_URL=database
    )
    assert said.code == 1
    answer = json.loads(said.out)
    assert answer["enforce_result"]["blocked_rule_ids"] == ["only"]
    assert answer["verdict"]["final_decision"] == "BLOCK"
    shown = await formulary("trace", "show", answer["trace_id"], "--json", FORMULARY_DATABASE_URL=database)
    for kind in ("governance.gate", "governance.enforce", "governance.verdict"):
        assert kind in shown.out
    allowed = await formulary(*judged, "--action", "list pods", FORMULARY_DATABASE_URL=database)
    assert allowed.code == 0
    assert allowed.out.startswith("# Verdict: ALLOW")


async def test_a_task_is_judged_by_a_contract_without_any_action(database: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(text(contract("freeze", match={"actionTypes": ["delete"]})))
    said = await formulary(
        "governance",
        "evaluate",
        "--task",
        "look at the pods",
        "--contract",
        str(rules),
        "--json",
        FORMULARY_DATABASE_URL=database,
    )
    assert json.loads(said.out)["enforce_result"]["blocked_rule_ids"] == []


async def test_the_environments_that_settings_call_harmless_are_harmless_here_too(database: str) -> None:
    judged = ("governance", "evaluate", "--task", "clean up", "--action", "delete", "--json")
    severities = []
    for harmless in ("dev", "dev,playground"):
        said = await formulary(
            *judged,
            "--context",
            "environment=playground",
            FORMULARY_DATABASE_URL=database,
            FORMULARY_HARMLESS_ENVIRONMENTS=harmless,
        )
        severities.append([risk["severity"] for risk in json.loads(said.out)["gate_report"]["risks"]])
    assert severities == [["critical"], ["high"]]
