"""The target of a call as its arguments name it: what is broken (DESIGN section 6).

Models of calls that may name one inherit from `Targeted`; `audited_call` puts it beside the incident of the call.
"""

from dataclasses import replace
from typing import Any

from pydantic import Field

from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.targets.reference import FORM, TargetReference, parse_target, target_reference
from formulary_catalog.errors import InvalidInput
from formulary_catalog.operations.arguments.base import Arguments, Label

WHOLE = "target"
"""The argument that people and programs give; models get the parts listed."""


class TargetArguments(Arguments):
    """Whose constraints are to be read."""

    target: Label = Field(description=f"What is asked about, as {FORM}.", examples=["shop/Deployment/checkout"])


class Targeted(Arguments):
    """What is broken, in parts as models give it, or in one as people do."""

    target_namespace: Label = Field("", description="Namespace of what is broken.", examples=["shop"])
    target_kind: Label = Field("", description="Its kind.", examples=["Deployment"])
    target_name: Label = Field("", description="Its name.", examples=["checkout"])
    target: Label = Field("", description=f"What is broken, in one: {FORM}.", examples=["shop/Deployment/checkout"])

    @property
    def target_reference(self) -> TargetReference | None:
        """The target; None where none is named.

        Raises:
            InvalidInput: it is incomplete or malformed, or named twice.
        """
        in_parts = target_reference(namespace=self.target_namespace, kind=self.target_kind, name=self.target_name)
        whole = parse_target(self.target) if self.target else None
        if in_parts is not None and whole is not None and in_parts != whole:
            raise InvalidInput("target and target_name name different objects; give one of them", field="target")
        return in_parts or whole

    @property
    def untargeted(self) -> dict[str, Any]:
        """The other arguments."""
        return {name: value for name, value in self if name not in Targeted.model_fields}


def with_target(context: ContextReference, arguments: Arguments) -> ContextReference:
    """The incident of a call with the target that its arguments name, if they may name one.

    Raises:
        InvalidInput: the target is incomplete or malformed, or named twice.
    """
    if not isinstance(arguments, Targeted):
        return context
    return replace(context, target=arguments.target_reference, takes_target=True)
