"""The sections of a workflow: what can be read by itself where the whole is too much."""

from collections.abc import Mapping
from typing import Any

from formulary_catalog.domain.answers import WorkflowDetails

_TEXTS = ("description", "when_to_use", "when_not_to_use", "preconditions")
_LISTS = ("steps", "rollback_steps", "parameters", "versions")
_MAPS = ("labels", "execution")
SECTIONS = (*_TEXTS, *_LISTS, *_MAPS)


def section_of(details: WorkflowDetails, section: str) -> tuple[str, list[dict[str, Any]]]:
    """The text of a section, or its items; the members of a map are items with `name` and `value`."""
    value = details.as_json()[section]
    if section in _TEXTS:
        return value, []
    return "", _members(value) if section in _MAPS else value


def _members(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": member} for name, member in value.items()]
