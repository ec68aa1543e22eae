"""Reads the arguments of a call: forgiving in form, strict in meaning, each refusal in one line (DESIGN section 7).

Both MCP and REST use it, with the parameters of `calls/parameters`. Real clients send nulls, lists of null, numbers as
text and two spellings of labels; a misspelt name is refused with the nearest one.
"""

import difflib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from formulary_catalog.domain.search.request import MAX_LABEL_VALUES
from formulary_catalog.domain.text import all_storable, storable
from formulary_catalog.errors import InvalidInput
from formulary_catalog.server.calls.json_text import nested_too_deep, parsed, shown
from formulary_catalog.server.calls.parameters import LABEL_PREFIX, CallParameter, ParameterKind

_MAX_COMPARED = 60


def canonical_label(name: str) -> str:
    """`label_signal_type` as `label.signal-type`; any other name as it is."""
    if not name.startswith(("label.", "label_")):
        return name
    return LABEL_PREFIX + name[len(LABEL_PREFIX) :].replace("_", "-")


def read_arguments(
    given: Mapping[str, Any], *, parameters: Sequence[CallParameter], name_of: Callable[[str], str] = canonical_label
) -> dict[str, Any]:
    """The arguments under their canonical names: text as str, numbers as int or float, `many` as a tuple of str.

    `name_of` makes a canonical name of a spelling.

    Objects and lists are as given: whoever takes them checks what is in them.
    What is null or blank counts as absent. Messages spell each name as `parameters` do.

    Raises:
        InvalidInput: an argument is unknown, missing, of a wrong type or out of bounds.
    """
    known = {name_of(parameter.name): parameter for parameter in parameters}
    named = canonical(given, known={name: parameter.name for name, parameter in known.items()}, name_of=name_of)
    read = {name: _read(value, parameter=known[name]) for name, value in named.items()}
    read = {name: value for name, value in read.items() if value not in ("", ())}
    for name, parameter in known.items():
        if parameter.required and name not in read:
            raise InvalidInput(
                f"{parameter.name} is missing; give it, such as {_example(parameter)}", field=parameter.name
            )
    return read


def without_nulls(value: Any) -> Any:
    """The value without nulls at any depth; a list of nothing but nulls goes with them.

    Real clients send them for what a model left out, a list of one null for an optional list.
    """
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if not _is_null(item)}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if not _is_null(item)]
    return value


def canonical(
    given: Mapping[str, Any], *, known: Mapping[str, str], name_of: Callable[[str], str] = canonical_label
) -> dict[str, Any]:
    """The same arguments under canonical names, without nulls. `known` has the spelling of each name for messages.

    Raises:
        InvalidInput: a name is unknown, or given in several spellings with different values.
    """
    named: dict[str, Any] = {}
    for spelling, value in given.items():
        name = name_of(spelling)
        if name not in known:
            raise _unknown(spelling, name=name, known=known)
        if value is None:
            continue
        if name in named and named[name] != value:
            raise InvalidInput(f"{known[name]} is given twice with different values; give it once", field=known[name])
        named[name] = value
    return named


def auditable(
    given: Mapping[str, Any], *, known: Collection[str], name_of: Callable[[str], str] = canonical_label
) -> dict[str, Any]:
    """Refused arguments as the audit trail may keep them: of unknown ones, which may be custom labels, the names."""
    kept = {spelling: value for spelling, value in given.items() if name_of(spelling) in known}
    unknown = [spelling for spelling in given if spelling not in kept]
    return kept | {"unknown_arguments": unknown} if unknown else kept


def recordable(
    given: Mapping[str, Any], *, parameters: Sequence[CallParameter], name_of: Callable[[str], str] = canonical_label
) -> dict[str, Any]:
    """Refused arguments as the trail may keep them; see `Parameter.recorded`."""
    known = {name_of(parameter.name): parameter for parameter in parameters}
    kept = auditable(given, known=known, name_of=name_of)
    secret = {spelling for spelling in kept if spelling in given and not known[name_of(spelling)].recorded}
    return kept | {spelling: _names(given[spelling]) for spelling in secret}


def _names(value: object) -> list[str]:
    return sorted(map(str, value)) if isinstance(value, Mapping) else []


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, list) and bool(value) and all(_is_null(item) for item in value))


def _unknown(spelling: str, *, name: str, known: Mapping[str, str]) -> InvalidInput:
    # Without the prefix: with it, any two short label names are alike, and a bare label is like none of them.
    bare = {each.removeprefix(LABEL_PREFIX): shown_name for each, shown_name in known.items()}
    nearest = difflib.get_close_matches(name.removeprefix(LABEL_PREFIX)[:_MAX_COMPARED], bare, n=1)
    hint = f"; did you mean {bare[nearest[0]]!r}?" if nearest else ";"
    allowed = ", ".join(known.values())
    return InvalidInput(f"unknown argument {shown(spelling)}{hint} allowed are: {allowed}", field=spelling)


def _read(value: Any, *, parameter: CallParameter) -> Any:
    if parameter.kind.is_nested:
        return _nested(value, parameter=parameter)
    if parameter.kind is ParameterKind.BOOLEAN:
        return _boolean(value, parameter=parameter)
    if parameter.kind is not ParameterKind.TEXT:
        return _number(value, parameter=parameter)
    if not parameter.many:
        return _text(value, parameter=parameter)
    values = value if isinstance(value, list) else [value]
    if len(values) > MAX_LABEL_VALUES:
        raise InvalidInput(
            f"{parameter.name} has {len(values)} entries; give at most {MAX_LABEL_VALUES}", field=parameter.name
        )
    texts = [_text(part, parameter=parameter) for part in values]
    if parameter.separator:
        texts = [part.strip() for text in texts for part in text.split(parameter.separator)]
    return tuple(text for text in texts if text)


def _text(value: Any, *, parameter: CallParameter) -> str:
    if not isinstance(value, str):
        raise _invalid(value, parameter=parameter, rule="text")
    if not storable(value):
        raise _unstorable(parameter)
    if len(value) > parameter.max_length:
        raise InvalidInput(
            f"{parameter.name} has {len(value)} characters; give at most {parameter.max_length}, "
            "the essential words first",
            field=parameter.name,
        )
    return value.strip()


def _nested(value: Any, *, parameter: CallParameter) -> Any:
    """An object or a list, or the JSON text of one: some clients quote what is nested."""
    if isinstance(value, str) and not value.strip():
        return ""
    wanted, rule = (dict, "an object") if parameter.kind is ParameterKind.OBJECT else (list, "a list")
    read = _unquoted(value, parameter=parameter) if isinstance(value, str) else value
    if not isinstance(read, wanted):
        raise _invalid(value, parameter=parameter, rule=rule)
    if not all_storable(read):
        raise _unstorable(parameter)
    return read


def _unquoted(text: str, *, parameter: CallParameter) -> Any:
    if nested_too_deep(text.encode("utf-8", "replace")):
        return None
    try:
        return without_nulls(parsed(text))
    except ValueError:
        return None
    except InvalidInput:
        raise InvalidInput(
            f"an object in {parameter.name} has a member twice; give each once", field=parameter.name
        ) from None


def _boolean(value: Any, *, parameter: CallParameter) -> bool:
    """True or false, or the text of one."""
    read = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise _invalid(value, parameter=parameter, rule="true or false")
    return read


def _number(value: Any, *, parameter: CallParameter) -> int | float:
    low, high = parameter.bounds
    whole = parameter.kind is ParameterKind.INTEGER
    rule = f"a {'whole ' if whole else ''}number from {low} to {high}"
    number = None if isinstance(value, str) and not parameter.quoted else _parsed(value)
    if number is None or not low <= number <= high or (whole and not number.is_integer()):
        raise _invalid(value, parameter=parameter, rule=rule)
    return int(number) if whole else number


def _parsed(value: Any) -> float | None:
    """A finite number, or the text of one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _unstorable(parameter: CallParameter) -> InvalidInput:
    return InvalidInput(
        f"{parameter.name} contains a NUL or an unpaired surrogate character; send plain text", field=parameter.name
    )


def _invalid(value: Any, *, parameter: CallParameter, rule: str) -> InvalidInput:
    given = f"{shown(value)}, which is not" if parameter.recorded else "not"
    return InvalidInput(
        f"{parameter.name} is {given} {rule}; give a value such as {_example(parameter)}",
        field=parameter.name,
    )


def _example(parameter: CallParameter) -> str:
    example = parameter.examples[0]
    return json.dumps(example, ensure_ascii=False) if parameter.kind.is_nested else repr(example)
