"""`formulary test`: searches of the workflows of a directory, and what the files beside them expect of these."""

import json
from pathlib import Path

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
    (tmp_path / "memory.test.yaml").write_text(TESTS)
    done = formulary_process("test", str(tmp_path), "--json")
    report = json.loads(done.out)
    assert (done.code, report["failed"]) == (1, 1), done.err
    assert {each["name"]: len(each["failures"]) for each in report["tests"]} == {
        "memory": 0,
        "for the red team alone": 0,
        "wrong on purpose": 3,
    }
    first, among, never = report["tests"][2]["failures"]
    assert first.startswith("first is raise-memory (")
    assert first.endswith("not renew-certificate")
    assert among == "renew-certificate is not among the hits: raise-memory"
    assert never.startswith("formulary/raise-memory is hit number 1")
    checked = formulary_now("validate", str(tmp_path))
    assert (checked.code, "memory.test.yaml" in checked.out) == (0, False)
