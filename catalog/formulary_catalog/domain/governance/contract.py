"""Contracts: what platform teams allow, deny, downgrade or tie to evidence. What their rules match is in `rules`.

The operator, the loader and `store.runs.contracts` read objects and files into these models; the CRD derives from them.
`decision` applies them. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from formulary_catalog.domain.governance.window import Window
from formulary_catalog.domain.text import storable
from formulary_catalog.domain.visible import Hidden, first_hidden, visible
from formulary_catalog.domain.workflows.labels import WILDCARD
from formulary_catalog.domain.workflows.manifest import FilledText, Metadata, Model, Text
from formulary_catalog.domain.workflows.problems import problems
from formulary_catalog.errors import InvalidInput

KIND = "GovernanceContract"
MAX_RULES = 200
MAX_VALUES = 100
_NAMED = 5


class Effect(StrEnum):
    """What a rule does to what it matches. Listed from the weakest to the strongest; the strongest wins."""

    ALLOW = "ALLOW"
    REQUIRE_EVIDENCE = "REQUIRE_EVIDENCE"
    REQUIRE_APPROVAL = "REQUIRE_APPROVAL"
    DEGRADE = "DEGRADE"
    DENY = "DENY"
    HALT = "HALT"

    @property
    def strength(self) -> int:
        """Greater is stronger."""
        return list(Effect).index(self)

    @property
    def restricts(self) -> bool:
        return self is not Effect.ALLOW


class ApprovalReason(StrEnum):
    """Reasons for an approval that an ALLOW rule lifts only where it names them, in the words of the gate."""

    BUNDLE = "bundle"
    TEMPLATE = "template"
    REPEAT_FAILURE = "repeat-failure"
    FOREIGN = "foreign"
    UNPROVEN = "unproven"
    UNAUTHORED = "unauthored"


def _no_pattern(value: str) -> str:
    if WILDCARD in value and value != WILDCARD:
        raise ValueError("must be a whole name, or * alone for all of them; patterns are not supported")
    if not storable(value):
        raise ValueError("must not contain a NUL or an unpaired surrogate character")
    return value


_NAME_PATTERN = r"^(\*|[^*]+)$"
Name = Annotated[
    FilledText,
    StringConstraints(max_length=253),
    AfterValidator(_no_pattern),
    Field(json_schema_extra={"pattern": _NAME_PATTERN}),
]
Names = Annotated[list[Name], Field(max_length=MAX_VALUES)]


class Match(Model):
    """What a rule is about. Every member that is given must match; one with several values matches any of them.

    Without members a rule matches everything.
    """

    model_config = ConfigDict(extra="forbid")  # without a misspelt member a rule would match more than it says

    path_prefix: Annotated[str, StringConstraints(max_length=1000), AfterValidator(_no_pattern)] = Field(
        default="",
        description="Path prefix, by whole segments: /workflows/shop matches /workflows/shop/restart but not "
        "/workflows/shopping. The path of a run is /workflows/<namespace>/<name>.",
    )
    workflows: Names = Field(
        default=[],
        description="Workflows as namespace/name or name; * for every workflow. A name alone restricts in every "
        "namespace, and allows in the namespace of the contract only.",
    )
    action_types: Names = Field(default=[], description="Action types, such as RestartPod. Case is ignored.")
    namespaces: Names = Field(
        default=[],
        description="Namespaces. A restricting rule matches if the run or its target is in one of them, an ALLOW rule "
        "only if both are.",
    )
    environments: Names = Field(default=[], description="Environments, such as production. Case is ignored.")
    signals: Names = Field(
        default=[],
        description="Signals of incidents, as the AIAnalysis or alert names them, such as OOMKilled. Case is ignored.",
    )
    risk_levels: list[Literal["low", "medium", "high", "*"]] = Field(
        default=[], max_length=4, description="Risk levels of workflows."
    )
    callers: Names = Field(
        default=[], description="Requesters, such as system:serviceaccount:shop:holmesgpt. Compared exactly."
    )
    during: Window | None = Field(default=None, description="Time window of the rule. Defaults to always.")


_LIFTS_NOTHING = "only an ALLOW rule lifts reasons for an approval; leave lifts out, or use ALLOW"
_HALTS_ALL = "a HALT rule takes no match, it stops all that its contract holds for; leave match out, or use DENY"


class Rule(Model):
    """One rule of a contract."""

    model_config = ConfigDict(
        extra="forbid",
        # The API server refuses it at once, with `not` also one before 1.25: who stops everything must not have to
        # read a condition to see that it failed.
        json_schema_extra={
            "x-kubernetes-validations": [
                {"rule": "self.effect != 'HALT' || !has(self.match)", "message": _HALTS_ALL},
            ],
            "not": {"required": ["match"], "properties": {"effect": {"enum": [Effect.HALT.value]}}},
        },
    )

    id: Annotated[FilledText, StringConstraints(max_length=253)] = Field(
        description="Name of the rule in decisions and in the audit trail. Unique in the contract."
    )
    effect: Effect = Field(
        description="HALT is the emergency stop: all runs end and none starts, without exception. DENY refuses the "
        "run. DEGRADE turns it into a dry run. REQUIRE_APPROVAL requires an approval, whatever ALLOW rules say. "
        "REQUIRE_EVIDENCE requires a recorded selection with reasoning, or an approval. By default a person approves "
        "every run except low-risk runs outside production; ALLOW lifts that, except for the reasons that "
        "`lifts` has to name. The strongest matching effect wins, in this order. The order of rules does not matter."
    )
    match: Match = Field(default=Match(), description="Runs that the rule applies to. Defaults to all.")
    lifts: Annotated[list[ApprovalReason], Field(max_length=len(ApprovalReason))] = Field(
        default=[],
        description="Reasons for an approval that an ALLOW rule lifts in addition to risk level and environment. "
        "bundle, template, repeat-failure and foreign are also lifted where match names the workflow; unproven and "
        "unauthored only here.",
    )
    rationale: Annotated[Text, StringConstraints(max_length=2000)] = Field(
        default="", description="Why the rule exists. Shown to everybody whose run it affects."
    )

    @model_validator(mode="after")
    def _halts_all(self) -> "Rule":
        if self.effect is Effect.HALT and self.match != Match():
            raise ValueError(_HALTS_ALL)
        if self.lifts and self.effect is not Effect.ALLOW:
            raise ValueError(_LIFTS_NOTHING)
        return self


def _with_unique_ids(rules: list[Rule]) -> list[Rule]:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise ValueError(f"the id {rule.id!r} is used twice; give each rule an id of its own")
        seen.add(rule.id)
    return rules


class Scope(Model):
    """What a contract is about, for its readers."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[Text, StringConstraints(max_length=253)] = Field(
        default="", description="Name of the subject, such as payments."
    )


class ContractSpec(Model):
    """Rules of the contract. A contract in the shared catalog namespace applies to every run, others apply to runs
    in their own namespace.
    """

    model_config = ConfigDict(extra="forbid")

    scope: Scope = Field(default=Scope(), description="Subject of the contract, for readers.")
    rules: Annotated[list[Rule], Field(max_length=MAX_RULES), AfterValidator(_with_unique_ids)] = Field(
        description="The rules, in any order."
    )


class ContractManifest(Model):
    """One GovernanceContract manifest."""

    api_version: Literal["formulary.dev/v1alpha1"]
    kind: Literal["GovernanceContract"]
    metadata: Metadata
    spec: ContractSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A contract that is in force."""

    name: str
    namespace: str = ""
    scope: str = ""
    rules: tuple[Rule, ...] = ()

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def contract(spec: Mapping[str, Any], *, name: str, namespace: str) -> Contract:
    """A contract by the spec of its object, in camelCase; what people are shown of it is `visible`.

    Rules that an earlier release took stay in force, whatever their texts hide; see `hidden_in_contract`.

    Raises:
        InvalidInput: it breaks a rule; one line names each field, value and rule.
    """
    try:
        read = ContractSpec.model_validate(spec)
    except ValidationError as error:
        field, message = problems(error, model=ContractSpec)
        raise InvalidInput(message, field=field) from None
    rules = tuple(
        rule.model_copy(update={"id": visible(rule.id), "rationale": visible(rule.rationale)}) for rule in read.rules
    )
    return Contract(name=name, namespace=namespace, scope=visible(read.scope.name), rules=rules)


def unknown_notes(contracts: Sequence[Contract]) -> list[str]:
    """What an answer says of contracts whose rules this release does not know."""
    if not contracts:
        return []
    names = ", ".join(map(str, contracts[:_NAMED]))
    more = f" and {len(contracts) - _NAMED} more" if len(contracts) > _NAMED else ""
    return [f"rules of {names}{more} are not known to this release and left out; update Formulary to read them"]


def hidden_in_contract(spec: Mapping[str, Any]) -> Hidden | None:
    """What the texts of a valid new spec hide from who reads them. Nobody is kept from a HALT for that."""
    halts = any(rule.get("effect") == Effect.HALT for rule in spec["rules"])
    return None if halts else first_hidden(spec, field="spec")
