"""Kinds of texts in arguments: those that name or narrow something, and those that are one of fixed choices.

The models of the other modules use them. What they refuse is checked nowhere behind them.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, StringConstraints
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUseDefault, core_schema

from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.visible import first_hidden
from formulary_catalog.domain.workflows.requests import MAX_NAME_LENGTH
from formulary_catalog.operations.arguments.refusals import broken
from formulary_catalog.operations.json_text import shown

_NONE: Mapping[str, str] = {}


def without_hidden(text: str) -> str:
    """The text, if it holds no character that nobody sees."""
    if (hidden := first_hidden(text, field="")) is not None:
        raise broken(hidden.problem)
    return text


Label = Annotated[str, StringConstraints(max_length=MAX_LABEL_LENGTH), AfterValidator(without_hidden)]
"""One value that narrows something, such as a label or a namespace."""
Name = Annotated[str, StringConstraints(max_length=MAX_NAME_LENGTH), AfterValidator(without_hidden)]
"""What a workflow, a signal or an action is called."""


class OneOf:
    """Marks a text that is one of fixed choices, in any case, `-` and `_` alike. A blank one counts as absent.

    The choices are those of the field's `Literal` or enum, where `choices` are not given. `also` are other spellings
    and what they mean; `listed` says whether the schema has the choices.
    """

    def __init__(self, choices: Iterable[str] = (), *, also: Mapping[str, str] = _NONE, listed: bool = True) -> None:
        self._choices = tuple(choices)
        self._also = also
        self._listed = listed

    def has(self, given: str) -> bool:
        """Whether it is one of the choices that were named here, in any spelling."""
        return _folded(given) in {_folded(each) for each in (*self._choices, *self._also)}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = self._choices or tuple(filter(None, _values(source)))
        return core_schema.no_info_plain_validator_function(
            lambda value: choice(value, among=choices, also=self._also),
            json_schema_input_schema=core_schema.literal_schema(list(choices)),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        choices = {"enum": handler(schema)["enum"]} if self._listed else {}
        return {"type": "string", "maxLength": MAX_LABEL_LENGTH, **choices}


def choice(given: Any, *, among: Collection[str], also: Mapping[str, str] = _NONE) -> str:
    """The choice that is given in any spelling. `also` are spellings beside the choices themselves."""
    if not isinstance(given, str):
        raise PydanticCustomError("text", "is no text")
    if not given.strip():
        raise PydanticUseDefault
    if len(given) > MAX_LABEL_LENGTH:
        raise broken(f"has {len(given)} characters; give at most {MAX_LABEL_LENGTH}")
    known = {_folded(spelling): meant for spelling, meant in (*zip(among, among, strict=True), *also.items())}
    if (found := known.get(_folded(given))) is None:
        raise broken(f"{shown(given)} is not known; give one of {', '.join(among)}")
    return found


def _folded(text: str) -> str:
    return text.strip().casefold().replace("-", "_")


def _values(kind: Any) -> list[str]:
    """What an enum, a `Literal`, or either of several has."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)
    return [value for part in get_args(kind) for value in ([part] if isinstance(part, str) else _values(part))]
