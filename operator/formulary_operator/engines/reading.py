"""Reading objects that other controllers write: what is missing or of another shape counts as absent."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


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
