"""Which labels of a target and its namespace become constraints: the file of `FORMULARY_CONTEXT_FILE`.

It is checked when a process starts; the message names the field that is wrong. What a file leaves out is the default.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from formulary_catalog.domain.workflows.labels import STANDARD_KEYS
from formulary_catalog.domain.workflows.problems import problems
from formulary_catalog.errors import StartupError

PREFIX = "constraint.formulary.dev/"
_LABEL = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/")


def _label(key: str) -> str:
    if not _LABEL.fullmatch(key):
        raise PydanticCustomError("label", "is no key of a label; give one such as formulary.dev/environment")
    return key


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise PydanticCustomError("prefix", "is no prefix of labels; give one that ends in /, such as " + PREFIX)
    return text


_LabelKey = Annotated[str, AfterValidator(_label)]


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class LabelSource(_Part):
    """The labels that give one constraint; the first one that an object has counts.

    `required`: a namespace without any of them is answered with an error.
    """

    labels: list[_LabelKey] = Field(min_length=1)
    required: bool = False


class CustomLabels(_Part):
    """Custom labels: each label with the prefix is one, named by what follows it; others are named here."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, LabelSource]

    prefix: Annotated[str, AfterValidator(_prefix)] = PREFIX

    @property
    def named(self) -> Mapping[str, LabelSource]:
        """The custom labels that have other names as labels."""
        return self.__pydantic_extra__


def _labels(*names: str, required: bool = False) -> LabelSource:
    return LabelSource(labels=list(names), required=required)


class ContextMapping(_Part):
    """From labels to constraints."""

    environment: LabelSource = _labels("formulary.dev/environment", "environment", "env", required=True)
    priority: LabelSource = _labels("formulary.dev/priority", "priority")
    business_category: LabelSource = _labels("formulary.dev/business-category")
    risk_tolerance: LabelSource = _labels("formulary.dev/risk-tolerance")
    custom_labels: CustomLabels = CustomLabels(team=_labels("team"))
    strict: list[str] = sorted(STANDARD_KEYS)

    @property
    def dimensions(self) -> Mapping[str, LabelSource]:
        """The labels of each dimension, by the field of a context that they fill."""
        return {
            name: getattr(self, name) for name in ("environment", "priority", "business_category", "risk_tolerance")
        }

    def custom(self, labels: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """The custom labels of one object: key, value, and the label that says so; one with the prefix comes first."""
        prefix = self.custom_labels.prefix
        for label, value in sorted(labels.items()):
            if label.startswith(prefix) and value:
                yield label.removeprefix(prefix), value, label
        for key, source in self.custom_labels.named.items():
            if (found := first_label(source, labels)) is not None:
                yield key, labels[found], found


DEFAULT_MAPPING = ContextMapping()


def first_label(source: LabelSource, labels: Mapping[str, str]) -> str | None:
    """The first of the labels of a constraint that has a value; None where none has."""
    return next((label for label in source.labels if labels.get(label)), None)


def context_mapping(document: Any, *, source: str) -> ContextMapping:
    """The mapping that a file holds; an empty file has the defaults.

    Raises:
        StartupError: a field breaks a rule; the message names it.
    """
    if document is None:
        return DEFAULT_MAPPING
    try:
        return ContextMapping.model_validate(document)
    except ValidationError as error:
        _, said = problems(error, model=ContextMapping)
        raise StartupError(f"{source}: {said}; correct the mapping of labels") from None
