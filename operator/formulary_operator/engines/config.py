"""What engines read: `spec.execution` of a workflow and the objects of a cluster, every field with its type.

All engines call it, and so do `runs.status` and `runs.permits`. Both sources may hold anything: a wrong type in a
workflow is an error for its author, in an object of the cluster it counts as absent. Pure.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.errors import NotInvocable

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_KINDS: Mapping[type, str] = {dict: "a map", list: "a list", str: "text", bool: "a boolean", int: "a number"}


class EngineConfig:
    """`engineConfig`, which may be of any shape: each engine asks for the fields that it knows and no others.

    All methods raise `NotInvocable` for a value of another type.
    """

    def __init__(self, workflow: RemediationWorkflow) -> None:
        self._workflow = workflow
        given = workflow.spec.execution.engine_config
        self._fields = {} if given is None else self._checked(given, dict, field="", expected="a map")

    def text(self, field: str) -> str:
        """A text; empty where it is absent."""
        value = self._fields.get(field)
        return "" if value is None else str(self._checked(value, str, field=field, expected="text"))

    def flag(self, field: str) -> bool:
        """A boolean; false where it is absent."""
        value = self._fields.get(field)
        return value is not None and bool(self._checked(value, bool, field=field, expected="true or false"))

    def positive(self, field: str, *, default: int) -> int:
        """A whole number above zero."""
        value = self._fields.get(field)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(field, expected="a whole number above 0", value=value)
        return value

    def quantities(self, field: str, *, default: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        """Resources of a container: `requests` and `limits`, each a map of names to quantities."""
        value = self._fields.get(field)
        if value is None:
            return {part: dict(amounts) for part, amounts in default.items()}
        given = self._checked(value, dict, field=field, expected="a map with requests and limits")
        parts = {part: given[part] for part in ("requests", "limits") if given.get(part) is not None}
        return {part: self._amounts(amounts, field=f"{field}.{part}") for part, amounts in parts.items()}

    def _amounts(self, value: object, *, field: str) -> dict[str, str]:
        given = self._checked(value, dict, field=field, expected="a map of names to quantities")
        for name, amount in given.items():
            if isinstance(amount, bool) or not isinstance(amount, str | int | float):
                raise self._wrong(f"{field}.{name}", expected="a quantity such as 500m or 256Mi", value=amount)
        return {name: str(amount) for name, amount in given.items()}

    def _checked(self, value: Any, type_: type, *, field: str, expected: str) -> Any:
        if not isinstance(value, type_):
            raise self._wrong(field, expected=expected, value=value)
        return value

    def _wrong(self, field: str, *, expected: str, value: object) -> NotInvocable:
        shown = value if isinstance(value, int | float) else _KINDS.get(type(value), type(value).__name__)
        path = ".".join(part for part in ("spec.execution.engineConfig", field) if part)
        return unrunnable(self._workflow, f"{path} must be {expected}, not {shown}; correct it")


def unrunnable(workflow: RemediationWorkflow, problem: str) -> NotInvocable:
    """The error that says why the workflow, as it is written, cannot be run."""
    return NotInvocable(f"workflow {workflow.metadata.name}@{workflow.spec.version} cannot be run: {problem}")


def bundle_of(workflow: RemediationWorkflow) -> str:
    """The bundle, pinned by its digest where there is one; empty if the workflow names none.

    Raises:
        NotInvocable: the digest is none, or not that of the bundle.
    """
    execution = workflow.spec.execution
    if not execution.bundle_digest:
        return execution.bundle
    if not _DIGEST.fullmatch(execution.bundle_digest):
        raise unrunnable(workflow, "spec.execution.bundleDigest must be sha256: and 64 hex digits; correct it")
    if not execution.bundle:
        raise unrunnable(workflow, "spec.execution.bundleDigest pins no bundle; add spec.execution.bundle")
    reference, at, digest = execution.bundle.partition("@")
    if at and digest != execution.bundle_digest:
        raise unrunnable(workflow, "spec.execution.bundle and bundleDigest name two digests; leave one out")
    return f"{reference}@{execution.bundle_digest}"


def mapping(value: object, *path: str) -> Mapping[str, Any]:
    """The map at a path of keys, an empty one if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The maps in a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """The text, without what PostgreSQL cannot store; empty for anything else."""
    if not isinstance(value, str):
        return ""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def number(value: object) -> float | None:
    """The number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def moment(value: object) -> datetime | None:
    """The time that an RFC 3339 text names, in UTC; None for anything else."""
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
        return parsed.astimezone(UTC) if parsed is not None and parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def true_condition(document: Mapping[str, Any], type_: str) -> Mapping[str, Any] | None:
    """The condition of this type, if it is true."""
    found = condition(document, type_)
    return found if found.get("status") == "True" else None


def condition(document: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of this type, an empty one if there is none."""
    conditions = mappings(mapping(document, "status").get("conditions"))
    return next((found for found in conditions if found.get("type") == type_), {})
