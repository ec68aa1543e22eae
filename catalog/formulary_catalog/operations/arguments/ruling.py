"""Arguments of what people say about runs as a whole: halts, and contracts that are tried before they are applied."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints

from formulary_catalog.domain.entry import ContractEntry
from formulary_catalog.domain.governance.halting import MAX_REASON
from formulary_catalog.domain.text import MAX_LABEL_LENGTH
from formulary_catalog.loading.manifests import MAX_CHARACTERS, given_contract
from formulary_catalog.operations.arguments.base import Arguments
from formulary_catalog.operations.arguments.browsing import Namespace
from formulary_catalog.operations.arguments.refusals import broken
from formulary_catalog.services.governance.rehearsing import DEFAULT_SHOWN, DEFAULT_SINCE, MAX_SHOWN

MANIFEST_EXAMPLE = (
    "apiVersion: formulary.dev/v1alpha1\nkind: GovernanceContract\nmetadata: {name: freeze, namespace: shop}\n"
    "spec: {rules: [{id: freeze, effect: DENY, match: {environments: [production]}}]}\n"
)


def _filled(given: Any) -> Any:
    """Empty is a name that got lost on the way, not everywhere."""
    if isinstance(given, str) and not given.strip():
        raise broken("must not be empty; omit it for all namespaces")
    return given


_Where = Annotated[
    str,
    BeforeValidator(_filled),
    Field(
        max_length=MAX_LABEL_LENGTH,
        description="Namespace of the runs; all namespaces without it. An empty one is refused.",
        examples=["payments"],
    ),
]


class HaltsArguments(Arguments):
    """Which halts are to be listed."""

    namespace: Namespace = ""


class HaltArguments(Arguments):
    """What is to be halted, and why."""

    namespace: _Where = ""
    reason: str = Field(
        max_length=MAX_REASON,
        description="Reason, recorded, and shown in every refusal of a run.",
        examples=["restarts make the outage worse"],
    )


class LiftArguments(Arguments):
    """Which halt is to be lifted."""

    namespace: _Where = ""
    reason: str = Field(
        "", max_length=MAX_REASON, description="Reason, recorded in the audit trail.", examples=["the outage is over"]
    )


class RehearseArguments(Arguments):
    """The contract that is to be tried, and on which decisions."""

    manifest: Annotated[str, StringConstraints(strip_whitespace=False)] = Field(
        max_length=MAX_CHARACTERS,
        exclude=True,
        description="A GovernanceContract as YAML or JSON.",
        examples=[MANIFEST_EXAMPLE],
    )
    namespace: str = Field(
        "",
        max_length=MAX_LABEL_LENGTH,
        description="Namespace of a manifest that names none; the shared one without it.",
        examples=["shop"],
    )
    since: str = Field(
        DEFAULT_SINCE,
        max_length=40,
        description=f"Decisions since then: 24h, 30d, 2026-11-22T10:00Z; {DEFAULT_SINCE} without it.",
        examples=["30d"],
    )
    limit: int = Field(
        DEFAULT_SHOWN,
        ge=1,
        le=MAX_SHOWN,
        description=f"Maximum number of changed runs to list; {DEFAULT_SHOWN} without it. All are counted.",
        examples=[100],
    )

    @classmethod
    def with_contract(cls, given: Mapping[str, Any], *, shared_namespace: str) -> tuple[Self, ContractEntry]:
        """The arguments and the contract in their manifest.

        Raises:
            InvalidInput: an argument is refused, or the manifest is not that of one valid contract.
        """
        asked = cls.read(given)
        namespace = asked.namespace or shared_namespace
        return asked, given_contract(asked.manifest, name="manifest", default_namespace=namespace)
