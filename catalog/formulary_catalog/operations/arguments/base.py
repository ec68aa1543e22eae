"""What a call takes: the base of one pydantic model for each tool and endpoint (DESIGN section 7).

The modules of this package and of the subjects have the models; `edges/mcp`, `edges/rest` and `edges/console` read
calls with them. A field is plain pydantic: its type and bounds, a description, an example. The base adds what real
clients need: names in any spelling, nulls and blanks for what a model left out, numbers as text, objects as JSON text.
It is strict in meaning: an unknown name is refused, with the nearest one. Texts that name or narrow something have
kinds of their own; what those refuse is checked nowhere behind them.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    Strict,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic import model_validator as validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticUseDefault, core_schema

from formulary_catalog.domain.text import MAX_LABEL_LENGTH, all_storable
from formulary_catalog.domain.visible import first_hidden
from formulary_catalog.domain.workflows.requests import MAX_NAME_LENGTH
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.input_schema import fields_of, input_schema, model_in
from formulary_catalog.operations.arguments.refusals import UNKNOWN, UNSTORABLE, broken, refusal
from formulary_catalog.operations.json_text import nested_too_deep, parsed, shown
from formulary_catalog.settings import LabelSpelling

_NONE: Mapping[str, str] = {}
_NUMBERS = (int, float, int | None, float | None)
_NOTHING = frozenset({"null", "none", "undefined"})
"""What models write for what they leave out."""


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


class Arguments(BaseModel):
    """The arguments of a call, checked. A field with `repr=False` may be secret: messages and trail have names at most.

    One with `exclude=True` leaves nothing in the trail at all.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        str_strip_whitespace=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=False,  # `_by_field` knows the other spellings, and that two of them are one argument
        loc_by_alias=False,
    )

    @classmethod
    def read(cls, given: Mapping[str, Any], *, spelling: LabelSpelling = LabelSpelling.DOTTED) -> Self:
        """The arguments of a call. Messages name them as they were given, and spell labels as the tool list does.

        Raises:
            InvalidInput: an argument is unknown, missing, of a wrong type or out of bounds.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise refusal(error, model=cls, spelling=spelling, given=given) from None

    @property
    def page(self) -> dict[str, Any]:
        """The arguments as lists take them: the cursor is that of the page before."""
        return {"after" if name == "cursor" else name: value for name, value in self}

    @classmethod
    def recordable(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Refused arguments as the trail may keep them: of unknown ones, which may be custom labels, the names."""
        kept: dict[str, Any] = {}
        unknown: list[str] = []
        for spelling, value in given.items():
            name = fields_of(cls).get(spelling)
            field = cls.model_fields[name] if name else None
            inner = model_in(field) if field else None
            if field is None or (inner and value is not None and not isinstance(value, Mapping)):
                unknown.append(spelling)
            elif inner and value is not None and issubclass(inner, Arguments):
                kept[spelling] = inner.recordable(value)
            elif not inner and not field.exclude:
                kept[spelling] = value if field.repr else _names(value)
        return kept | {"unknown_arguments": unknown} if unknown else kept

    @validator(mode="before")
    @classmethod
    def _by_field(cls, given: Any) -> Any:
        """What was given under the names of the fields, without what counts as absent."""
        if not isinstance(given, Mapping):
            return given
        fields, named = fields_of(cls), dict[str, Any]()
        for spelling, value in given.items():
            if (name := fields.get(spelling)) is None:
                raise PydanticCustomError(UNKNOWN, "is unknown")
            if value is None:
                continue
            if not all_storable(value) and model_in(cls.model_fields[name]) is None:
                raise broken(UNSTORABLE, name=name)
            if isinstance(value, str) and not value.strip() and cls.model_fields[name].is_required():
                continue
            if isinstance(value, bool) and cls.model_fields[name].annotation in _NUMBERS:  # else True were 1
                raise PydanticCustomError("boolean", "is no boolean", {"name": name, "value": value})
            if name in named and named[name] != value:
                raise broken("is given twice with different values; give it once", name=name)
            named[name] = value
        return named

    @classmethod
    def as_meant(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments without nulls and words for nothing, a text in place of a list of one: what models write."""
        meant: dict[str, Any] = {}
        for spelling, value in without_nulls(given).items():
            name, single = fields_of(cls).get(spelling, ""), _single(value)
            inner = model_in(cls.model_fields[name]) if name else None
            if inner is not None and issubclass(inner, Arguments) and isinstance(value, Mapping):
                meant[spelling] = inner.as_meant(value)
            elif not name or not cls._says_nothing(name, single):
                meant[spelling] = single if name and cls._takes_text(name) else value
        return meant

    @classmethod
    def _says_nothing(cls, name: str, value: object) -> bool:
        """Whether it is a word for nothing. That of a flag is refused: a run to be tried must not become a real one."""
        if not isinstance(value, str) or value.strip().casefold() not in _NOTHING:
            return False
        field = cls.model_fields[name]
        return field.annotation is not bool and not any(
            each.has(value) for each in field.metadata if isinstance(each, OneOf)
        )

    @classmethod
    def _takes_text(cls, name: str) -> bool:
        member: Mapping[str, Any] = input_schema(cls, spelling=LabelSpelling.SNAKE)["properties"].get(name) or {}
        return member.get("type") == "string"


def _single(value: Any) -> Any:
    """The text of a list of one text: some models wrap it."""
    match value:
        case [str(text)]:
            return text
    return value


def _names(value: object) -> list[str]:
    return sorted(map(str, value)) if isinstance(value, Mapping) else []


def without_nulls(value: Any) -> Any:
    """The value without nulls at any depth; a list of nothing but nulls goes with them.

    Clients of MCP send them for what a model left out, a list of one null for an optional list.
    """
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if not _is_null(item)}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if not _is_null(item)]
    return value


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, list) and bool(value) and all(_is_null(item) for item in value))


def _unquoted(value: Any) -> Any:
    """An object or a list, or the JSON text of one: some clients quote what is nested."""
    if isinstance(value, str):
        if not value.strip():
            raise PydanticUseDefault
        if nested_too_deep(value.encode("utf-8", "replace")):
            return value
        try:
            value = without_nulls(parsed(value))
        except ValueError:
            return value
        except InvalidInput:
            raise broken("has an object with a member twice; give each once") from None
    if not all_storable(value):
        raise broken(UNSTORABLE)
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value := _unquoted(value), dict):
        raise PydanticCustomError("object", "is no object")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value := _unquoted(value), list):
        raise PydanticCustomError("list", "is no list")
    return value


def _flag(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.strip().lower(), value) if isinstance(value, str) else value


Flag = Annotated[bool, Strict(), BeforeValidator(_flag)]
"""True or false, or the text of one; a plain `bool` takes 1 and `yes` as well."""
Object = Annotated[dict[str, Any], PlainValidator(_object), WithJsonSchema({"type": "object"})]
"""An object whose taker checks what is in it; `json_schema_extra` describes that."""
Items = Annotated[list[Any], PlainValidator(_list), WithJsonSchema({"type": "array"})]
"""A list, likewise."""
Unquoted = BeforeValidator(_unquoted)
"""For a field that is a model of its own: its JSON text is taken as well."""
