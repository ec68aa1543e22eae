"""The gate's vocabulary: risks, what they come to, which environments are harmless, and the facts of a run.

`run_risks` and `actions` rate with it, `decision` weighs the result. `RunFacts` is stored with each run. Pure.
"""

import string
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from formulary_catalog.domain.text import split_camel_case, words
from formulary_catalog.settings import HARMLESS_ENVIRONMENTS

VERSION = "1.0.0"
_PRODUCTION = frozenset({"production", "prod", "prd", "live"})


class Severity(StrEnum):
    """How bad a risk is, the worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def is_grave(self) -> bool:
        """Whether it takes a rule or a person to go on."""
        return self in (Severity.CRITICAL, Severity.HIGH)


class GateDecision(StrEnum):
    """What risks come to, the mildest first."""

    ALLOW = "ALLOW"
    DEGRADE = "DEGRADE"
    UNKNOWN = "UNKNOWN"
    BLOCK = "BLOCK"

    @property
    def strength(self) -> int:
        """Greater is stronger."""
        return list(GateDecision).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """One thing that speaks against."""

    severity: Severity
    category: str
    message: str

    def as_json(self) -> dict[str, str]:
        """The risk as the wire has it."""
        return {"severity": self.severity.value, "category": self.category, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """All risks, the worst first, and what they come to."""

    version: str = VERSION
    decision: GateDecision
    risks: tuple[Risk, ...] = ()

    @property
    def has_critical(self) -> bool:
        return any(risk.severity is Severity.CRITICAL for risk in self.risks)

    def as_json(self) -> dict[str, Any]:
        """The report as the wire has it."""
        return {
            "version": self.version,
            "decision": self.decision.value,
            "risks": [risk.as_json() for risk in self.risks],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of a run that is asked for.

    Empty texts are not known. `destructive` names the steps that destroy or interrupt (`commands.destructive_steps`).
    `recent_failures` are of this workflow on this target within 24 hours. `allowed_here`: the labels of the incident
    allow the workflow. `caller_may_target`: the target lies in a namespace in which the caller may run workflows.
    `unproven`: nobody proved who asks. `unauthored`: the webhook did not see who wrote the workflow, though it runs.
    `supervised`: `execution.mode` has a person approve each run.
    `bundled`: what runs, and with which rights in its pods, a bundle or Pipeline of Tekton says. `templated`: a
    WorkflowTemplate of Argo says it.
    `timeout_seconds` 0 is not known. `foreign`: the workflow belongs to a namespace that is neither shared nor that of
    the run, so that one team's steps would run with what another team's namespace holds.
    """

    workflow_name: str
    workflow_namespace: str
    action_type: str
    namespace: str
    caller: str
    target_namespace: str = ""
    risk_level: str = ""
    environment: str = ""
    signal: str = ""
    priority: str = ""
    has_steps: bool = True
    has_rollback: bool = True
    destructive: tuple[str, ...] = ()
    selection_recorded: bool = False
    selection_reasoned: bool = False
    selection_confidence: float | None = None
    recent_failures: int = 0
    caller_may_target: bool = True
    allowed_here: bool = True
    foreign: bool = False
    unproven: bool = False
    unauthored: bool = False
    supervised: bool = False
    bundled: bool = False
    templated: bool = False
    timeout_seconds: float = 0.0
    estimated_seconds: float | None = None

    @property
    def workflow(self) -> str:
        return f"{self.workflow_namespace}/{self.workflow_name}"

    def as_json(self) -> dict[str, Any]:
        """The facts as they are stored."""
        return asdict(self) | {"destructive": list(self.destructive)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RunFacts":
        """The facts that `as_json` wrote; what another release knew besides is left out."""
        known = {field.name for field in fields(cls)}
        kept = {name: value for name, value in stored.items() if name in known}
        return cls(**kept | {"destructive": tuple(stored.get("destructive", ()))})


def is_production_like(text: str) -> bool:
    """Whether a word of the text means production: `prod-eu`, `ProdEU` and `prod1` do, `preprod` does not."""
    parts = (part for word in words(unicodedata.normalize("NFKC", text)) for part in split_camel_case(word))
    return not _PRODUCTION.isdisjoint(part.casefold().rstrip(string.digits) for part in parts)


def gate_report(risks: Iterable[Risk], *, unknown: bool = False) -> GateReport:
    """What risks come to: BLOCK with a critical one, UNKNOWN where too little is known, DEGRADE with a high one."""
    worst = list(Severity)
    ordered = tuple(sorted(risks, key=lambda risk: (worst.index(risk.severity), risk.category, risk.message)))
    found = {risk.severity for risk in ordered}
    if Severity.CRITICAL in found:
        return GateReport(decision=GateDecision.BLOCK, risks=ordered)
    if unknown:
        return GateReport(decision=GateDecision.UNKNOWN, risks=ordered)
    return GateReport(
        decision=GateDecision.DEGRADE if Severity.HIGH in found else GateDecision.ALLOW,
        risks=ordered,
    )


def is_harmless(environment: str, *, harmless: Iterable[str] = HARMLESS_ENVIRONMENTS) -> bool:
    """Whether an environment is one of the list, in any case.

    A text that merely looks like a name of the list is not on it: neither one of full-width or otherwise compatible
    letters, nor one that only folding would make equal, such as a long s (U+017F).
    """
    name = _normal(environment)
    if name != unicodedata.normalize("NFKC", name):
        return False
    return name in {_normal(each) for each in harmless}


def said_of_environment(environment: str) -> str:
    """What is said of one that is not harmless; of production itself there is nothing to add."""
    meaning = "" if _normal(environment) == "production" else ", which counts as production"
    return f"the environment is {environment}{meaning}"


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip()).lower()
