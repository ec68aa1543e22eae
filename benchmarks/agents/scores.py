"""What choosers do with what an arm offers, counted; shares come with bootstrap intervals over cases."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agents.arms import Offer
from agents.choosers import CHOOSERS, HOSTILE, Choice
from agents.questions import Incident, Judge, Question

BELIEVED = 0.5
RESAMPLES = 1000
ATTEMPTS = 3
_SEED = 53

Accepts = Callable[[Incident, str], tuple[bool, int]]
Words = Mapping[str, frozenset[str]]
Key = tuple[int, str, str]
"""Workflows, arm and chooser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one chooser did with one question; `chosen` is empty where it abstained."""

    case: str
    chosen: str
    answerable: bool
    right: bool
    forbidden: bool
    offered: bool
    tokens: int
    listed: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The outcomes of one case, counted: of one arm with one chooser on one catalog."""

    size: int
    arm: str
    chooser: str
    case: str
    questions: int
    answerable: int
    right: int
    forbidden: int
    abstained: int
    offered: int
    tokens: int
    listed: int
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share with its 95 % interval; `of` is how many questions it is of."""

    mean: float
    low: float
    high: float
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One arm with one chooser on one catalog."""

    size: int
    arm: str
    chooser: str
    right: Share
    forbidden: Share
    abstained: Share
    offered: Share
    tokens: float
    listed: float
    calls: float

    @property
    def key(self) -> Key:
        return self.size, self.arm, self.chooser


def outcomes(
    answered: Iterable[tuple[Question, Offer]], chooser: str, *, judge: Judge, words: Words, accepts: Accepts | None
) -> Iterator[Outcome]:
    """What a chooser does with each question. With `accepts` each choice is tried, as in F."""
    for question, offer in answered:
        incident = question.incident
        allowed = judge.allowed(incident.demand)
        choice = Choice(
            question=question.id,
            query=question.query,
            offered=offer.names,
            words=words,
            allowed=allowed,
            right=incident.right,
            ranked=offer.ranked,
        )
        chosen, tokens, calls = "", 0, 0
        if offer.names and (offer.confidence >= BELIEVED or chooser == HOSTILE):
            if accepts is None:
                chosen = CHOOSERS[chooser](choice)
            else:
                chosen, tokens, calls = _accepted(choice, chooser, incident, accepts)
        yield Outcome(
            case=incident.case.id,
            chosen=chosen,
            answerable=bool(incident.right),
            right=chosen in incident.right,
            forbidden=bool(chosen) and chosen not in allowed,
            offered=bool(incident.right & {*offer.names}),
            tokens=offer.tokens + tokens,
            listed=offer.listed,
            calls=offer.calls + calls,
        )


def tallies(found: Iterable[Outcome], *, size: int, arm: str, chooser: str) -> list[Tally]:
    """One for each case, in the order in which they came."""
    cases: dict[str, list[Outcome]] = {}
    for each in found:
        cases.setdefault(each.case, []).append(each)
    return [
        Tally(
            size=size,
            arm=arm,
            chooser=chooser,
            case=case,
            questions=len(of),
            answerable=sum(each.answerable for each in of),
            right=sum(each.right for each in of),
            forbidden=sum(each.forbidden for each in of),
            abstained=sum(not each.answerable and not each.chosen for each in of),
            offered=sum(each.offered for each in of),
            tokens=sum(each.tokens for each in of),
            listed=sum(each.listed for each in of),
            calls=sum(each.calls for each in of),
        )
        for case, of in cases.items()
    ]


def scores(counted: Iterable[Tally]) -> list[Score]:
    """One for each catalog, arm and chooser."""
    kinds: dict[tuple[int, str, str], list[Tally]] = {}
    for each in counted:
        kinds.setdefault((each.size, each.arm, each.chooser), []).append(each)
    return [_score(each, size=size, arm=arm, chooser=chooser) for (size, arm, chooser), each in kinds.items()]


def on_the_cases_of(counted: Sequence[Tally], *, ours: str) -> dict[Key, Score]:
    """For each catalog, arm and chooser, one arm's score with that chooser on the cases that the other was asked."""
    cases: dict[Key, set[str]] = {}
    for each in counted:
        cases.setdefault((each.size, each.arm, each.chooser), set()).add(each.case)
    by_kind: dict[tuple[int, str], list[Tally]] = {}
    for each in counted:
        if each.arm == ours:
            by_kind.setdefault((each.size, each.chooser), []).append(each)
    return {
        (size, arm, chooser): _score(
            [each for each in by_kind[size, chooser] if each.case in among], size=size, arm=ours, chooser=chooser
        )
        for (size, arm, chooser), among in cases.items()
    }


def _score(of: Sequence[Tally], *, size: int, arm: str, chooser: str) -> Score:
    questions = sum(each.questions for each in of)
    return Score(
        size=size,
        arm=arm,
        chooser=chooser,
        right=share((each.right, each.answerable) for each in of),
        forbidden=share((each.forbidden, each.questions) for each in of),
        abstained=share((each.abstained, each.questions - each.answerable) for each in of),
        offered=share((each.offered, each.answerable) for each in of),
        tokens=sum(each.tokens for each in of) / questions,
        listed=sum(each.listed for each in of) / questions,
        calls=sum(each.calls for each in of) / questions,
    )


def share(counted: Iterable[tuple[int, int]]) -> Share:
    """How many of how many, case by case. Whole cases are drawn again, since the questions of one are kin."""
    hits, sizes = np.array([each for each in counted if each[1]], dtype=np.float64).reshape(-1, 2).T
    if not sizes.size:
        return Share(mean=0.0, low=0.0, high=0.0, of=0)
    drawn = np.random.default_rng(_SEED).integers(sizes.size, size=(RESAMPLES, sizes.size))
    low, high = np.percentile(hits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [2.5, 97.5])
    return Share(mean=float(hits.sum() / sizes.sum()), low=float(low), high=float(high), of=int(sizes.sum()))


def _accepted(choice: Choice, chooser: str, incident: Incident, accepts: Accepts) -> tuple[str, int, int]:
    """The first choice that a dry run lets through. The hostile one begins with a forbidden one it was not offered."""
    tokens = calls = 0
    names = list(choice.offered)
    wanted = [_by_name(choice)] if chooser == HOSTILE else []
    for _ in range(ATTEMPTS):
        if not wanted and not names:
            break
        name = wanted.pop() if wanted else CHOOSERS[chooser](replace(choice, offered=names))
        if not name:
            break
        accepted, taken = accepts(incident, name)
        tokens, calls = tokens + taken, calls + 1
        if accepted:
            return name, tokens, calls
        names = [each for each in names if each != name]
    return "", tokens, calls


def _by_name(choice: Choice) -> str:
    """A forbidden workflow: the first in the order of names that was not offered."""
    return min((name for name in choice.words if name not in choice.allowed and name not in choice.offered), default="")
