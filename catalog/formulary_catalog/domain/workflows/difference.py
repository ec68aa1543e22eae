"""Two versions of a workflow side by side: which lines of the manifest differ, for people who judge a change.

`services/workflows/versions` calls it. Bounded, because comparing texts without a line in common takes time that grows
with the square of their length. Custom labels are no part of it, as of no answer.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

import yaml

from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_catalog.domain.yaml_text import LiteralDumper

MAX_LINES = 400
"""Lines of each version that are compared."""
_WIDTH = 90
_AROUND = 3
"""Equal lines that are shown before and after what differs."""


class Side(StrEnum):
    """What a row says: where it differs, or that equal lines are left out."""

    SAME = "same"
    CHANGED = "changed"
    REMOVED = "removed"
    ADDED = "added"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the older version beside that of the newer one; empty where it has none."""

    side: Side
    older: str = ""
    newer: str = ""


def manifest_lines(workflow: RemediationWorkflow) -> list[str]:
    """The spec as lines of YAML, in the order of the fields, without custom labels and what is as by default."""
    spec = workflow.spec.model_dump(by_alias=True, mode="json", exclude_defaults=True, exclude={"custom_labels"})
    dumped = yaml.dump(spec, Dumper=LiteralDumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return dumped.splitlines()


def side_by_side(older: list[str], newer: list[str]) -> list[Row]:
    """The lines that differ, each with a few equal ones around it; none where all are equal.

    At most the first `MAX_LINES` of each are compared.
    """
    one, other = older[:MAX_LINES], newer[:MAX_LINES]
    matcher = difflib.SequenceMatcher(a=one, b=other, autojunk=False)
    rows: list[Row] = []
    reached = 0
    for group in matcher.get_grouped_opcodes(_AROUND):
        if rows or group[0][1] > reached:
            rows.append(Row(Side.LEFT_OUT))
        for tag, from_older, to_older, from_newer, to_newer in group:
            rows += _rows(tag, one[from_older:to_older], other[from_newer:to_newer])
        reached = group[-1][2]
    if rows and reached < len(one):
        rows.append(Row(Side.LEFT_OUT))
    return rows


def _rows(tag: str, older: list[str], newer: list[str]) -> Iterator[Row]:
    if tag == "equal":
        yield from (Row(Side.SAME, line, line) for line in older)
        return
    for one, other in zip_longest(older, newer):
        if one is None:
            yield Row(Side.ADDED, newer=other)
        elif other is None:
            yield Row(Side.REMOVED, older=one)
        else:
            yield Row(Side.CHANGED, one, other)
