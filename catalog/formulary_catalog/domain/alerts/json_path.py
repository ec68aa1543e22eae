"""The part of JSONPath that names a value in the body of a webhook: `$.a.b`, `$['a-b']`, `$.list[0]`, `$.list[*]`.

`domain/alerts/source` checks paths with it when a source is applied, `domain/alerts/payloads` follows them. Filters and
scripts are left out: what a path costs depends on the body alone.
"""

import re
from typing import Any

MAX_PATH = 500
_STEP = re.compile(r"\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|\['(?P<quoted>[^']+)'\]|\[(?P<index>\d{1,6}|\*)\]")
_ALL = "*"
Path = tuple[str | int, ...]


def parse_path(text: str) -> Path:
    """The steps of a path: names of members, numbers of items, and `*` for all items of a list.

    Raises:
        ValueError: it is not of these forms.
    """
    steps: list[str | int] = []
    position = 1
    if text.startswith("$") and len(text) <= MAX_PATH:
        while (matched := _STEP.match(text, position)) is not None:
            position = matched.end()
            index = matched["index"]
            name = matched["name"] or matched["quoted"]
            steps.append(name if index is None else _ALL if index == _ALL else int(index))
        if position == len(text):
            return tuple(steps)
    raise ValueError("must be a path such as $.alert.labels.namespace, $['a-b'] or $.alerts[*]")


def values_at(path: Path, document: Any) -> list[Any]:
    """The values to which a path leads, in the order of the document; none where it leads nowhere."""
    found = [document]
    for step in path:
        if step == _ALL:
            found = [item for each in found if isinstance(each, list) for item in each]
        elif isinstance(step, int):
            found = [each[step] for each in found if isinstance(each, list) and step < len(each)]
        else:
            found = [each[step] for each in found if isinstance(each, dict) and step in each]
    return found
