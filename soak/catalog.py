"""What the soak serves and asks: workflows that change again and again, and incidents that allow some of them each."""

import random
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.incidents import RequestContext, constraints_of
from formulary_catalog.domain.workflows.labels import Constraints
from support import manifest

NAMESPACE = "formulary"
NAMES = tuple(f"remedy-{number:02d}" for number in range(48))
TEAMS = ("ants", "bees", "cats", "dogs")
SIGNALS = ("OOMKilled", "CrashLoopBackOff", "Evicted")
ENVIRONMENTS = ("production", "staging")
_SUSPENDED_EVERY = 6
_SYMPTOMS = ("memory", "restart", "disk", "probe", "image", "quota", "latency", "certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query, and the labels that are given with it; what it merely mentions demands nothing (DESIGN section 4)."""

    text: str
    labels: dict[str, str]

    @property
    def values(self) -> dict[str, frozenset[str]]:
        """What the labels demand."""
        return {dimension: frozenset({value.lower()}) for dimension, value in self.labels.items()}

    @property
    def arguments(self) -> dict[str, str]:
        """The labels as a tool and a request body take them."""
        return {f"label.{dimension.replace('_', '-')}": value for dimension, value in self.labels.items()}


QUESTIONS = tuple(
    Question(text=f"{signal} critical {symptom}", labels=labels)
    for signal in SIGNALS
    for symptom in _SYMPTOMS
    for labels in ({}, {"signal_type": signal, "severity": "critical"})
) + tuple(Question(text=f"pods suffer from {symptom} since the rollout", labels={}) for symptom in _SYMPTOMS)


def state(name: str, number: int) -> dict[str, Any] | None:
    """The document of a workflow after so many edits; None where it is suspended then."""
    if number % _SUSPENDED_EVERY == _SUSPENDED_EVERY - 1:
        return None
    chance = random.Random(f"{name} {number}")
    custom: dict[str, Any] = {"team": chance.choice([*TEAMS, *TEAMS, list(TEAMS[:2]), "*"])}
    if chance.random() < 0.2:
        custom = {}
    return manifest.workflow(
        name,
        version=f"1.0.{number}",
        what=f"Cures {chance.choice(_SYMPTOMS)} and {chance.choice(_SYMPTOMS)} of a pod.",
        labels={
            "signalType": chance.sample(SIGNALS, chance.choice([1, 1, 2])),
            "severity": [chance.choice(["critical", "critical", "high"])],
            "environment": chance.sample(ENVIRONMENTS, chance.choice([1, 2])),
            "component": ["v1/Pod"],
            "priority": "*",
        },
        customLabels=custom,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What one client works on."""

    context: RequestContext

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Remediation-Id": self.context.remediation_id}

    def demands(self, question: Question | None) -> Constraints:
        """What must hold of all that is returned to it."""
        appended = constraints_of(self.context, strict_keys=frozenset())
        return Constraints(
            values={**(question.values if question else {}), **appended.values},
            custom=appended.custom,
            strict_keys=appended.strict_keys,
        )


def incident(number: int) -> Incident:
    """That of a client: its team's, in one environment, and for every third client strictly its team's."""
    team = TEAMS[number % len(TEAMS)]
    return Incident(
        context=RequestContext(
            namespace="shop",
            name=f"incident-{number}",
            remediation_id=f"rr-soak-{number}",
            environment=ENVIRONMENTS[number // len(TEAMS) % len(ENVIRONMENTS)],
            custom_labels={"team": (team,)},
            strict_keys=frozenset({"team"}) if number % 3 == 0 else frozenset(),
        )
    )
