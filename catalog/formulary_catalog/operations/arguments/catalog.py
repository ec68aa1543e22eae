"""Arguments of the catalog's tools and endpoints: searching, reading a workflow, recording a choice.

The MCP tools, REST and the console read calls with these models. Tool schemas and OpenAPI derive from them, so a bound
is the same in all of them. The fields of labels come from `LABEL_DIMENSIONS`, in every spelling that clients use.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema

from formulary_catalog.domain.search.request import (
    DEFAULT_TOP_K,
    MAX_LABEL_VALUES,
    MAX_QUERY_LENGTH,
    MAX_REASONING_LENGTH,
    MAX_TOP_K,
)
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.domain.workflows.labels import DIMENSIONS, LABEL_DIMENSIONS, Dimension, fold_all, wire_name
from formulary_catalog.operations.arguments.base import Arguments, Label, Unquoted, without_hidden
from formulary_catalog.operations.arguments.refusals import broken
from formulary_catalog.operations.arguments.target import Targeted

MAX_KEYWORDS_LENGTH = 1000
CLUSTER = "label_cluster"
_A = TypeVar("_A", bound=Arguments)

SearchId = Annotated[
    str,
    Field(
        max_length=MAX_LABEL_LENGTH,
        description="Of the search that found it; its target applies.",
        examples=["0b8f6c1e-6f0e-4f0e-9a55-0d2f2c7f8a10"],
    ),
]


class _Named(Arguments):
    workflow_id: str = Field(
        max_length=400,
        description="workflow_id, uri or version_id of an answer, or name@version.",
        examples=["oom-raise-memory-limit"],
    )
    version: str = Field(
        "",
        max_length=MAX_LABEL_LENGTH,
        description="Default: the latest.",
        examples=["1.0.0"],
    )


class DetailsArguments(Targeted, _Named):
    """Which workflow is to be read."""

    search_id: SearchId = ""


class SelectionArguments(Targeted, _Named):
    """Which workflow was chosen, and why."""

    reasoning: str = Field(
        max_length=MAX_REASONING_LENGTH,
        description="Why it fits better than the others.",
        examples=["The limit is the only cap; the change is reversible."],
    )
    search_id: SearchId = ""
    confidence: float | None = Field(
        None, ge=0, le=1, description="How sure you are of the choice, 0 to 1.", examples=[0.9]
    )


def as_list(value: Any) -> Any:
    """One value as a list of it."""
    return value if isinstance(value, list) else [value]


def list_schema(**bounds: int) -> dict[str, Any]:
    """Of a text or a list of texts within these bounds."""
    items = {"type": "string", **bounds}
    return items | {"type": ["string", "array"], "items": items, "maxItems": MAX_LABEL_VALUES}


def _filled(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _split(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The words between commas, each as a label is, and no more than a label has values."""
    words = _filled(tuple(part.strip() for text in texts for part in text.split(",")))
    if len(words) > MAX_LABEL_VALUES:
        raise broken(f"has {len(words)} entries; give at most {MAX_LABEL_VALUES}")
    if (longest := max(map(len, words), default=0)) > MAX_LABEL_LENGTH:
        raise broken(f"has an entry of {longest} characters; give at most {MAX_LABEL_LENGTH}")
    return tuple(map(without_hidden, words))


Labels = Annotated[
    tuple[Label, ...],
    Field(max_length=MAX_LABEL_VALUES),
    BeforeValidator(as_list),
    AfterValidator(_filled),
    WithJsonSchema(list_schema(maxLength=MAX_LABEL_LENGTH)),
]
"""One value or several of which any satisfies, as a program gives them."""
Words = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=MAX_KEYWORDS_LENGTH)], ...],
    Field(max_length=MAX_LABEL_VALUES),
    BeforeValidator(as_list),
    AfterValidator(_split),
    WithJsonSchema({"type": "string", "maxLength": MAX_KEYWORDS_LENGTH}),
]
"""Words between commas, or a list of them."""
Keywords = Annotated[
    Words,
    Field(
        description="No workflow with one of these words, separated by commas.",
        examples=["restart, delete"],
    ),
]


def labelled(*, kind: Any = Label, prefix: str = "label_") -> Callable[[type[_A]], type[_A]]:
    """Adds a field for each label dimension to a model, in every spelling of it."""

    def decorated(model: type[_A]) -> type[_A]:
        fields: dict[str, Any] = {
            prefix + each.name: (kind, _label(each, prefix=prefix, kind=kind)) for each in LABEL_DIMENSIONS
        }
        return create_model(model.__name__, __base__=model, __module__=model.__module__, **fields)

    return decorated


def _label(dimension: Dimension, *, prefix: str, kind: Any) -> Any:
    bare = (wire_name(dimension.name), dimension.name)
    flat = [f"label{dot}{name}" for dot in "._" for name in bare]
    suggested: JsonDict | None = {"enum": list(dimension.suggested)} if dimension.suggested and kind is Label else None
    return Field(
        "" if kind is Label else (),
        validation_alias=AliasChoices(*(flat if prefix else [*bare, *flat])),
        description=dimension.description,
        examples=list(dimension.examples),
        json_schema_extra=suggested,  # guidance for a model: other values are taken too
    )


@labelled()
class _LabelledQuery(Arguments):
    query: str = Field(
        max_length=MAX_QUERY_LENGTH,
        description="'<signal_type> <severity> [keywords]', or the root cause in plain words.",
        examples=["OOMKilled critical"],
    )


@labelled(prefix="")
class Filters(Arguments):
    """The `filters` object of a search, as DD-HAPI-001 has it: the labels without their prefix."""


class SearchFields(Arguments):
    """What a search asks for beside its query and labels, which stand before: listed schemas begin with them.

    The second names are those of ADR-0004, for clients of its `kdd_search`.
    """

    exclude_keywords: Keywords = ()
    min_confidence: float = Field(
        0.0,
        validation_alias=AliasChoices("min_confidence", "score_threshold"),
        ge=0,
        le=1,
        description="No results below this confidence; 0 without it.",
        examples=[0.5],
    )
    top_k: int | None = Field(
        None,
        validation_alias=AliasChoices("top_k", "limit"),
        ge=1,
        le=MAX_TOP_K,
        description=f"How many results; without it at most {DEFAULT_TOP_K}, those that fit.",
        examples=[3],
    )
    action_type: Label = Field("", description="Only this action.", examples=["IncreaseMemoryLimits"])
    namespace: Label = Field(
        "",
        validation_alias=AliasChoices("namespace", "domain", "domains"),
        description="Only workflows of this namespace.",
        examples=["formulary"],
    )
    keywords: Words = Field(
        (),
        validation_alias=AliasChoices("keywords", "tags"),
        description="Only workflows with one of these words.",
        examples=["memory, limit"],
    )

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """The values that were given for each label dimension."""
        return _given({name: getattr(self, f"label_{name}") for name in DIMENSIONS})


class SearchArguments(SearchFields, Targeted, _LabelledQuery):
    """What is searched for. The fields `label_…` come from the label dimensions."""

    # Accepted and not listed: the same labels, for clients that nest them.
    filters: Annotated[SkipJsonSchema[Filters], Unquoted] = Field(
        Filters(), examples=[{"environment": "production", "priority": "P0"}]
    )

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """The values that were given for each label dimension, flat or in `filters`."""
        return _given({name: getattr(self, f"label_{name}") or getattr(self.filters, name) for name in DIMENSIONS})

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for name in self.filters.model_fields_set.intersection(DIMENSIONS):
            flat, nested = getattr(self, f"label_{name}"), getattr(self.filters, name)
            if flat and nested and _folded(flat) != _folded(nested):
                raise broken("is given twice, in filters with another value; give it once", name=f"label_{name}")
        return self


def _folded(given: str | tuple[str, ...]) -> frozenset[str]:
    """The values of a label as they are compared: in any order and case."""
    return fold_all((given,) if isinstance(given, str) else given)


def _given(values: Mapping[str, str | tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: (value,) if isinstance(value, str) else value for name, value in values.items() if value}
