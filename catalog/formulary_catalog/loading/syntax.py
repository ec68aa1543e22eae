"""The text of one document as plain data: strict, bounded, safe to read from any author.

Dates stay text, a key may occur once, tags are refused, and aliases may not blow a small text up.
"""

import json
import re
from typing import Any, cast

import yaml

MAX_DEPTH = 100
MAX_NODES = 100_000
_TOO_MANY = f"expands to more than {MAX_NODES} values; split the document"
_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels; flatten it"
_CHARACTERS_A_NODE = 50
"""So many characters of a text count as one more value, since aliases repeat texts too."""
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_MERGE_TAG = "tag:yaml.org,2002:merge"
_LEFT_AS_TEXT = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})


class SyntaxProblem(ValueError):
    """A text that cannot be read as a document; the message is one line."""


def parse_yaml(text: str, *, first_line: int = 1) -> object:
    """One YAML document; None for an empty one. `first_line` is where it begins in its file, for messages.

    Raises:
        SyntaxProblem: it is malformed, or breaks a bound of this module.
    """
    try:
        _check_events(text)
        value = _Loader(text).read()
    except yaml.MarkedYAMLError as error:
        line = f"line {first_line + error.problem_mark.line}: " if error.problem_mark else ""
        raise SyntaxProblem(f"{line}{' '.join(filter(None, (error.problem, error.context)))}") from None
    except yaml.YAMLError:
        raise SyntaxProblem("holds control characters that YAML does not allow; write the file as plain text") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise _unreadable(error) from None
    _check_value(value)
    return value


def parse_json(text: str) -> object:
    """One JSON document.

    Raises:
        SyntaxProblem: as `parse_yaml`.
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise SyntaxProblem(f"line {error.lineno}: is not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from None
    _check_value(value)
    return value


def line_of(text: str, field: str) -> int:
    """The line in one valid YAML document where a field is, steps separated by dots.

    Where it ought to be, if it is missing. Lines count from 1.
    """
    node = yaml.compose(text, Loader=_Loader)
    line = 1
    for step in field.split(".") if node is not None else ():
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == step), None)
        elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            found = (node.value[int(step)],) * 2
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


class _Loader(yaml.CSafeLoader):
    """The safe loader in C, with the graph of nodes checked before anything is built from it."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _LEFT_AS_TEXT]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[int, int] = {}

    def read(self) -> object:
        node = self.get_single_node()
        if node is None:
            return None
        self._measure(node)
        return cast(object, self.construct_document(node))

    def _measure(self, node: yaml.Node) -> int:
        """How many nodes it has with its aliases written out; they are only known to the graph."""
        if isinstance(node, yaml.ScalarNode):
            return 1 + len(node.value) // _CHARACTERS_A_NODE
        size = self._sizes.get(id(node))
        if size == 0:
            raise _problem("an alias refers to what contains it; write the value out", node)
        if size is not None:
            return size
        self._sizes[id(node)] = 0
        if isinstance(node, yaml.MappingNode):
            self._refuse_duplicates(node)
            size = 1 + sum(self._measure(key) + self._measure(value) for key, value in node.value)
        else:
            size = 1 + sum(self._measure(item) for item in node.value)
        if size > MAX_NODES:
            raise _problem(_TOO_MANY, node)
        self._sizes[id(node)] = size
        return size

    def _refuse_duplicates(self, mapping: yaml.MappingNode) -> None:
        seen: set[object] = set()
        for key, _ in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _problem("a key must be a single value, not a list or a map", key)
            name = key.value if key.tag == _MERGE_TAG else self.construct_object(key)
            if name in seen:
                raise _problem(f"key {name!r} occurs twice in one map; keep one", key)
            seen.add(name)


def _check_events(text: str) -> None:
    """Bounds that must hold before nodes are composed: that part is recursive and in C."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if number > 2 * MAX_NODES:  # a collection is two events
            raise _problem(_TOO_MANY, event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _problem(_TOO_DEEP, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if getattr(event, "tag", None) is not None:
            raise _problem("YAML tags such as !!str are not accepted; remove the tag", event)


def _problem(message: str, where: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=message, problem_mark=cast(yaml.Mark, where.start_mark))


def _unreadable(error: Exception) -> SyntaxProblem:
    if isinstance(error, SyntaxProblem):
        return error
    if isinstance(error, RecursionError):
        return SyntaxProblem(_TOO_DEEP)
    return SyntaxProblem("holds a number that cannot be read; put it in quotes")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise SyntaxProblem(f"key {twice!r} occurs twice in one map; keep one")
    return found


def _refuse_constant(name: str) -> None:
    raise SyntaxProblem(f"{name} is not a JSON value; put it in quotes")


def _check_value(value: object) -> None:
    """Depth and texts of what was read; aliases make values deeper than their text, and escapes hide characters."""
    stack = [(value, 1)]
    while stack:
        current, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise SyntaxProblem(_TOO_DEEP)
        if isinstance(current, str):
            _check_text(current)
        elif isinstance(current, dict):
            stack += [(part, depth + 1) for pair in current.items() for part in pair]
        elif isinstance(current, list):
            stack += [(item, depth + 1) for item in current]


def _check_text(text: str) -> None:
    if _FORBIDDEN.search(text):
        raise SyntaxProblem("holds a NUL or an unpaired surrogate character; remove it")
