"""What is allowed in a workflow or a contract but probably not meant."""

import re
from collections.abc import Iterator

from formulary_catalog.domain.entry import CatalogEntry, ContractEntry
from formulary_catalog.domain.governance.contract import contract
from formulary_catalog.domain.governance.effects import Effect, effects
from formulary_catalog.domain.governance.rules import lifts_less
from formulary_catalog.domain.workflows.inputs import schema_problem
from formulary_catalog.domain.workflows.invocable import engine_problem
from formulary_catalog.domain.workflows.labels import (
    DATA_LOSS,
    NO,
    RESTARTS,
    SEVERITIES,
    WILDCARD,
    YES,
    fold,
    nearest_usual,
)
from formulary_catalog.domain.workflows.manifest import Execution, Labels, Model, WorkflowSpec
from formulary_catalog.domain.workflows.problems import nearest_name

_USED = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)")
_ASSIGNED = re.compile(r"\b([A-Z_][A-Z0-9_]*)=|\b(?:for|read(?:\s+-\w+)*)\s+([A-Z_][A-Z0-9_]*)")


def advice(entry: CatalogEntry) -> list[str]:
    """One line for each doubt about a valid workflow; none for most."""
    spec = entry.workflow.spec
    declared = {parameter.name for parameter in (*spec.parameters, *spec.rollback_parameters)}
    found = [] if declared else ["spec.parameters: none, so it can be read and followed but not invoked"]
    commands = "\n".join(step.command for step in (*spec.steps, *spec.rollback_steps))
    assigned = {name for groups in _ASSIGNED.findall(commands) for name in groups if name}
    undeclared = dict.fromkeys(name for name in _USED.findall(commands) if name not in declared | assigned)
    found += [f"spec.steps: a command uses ${{{name}}}, which spec.parameters does not declare" for name in undeclared]
    problems = [schema_problem(spec.parameters) if declared else "", engine_problem(spec.execution.engine)]
    found += [f"{problem}; it can be read and followed but not invoked" for problem in problems if problem]
    found += _unusual(spec.labels)
    found += _effects(spec)
    return found + list(_unpinned(spec.execution)) + list(_misspelt(spec, path="spec"))


def contract_advice(entry: ContractEntry) -> list[str]:
    """One line for each doubt about a valid contract."""
    less = lifts_less(contract(entry.spec, name=entry.name, namespace=entry.namespace))
    return [f"spec.rules: {less}"] if less else []


def _unusual(labels: Labels) -> Iterator[str]:
    """A label excludes the workflow where it does not hold, so a misspelt value hides it."""
    for name, field in type(labels).model_fields.items():
        for value in getattr(labels, name):
            if meant := nearest_usual(name, value):
                yield f"spec.labels.{field.alias or name}: {value!r} is none of the usual values; did you mean {meant}?"
            elif name == "severity" and fold(value) not in (*SEVERITIES, WILDCARD):
                yield (
                    f"spec.labels.severity: {value!r} is none of {', '.join(SEVERITIES)}; a search for one of these "
                    "does not find the workflow by it"
                )


def _effects(spec: WorkflowSpec) -> Iterator[str]:
    """What the workflow declares for the standard keys beside what its commands do."""
    declared = {key: set(spec.custom_labels.get(key, ())) for key in (RESTARTS, DATA_LOSS)}
    if not any(declared.values()):
        yield (
            "spec.customLabels: neither restarts nor data-loss is declared, so it is not offered where a namespace "
            'says no; give each "yes" or "no"'
        )
    found = effects(step.command for step in spec.steps)
    does = {RESTARTS: "restarts, evicts or deletes pods", DATA_LOSS: "can lose data"}
    for key, values in declared.items():
        if values == {NO} and found[key] is Effect.YES:
            yield f'spec.customLabels.{key}: is "no", and a command {does[key]}; declare "yes", or change the command'
        elif values and values not in ({YES}, {NO}):
            yield f'spec.customLabels.{key}: counts as "yes"; give "yes" or "no"'


def _unpinned(execution: Execution) -> Iterator[str]:
    """Images that are named by a tag: anybody who may push to the registry changes what runs."""
    config = execution.engine_config if isinstance(execution.engine_config, dict) else {}
    images = {"bundle": execution.bundle, "engineConfig.image": config.get("image")}
    for field, image in images.items():
        pinned = field == "bundle" and execution.bundle_digest
        if isinstance(image, str) and image and "@sha256:" not in image and not pinned:
            yield f"spec.execution.{field}: {image!r} has no digest, so what runs can change; pin it with @sha256:…"


def _misspelt(part: Model, *, path: str) -> Iterator[str]:
    """Unknown fields are kept for others to read. One that was meant to restrict the workflow restricts nothing."""
    fields = {field.alias or name: name for name, field in type(part).model_fields.items()}
    for unknown in part.model_extra or ():
        if meant := nearest_name(unknown, fields):
            named = unknown if unknown.isprintable() else repr(unknown)
            yield f"{path}.{named}: is unknown and does nothing; did you mean {meant}?"
    for alias, name in fields.items():
        inside = getattr(part, name)
        for number, each in enumerate(inside if isinstance(inside, list) else [inside]):
            if isinstance(each, Model):
                yield from _misspelt(each, path=f"{path}.{alias}" + (f"[{number}]" if inside is not each else ""))
