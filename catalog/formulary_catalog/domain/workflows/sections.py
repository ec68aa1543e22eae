"""The sections of a workflow: what can be read by itself where the whole is too much; steps as text.

The edges read sections by it, skills and documents write their steps with it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from formulary_catalog.domain.answers.catalog import WorkflowDetails
from formulary_catalog.domain.text import one_line

_TEXTS = ("description", "when_to_use", "when_not_to_use", "preconditions")
_LISTS = ("steps", "rollback_steps", "parameters", "versions")
_MAPS = ("labels", "execution")
SECTIONS = (*_TEXTS, *_LISTS, *_MAPS)
_CODE = " " * 8
"""Makes a line below a numbered step code, whatever marks it holds."""


def section_of(details: WorkflowDetails, section: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a section, or its items; the members of a map are items with `name` and `value`."""
    value = details.as_json()[section]
    if section in _TEXTS:
        return value, []
    return "", _members(value) if section in _MAPS else value


def written_steps(steps: Iterable[Mapping[str, str]]) -> str:
    """Steps as numbered lines of Markdown, the command of each below it.

    They have `name`, `description` and `command` as far as those are known; a line says one step.
    """
    return "\n".join(_step(number, step) for number, step in enumerate(steps, start=1))


def _step(number: int, step: Mapping[str, str]) -> str:
    said = ": ".join(one_line(step[part]) for part in ("name", "description") if step.get(part))
    command = "\n".join(f"{_CODE}{line}" for line in step.get("command", "").splitlines())
    return f"{number}. {said}\n\n{command}" if command else f"{number}. {said}"


def _members(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": member} for name, member in value.items()]
