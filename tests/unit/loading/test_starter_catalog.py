"""The workflows that ship with the product: enough, distinct, complete, runnable, small."""

import re
import subprocess
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.governance.effects import Effect, effects
from formulary_catalog.domain.search.results import workflow_details
from formulary_catalog.domain.stored import StoredVersion, WorkflowOutcome
from formulary_catalog.domain.workflows.invocable import not_invocable_because
from formulary_catalog.domain.workflows.labels import CANONICAL_SIGNAL_TYPES, SEVERITIES, STANDARD_KEYS
from formulary_catalog.domain.workflows.manifest import Step
from formulary_catalog.loading.advice import advice
from support.filling import entry, starter_documents

DIRECTORY = Path(__file__).parents[3] / "catalog" / "workflows"
VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
LOOKING = re.compile(r"\bkubectl\b[^|]*\s(?:logs|top)\s")
KNOWN_DETECTED = {
    "gitOpsManaged", "pdbProtected", "hpaEnabled", "stateful", "helmManaged", "networkIsolated",
    "gitOpsTool", "serviceMesh", "storageBackend",
}  # fmt: skip


@cache
def _catalog() -> tuple[CatalogEntry, ...]:
    return tuple(entry(document) for document in starter_documents(DIRECTORY))


def _steps(workflow: CatalogEntry) -> list[Step]:
    spec = workflow.workflow.spec
    return [*spec.steps, *spec.rollback_steps]


every_workflow = pytest.mark.parametrize("workflow", _catalog(), ids=lambda workflow: workflow.name)


def test_there_are_at_least_a_hundred_workflows_with_names_of_their_own() -> None:
    names = [workflow.name for workflow in _catalog()]
    assert len(names) == len(set(names)) >= 100
    assert names == [file.stem for file in sorted(DIRECTORY.glob("*.yaml"))]
    assert {file.suffix for file in DIRECTORY.iterdir() if file.is_file()} == {".yaml"}


@pytest.mark.parametrize("signal", CANONICAL_SIGNAL_TYPES)
def test_every_canonical_signal_has_workflows_that_can_be_told_apart(signal: str) -> None:
    answering = [workflow for workflow in _catalog() if signal in workflow.workflow.spec.labels.signal_type]
    assert len(answering) >= 2
    for one, other in combinations(answering, 2):
        first, second = one.workflow.spec, other.workflow.spec
        assert first.description.when_to_use != second.description.when_to_use
        assert not _sentences(one) & _sentences(other)


def _sentences(workflow: CatalogEntry) -> set[str]:
    sentences = workflow.workflow.spec.description.when_to_use.split(". ")
    return {sentence.strip(" .\n").casefold() for sentence in sentences}


@every_workflow
def test_all_that_a_person_needs_to_judge_and_run_it_is_there(workflow: CatalogEntry) -> None:
    spec = workflow.workflow.spec
    assert spec.title
    assert spec.description.when_not_to_use
    assert spec.description.preconditions
    assert len(spec.steps) >= 3
    assert spec.rollback_steps
    assert spec.prerequisites
    assert spec.keywords
    assert spec.risk_level
    assert re.fullmatch(r"\d+[mh]", spec.estimated_duration)
    assert spec.labels.signal_type
    assert spec.labels.risk_tolerance
    assert all(step.name and step.description and step.command for step in _steps(workflow))
    assert 1 <= len(spec.parameters) <= 5
    assert spec.execution.bundle


@every_workflow
def test_its_labels_are_words_that_agents_use(workflow: CatalogEntry) -> None:
    values = workflow.labels.values
    assert values["severity"] <= {*SEVERITIES, "*"}
    assert values["environment"] <= {"production", "staging", "development", "test", "*"}
    assert values["risk_tolerance"] <= {"low", "medium", "high"}
    assert values["priority"] <= {"p0", "p1", "p2", "p3", "*"}
    assert workflow.labels.detected.keys() <= KNOWN_DETECTED
    assert workflow.labels.custom.keys() == STANDARD_KEYS, "other keys are the platform team's own"
    assert all(values in ({"yes"}, {"no"}) for values in workflow.labels.custom.values())
    assert not workflow.workflow.model_extra
    assert not workflow.workflow.spec.model_extra
    assert workflow.workflow.metadata.namespace is None


@every_workflow
def test_a_risky_remedy_is_offered_only_where_risk_is_accepted(workflow: CatalogEntry) -> None:
    tolerances = workflow.labels.values["risk_tolerance"]
    assert (
        tolerances
        <= {
            "low": {"low", "medium", "high"},
            "medium": {"medium", "high"},
            "high": {"high"},
        }[workflow.workflow.spec.risk_level or ""]
    )


@every_workflow
def test_nothing_about_it_draws_a_warning(workflow: CatalogEntry) -> None:
    assert advice(workflow) == []


@every_workflow
def test_logs_and_usage_that_cannot_be_read_stop_no_remedy(workflow: CatalogEntry) -> None:
    looking = [step for step in workflow.workflow.spec.steps if LOOKING.search(step.command)]
    assert [step.name for step in looking if "||" not in step.command and not step.name.startswith("verify")] == []


@every_workflow
def test_every_variable_is_declared_and_every_parameter_used(workflow: CatalogEntry) -> None:
    used = {name for step in _steps(workflow) for name in VARIABLE.findall(step.command)}
    parameters = workflow.workflow.spec.parameters
    declared = [parameter.name for parameter in parameters]
    assert used == set(declared)
    assert len(declared) == len(set(declared))
    for parameter in parameters:
        assert parameter.default is None or not parameter.required
        if parameter.pattern:
            re.compile(parameter.pattern)
            assert parameter.default is None or re.search(parameter.pattern, str(parameter.default))


@every_workflow
def test_related_workflows_exist_and_are_others(workflow: CatalogEntry) -> None:
    names = {other.name for other in _catalog()}
    related = {link.name for link in workflow.workflow.spec.related}
    assert related <= names - {workflow.name}


@every_workflow
def test_every_command_is_valid_shell(workflow: CatalogEntry) -> None:
    for step in _steps(workflow):
        checked = subprocess.run(["sh", "-n"], input=step.command, capture_output=True, text=True, timeout=10)
        assert (checked.returncode, checked.stderr) == (0, ""), step.name


@every_workflow
def test_its_details_fit_a_small_answer(workflow: CatalogEntry) -> None:
    stored = StoredVersion(
        version_id=workflow.version_id,
        namespace="formulary",
        name=workflow.name,
        version=workflow.version,
        status="Active",
        ambiguous=False,
        outcome=WorkflowOutcome(),
    )
    details = workflow_details(
        workflow.workflow,
        stored=stored,
        not_invocable_because=not_invocable_because(workflow.workflow.spec),
        history=[],
    )
    assert details.invocable
    assert len(details.model_dump_json().encode()) < 4736


@every_workflow
def test_what_a_workflow_declares_of_restarts_and_lost_data_is_what_its_commands_do(workflow: CatalogEntry) -> None:
    spec = workflow.workflow.spec
    found = effects(step.command for step in spec.steps)
    said = {Effect.YES: {"yes"}, Effect.NO: {"no"}, Effect.UNKNOWN: {"yes", "no"}}

    declared = {key: values for key, values in spec.custom_labels.items() if key in STANDARD_KEYS}
    assert {key: len(values) for key, values in declared.items()} == dict.fromkeys(STANDARD_KEYS, 1)
    assert all(set(values) <= said[found[key]] for key, values in declared.items()), found


def test_a_namespace_without_restarts_has_workflows_left() -> None:
    left = [each.name for each in _catalog() if each.workflow.spec.custom_labels["restarts"] == ["no"]]

    assert len(left) >= 10
