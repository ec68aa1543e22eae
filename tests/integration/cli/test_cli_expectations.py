"""`formulary test`: searches of the workflows of a directory, and what the files beside them expect of these."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.errors import InvalidInput
from formulary_catalog.loading.expectations import expectations_in
from support.commands import formulary_now, formulary_process
from support.manifest import text, workflow

TESTS = """
tests:
  - name: memory
    query: OOMKilled critical, a container ran out of memory
    labels: {environment: [production]}
    first: raise-memory
    among: [raise-memory]
    never: [renew-certificate]
  - name: for the red team alone
    query: OOMKilled critical, a container ran out of memory
    customLabels: {team: [blue]}
    never: [raise-memory]
  - name: for what the red team owns
    query: OOMKilled critical, a container ran out of memory
    target: shop/Deployment/cart
    first: raise-memory
  - name: for what the blue team owns
    query: OOMKilled critical, a container ran out of memory
    target: shop/Deployment/ledger
    never: [raise-memory]
  - name: wrong on purpose
    query: OOMKilled critical, a container ran out of memory
    first: renew-certificate
    among: [renew-certificate]
    never: [formulary/raise-memory]
"""


def test_each_expectation_that_is_not_met_is_named_with_what_was_found(tmp_path: Path) -> None:
    memory = workflow(
        "raise-memory",
        what="Raises the memory limit of a container that was OOMKilled.",
        customLabels={"team": "red"},
    )
    certificate = workflow("renew-certificate", what="Renews an expired certificate.")
    certificate["spec"]["labels"]["signalType"] = ["CertExpired"]
    (tmp_path / "workflows.yaml").write_text(text(memory, certificate))
    (tmp_path / "targets.yaml").write_text(text(*_owned(cart="red", ledger="blue")))
    (tmp_path / "memory.test.yaml").write_text(TESTS)
    done = formulary_process("test", str(tmp_path), "--json")
    report = json.loads(done.out)
    assert (done.code, report["failed"]) == (1, 1), done.err
    assert {each["name"]: len(each["failures"]) for each in report["tests"]} == {
        "memory": 0,
        "for the red team alone": 0,
        "for what the red team owns": 0,
        "for what the blue team owns": 0,
        "wrong on purpose": 3,
    }
    first, among, never = report["tests"][4]["failures"]
    assert first.startswith("first is raise-memory (")
    assert first.endswith("not renew-certificate")
    assert among == "renew-certificate is not among the hits: raise-memory"
    assert never.startswith("formulary/raise-memory is hit number 1")
    checked = formulary_now("validate", str(tmp_path))
    assert (checked.code, "memory.test.yaml" in checked.out) == (0, False)


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("target: cart", "target 'cart' is not of the form [NAMESPACE/]KIND/NAME"),
        ("target: shop/Deployment/cart\n    labels: {environment: production}", "target is given, and labels too"),
        ("labels: {colour: red}", "colour"),
    ],
)
def test_an_expectation_under_constraints_that_cannot_be_is_refused_by_its_name(
    tmp_path: Path, member: str, said: str
) -> None:
    (tmp_path / "workflows.yaml").write_text(text(workflow("raise-memory")))
    (tmp_path / "a.test.yaml").write_text(
        f"tests:\n  - name: odd\n    query: x\n    never: raise-memory\n    {member}\n"
    )
    with pytest.raises(InvalidInput, match=f"odd: .*{re.escape(said)}"):
        expectations_in([tmp_path], workflows={"raise-memory"})


def _owned(**teams: str) -> list[dict[str, Any]]:
    """A namespace, and workloads in it whose labels name their teams."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"environment": "production"}},
    }
    return [namespace] + [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "shop", "labels": {"constraint.formulary.dev/team": team}},
        }
        for name, team in teams.items()
    ]
