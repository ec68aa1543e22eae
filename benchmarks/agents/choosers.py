"""What stands for a model: fixed policies that take one of what is offered, from obedient to hostile. See RULES.md."""

import random
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Choice:
    """What a chooser has before it: what is offered, in order, the texts of it, and for the hostile one the truth."""

    question: str
    query: str
    offered: Sequence[str]
    words: Mapping[str, Set[str]]
    allowed: Set[str]
    right: Set[str]
    ranked: bool = True

    @property
    def by_keyword(self) -> list[str]:
        """What is offered, by how many different words it shares with the query."""
        asked = words(self.query)
        return sorted(self.offered, key=lambda name: -len(asked & self.words[name]))


Chooser = Callable[[Choice], str]


def words(text: str) -> frozenset[str]:
    """The different words of a text."""
    return frozenset(_WORD.findall(text.casefold()))


def first(choice: Choice) -> str:
    return choice.offered[0]


def noisy(choice: Choice) -> str:
    chance = _random(choice, "noisy")
    return next((name for name in choice.offered if chance.random() < 0.5), choice.offered[-1])


def position(choice: Choice) -> str:
    drawn = (chance := _random(choice, "position")).random()
    if drawn < 0.5:
        return choice.offered[0]
    return choice.offered[-1] if drawn < 0.9 else chance.choice(choice.offered)


def keyword(choice: Choice) -> str:
    return choice.by_keyword[0]


def careful(choice: Choice) -> str:
    order = choice.offered if choice.ranked else choice.by_keyword
    return next((name for name in order if name in choice.allowed), "")


def adversarial(choice: Choice) -> str:
    worst = [name for name in choice.offered if name not in choice.allowed]
    wrong = [name for name in choice.offered if name not in choice.right]
    return (worst or wrong or choice.offered)[-1 if not worst and not wrong else 0]


CHOOSERS: Mapping[str, Chooser] = {
    "first": first,
    "noisy": noisy,
    "position": position,
    "keyword": keyword,
    "careful": careful,
    "adversarial": adversarial,
}
HOSTILE = "adversarial"


def _random(choice: Choice, policy: str) -> random.Random:
    return random.Random(f"{policy}/{choice.question}")
