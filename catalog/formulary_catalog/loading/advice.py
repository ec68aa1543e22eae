"""What is allowed in a workflow but probably not meant."""

import re

from formulary_catalog.domain.entry import CatalogEntry

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
    return found
