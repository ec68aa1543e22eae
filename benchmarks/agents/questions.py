"""What is asked: each case in five styles, under incidents that forbid, allow or leave one remedy. See RULES.md."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import yaml

from agents.remedies import ENVIRONMENTS, HERE, TEAMS, Remedy
from agents.truth import allowed

SCENARIOS = HERE.parent / "itbench" / "scenarios.yaml"
PLAIN, NARROWED, LAST, NOTHING = KINDS = ("plain", "narrowed", "last", "nothing")
STYLES = ("alert", "cause", "pasted", "misled", "red-herring")
_SAMPLED_EACH = 3
"""Shares no factor with the numbers of environments and of further demands, so a sample has all of them."""
FURTHER: tuple[tuple[str, ...], ...] = (
    ("restarts",),
    ("data-loss",),
    ("gitops",),
    ("team",),
    ("gitops", "restarts"),
    ("team", "gitops"),
    ("team", "restarts"),
)


@dataclass(frozen=True)
class Case:
    """A fault, as `cases.yaml` has it."""

    place: int
    id: str
    symptom: str
    alert: str
    cause: str
    evidence: str
    right: frozenset[str]
    group: str


@dataclass(frozen=True)
class Demand:
    """What owners demand of whatever is done to the target."""

    team: str
    environment: str
    further: tuple[str, ...] = ()

    @property
    def terms(self) -> Mapping[str, Any]:
        """As `truth.py` takes it."""
        custom = {key: ["no"] for key in ("restarts", "data-loss") if key in self.further}
        return {
            "environment": self.environment,
            "custom": {"team": [self.team], **custom},
            "strict": ["team"] if "team" in self.further else [],
            "detected": {"gitOpsManaged": "gitops" in self.further},
        }

    @property
    def words(self) -> str:
        """As a person would say it to a model."""
        said = {
            "restarts": "Nothing may restart.",
            "data-loss": "No data may be lost.",
            "gitops": "GitOps owns the objects.",
            "team": f"Only what the {self.team} team itself declares.",
        }
        return " ".join([f"Team {self.team}, {self.environment}.", *(said[each] for each in self.further)])


@dataclass(frozen=True)
class Incident:
    """A case under demands; `right` are the right workflows that are allowed."""

    case: Case
    kind: str
    demand: Demand
    right: frozenset[str]

    @property
    def id(self) -> str:
        return f"rr-{self.case.id}-{self.kind}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The AIAnalysis that tells Formulary of it."""
        terms = self.demand.terms
        found = {"customLabels": terms["custom"], "detectedLabels": terms["detected"]}
        return {
            "apiVersion": "kubernaut.ai/v1alpha1",
            "kind": "AIAnalysis",
            "metadata": {
                "name": self.id,
                "namespace": "incidents",
                "annotations": {"formulary.dev/strict-custom-labels": ",".join(terms["strict"])},
            },
            "spec": {
                "remediationId": self.id,
                "analysisRequest": {
                    "signalContext": {
                        "environment": self.demand.environment,
                        "targetResource": {"kind": "Deployment", "name": "web", "namespace": "incidents"},
                        "enrichmentResults": {"kubernetesContext": found},
                    }
                },
            },
        }


@dataclass(frozen=True)
class Question:
    """An incident, asked about in one style."""

    incident: Incident
    style: str

    @property
    def id(self) -> str:
        return f"{self.incident.id}/{self.style}"

    @cached_property
    def query(self) -> str:
        of = self.incident.case
        styles: Mapping[str, Callable[[], str]] = {
            "alert": lambda: of.alert,
            "cause": lambda: of.cause,
            "pasted": lambda: of.evidence,
            "misled": lambda: f"{of.symptom}. {of.evidence}. Diagnosis: {_rival(of).cause}",
            "red-herring": lambda: f"{of.cause} Also seen: {_unrelated(of).evidence}.",
        }
        return styles[self.style]()


class Judge:
    """Knows of a catalog what is right for a case, and what an incident allows."""

    def __init__(self, remedies: Sequence[Remedy]) -> None:
        self._remedies = {each.name: each for each in remedies}
        self._allowed: dict[Demand, frozenset[str]] = {}

    def allowed(self, demand: Demand) -> frozenset[str]:
        """The names of all workflows that are allowed."""
        if demand not in self._allowed:
            terms = demand.terms
            self._allowed[demand] = frozenset(
                name for name, each in self._remedies.items() if allowed(each.spec, terms)
            )
        return self._allowed[demand]

    def incidents(self, case: Case) -> Iterator[Incident]:
        """Those that a case is asked under."""
        right = {name: each.origin for name, each in self._remedies.items() if each.acts & case.right}
        team, environment = TEAMS[case.place % len(TEAMS)], ENVIRONMENTS[case.place % len(ENVIRONMENTS)]
        turn = case.place % len(FURTHER)
        demands = [Demand(team, environment, each) for each in ((), *FURTHER[turn:], *FURTHER[:turn])]
        left = [{name for name in right if allowed(self._remedies[name].spec, each.terms)} for each in demands]
        fits = {
            PLAIN: [True],
            NARROWED: [bool(some) and some < left[0] for some in left],
            LAST: [len({right[name] for name in some}) == 1 and some < left[0] for some in left],
            NOTHING: [not some and (bool(left[0]) or number > 0) for number, some in enumerate(left)],
        }
        taken: set[int] = set()
        for kind in (PLAIN, LAST, NARROWED, NOTHING):
            place = next((number for number, fit in enumerate(fits[kind]) if fit and number not in taken), None)
            if place is not None:
                taken.add(place)
                yield Incident(case=case, kind=kind, demand=demands[place], right=frozenset(left[place]))


def questions(judge: Judge, among: Sequence[Case]) -> list[Question]:
    """All questions of these cases."""
    return [
        Question(incident=incident, style=style)
        for case in among
        for incident in judge.incidents(case)
        for style in STYLES
    ]


def sample(among: Sequence[Case]) -> list[Case]:
    """Each third case of the file, for what takes too long to be asked of all."""
    return [each for each in among if each.place % _SAMPLED_EACH == 0]


@cache
def cases() -> tuple[Case, ...]:
    """All cases, in the order of the file."""
    written = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))
    scenarios = {f"itbench-{each['id']}": each["query"] for each in yaml.safe_load(SCENARIOS.read_text("utf-8"))}
    return tuple(
        Case(
            place=place,
            id=each["id"],
            symptom=(group := written["classes"][each["class"]])["symptom"],
            alert=f"{group['alert']} {group['severity']}: {group['symptom']}",
            cause=" ".join((each.get("cause") or scenarios[each["id"]]).split()),
            evidence=each["evidence"],
            right=frozenset(each["right"]),
            group=each["class"],
        )
        for place, each in enumerate(written["cases"])
    )


def _rival(case: Case) -> Case:
    """The next case of its class that something else heals, around the end; else the next one."""
    kin = [each for each in _after(case) if each.group == case.group]
    return next((each for each in kin if each.right != case.right), kin[0])


def _unrelated(case: Case) -> Case:
    return next(each for each in _after(case) if each.group != case.group and not each.right & case.right)


def _after(case: Case) -> list[Case]:
    return [*cases()[case.place + 1 :], *cases()[: case.place]]
