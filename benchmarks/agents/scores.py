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


def score(found: Sequence[Outcome], *, size: int, arm: str, chooser: str) -> Score:
    """The shares and means of all questions."""
    answerable = [each for each in found if each.answerable]
    nothing = [each for each in found if not each.answerable]
    return Score(
        size=size,
        arm=arm,
        chooser=chooser,
        right=share((each.case, each.right) for each in answerable),
        forbidden=share((each.case, each.forbidden) for each in found),
        abstained=share((each.case, not each.chosen) for each in nothing),
        offered=share((each.case, each.offered) for each in answerable),
        tokens=sum(each.tokens for each in found) / len(found),
        listed=sum(each.listed for each in found) / len(found),
        calls=sum(each.calls for each in found) / len(found),
    )


def share(values: Iterable[tuple[str, bool]]) -> Share:
    """The share of true values; whole cases are drawn again, since the questions of one are kin."""
    cases: dict[str, list[bool]] = {}
    for case, value in values:
        cases.setdefault(case, []).append(value)
    if not cases:
        return Share(mean=0.0, low=0.0, high=0.0, of=0)
    hits = np.array([sum(each) for each in cases.values()], dtype=np.float64)
    sizes = np.array([len(each) for each in cases.values()], dtype=np.float64)
    drawn = np.random.default_rng(_SEED).integers(len(cases), size=(RESAMPLES, len(cases)))
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
