"""What came of a soak: every answer held against the oracle, every refusal against its fault, memory against itself."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from soak.oracle import Oracle
from soak.traffic import Answered, Call, Refused, Tally

RECOVERY_SECONDS = 5.0
"""How long after a fault calls may still begin that are refused."""
ENDED_WITHIN = 10.0
"""A call asks the database up to three times, for 1.8 s each at most; the rest is what a busy machine adds."""
STANDSTILL_SHARE = 0.01
"""Refusals for each answer that need no fault, if the database is what did not answer in time: where the machine stands
still for two seconds, all calls in work meet its deadline."""
SLOW = "the database does not answer; retry in a few seconds"
MAX_GROWTH_BYTES = 40 * 1024**2
"""What a process may grow by once it has begun to work: its caches fill, of which that of texts takes 12 MB and that of
parsed workflows 10. Searches that rank all that is allowed fill both within the shortest soak."""
MAX_GROWTH_BYTES_PER_HOUR = 32 * 1024**2
"""How fast it may grow once it is warm."""
_WARM_SECONDS = 600.0
_MEGABYTE = 1024**2
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """A fault as it was done, and how many seconds after it calls were still answered as if it went on."""

    name: str
    begun: float
    healed: float
    refused: int
    slowest_refusal: float
    words_only: int
    recovery: float


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The table of a soak. `problems` is empty where all is well."""

    answers: dict[str, int]
    refusals: int
    not_found: int
    edits: int
    events: int = 0
    harms: list[Harm] = field(default_factory=list)
    resident_megabytes: float = 0.0
    growth_megabytes: float = 0.0
    growth_megabytes_per_hour: float = 0.0
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def wrong_answers(tally: Tally, oracle: Oracle) -> list[str]:
    """Answers that hold what they may not, or not what they must."""
    return [
        *(problem for answer in tally.answered if (problem := _problem(answer, oracle))),
        *(
            f"{each.call.version or each.call.name} was not found, but is there"
            for each in tally.refused
            if _wrongly_missing(each, oracle)
        ),
    ]


def _problem(answer: Answered, oracle: Oracle) -> str:
    call = answer.call
    if call.kind == "selection":  # of a version by its id, which is readable after it is superseded
        if answer.versions != (call.version,):
            return f"{call.version} was chosen and {answer.versions} recorded"
        suspended = oracle.suspended(call.version, since=call.since, until=call.until)
        return f"{call.version} was found, but is suspended" if suspended else ""
    return oracle.problem(
        answer.versions,
        total=answer.total,
        demands=call.incident.demands(call.question),
        since=call.since,
        until=call.until,
        name=call.name,
    )


def _wrongly_missing(refused: Refused, oracle: Oracle) -> bool:
    """Whether it is about a version that was returned a moment before, or a workflow that was served all the time."""
    call = refused.call
    if call.version:
        return refused.not_found and oracle.suspended(call.version, since=call.since, until=call.until) is False
    return refused.not_found and (
        oracle.must_be_found(call.name, demands=call.incident.demands(None), since=call.since, until=call.until)
    )


def harm(name: str, *, begun: float, healed: float, tally: Tally) -> Harm:
    """What a fault did to the calls."""
    refused = [each for each in failures(tally) if _explains(each.call, begun=begun, healed=healed)]
    words_only = [
        each for each in tally.answered if each.mode == "lexical" and _explains(each.call, begun=begun, healed=healed)
    ]
    last = max([each.call.since for each in refused] + [each.call.since for each in words_only], default=healed)
    return Harm(
        name=name,
        begun=begun,
        healed=healed,
        refused=len(refused),
        slowest_refusal=max((each.call.until - each.call.since for each in refused), default=0.0),
        words_only=len(words_only),
        recovery=max(0.0, last - healed),
    )


def _explains(call: Call, *, begun: float, healed: float) -> bool:
    """Whether a call met a fault: it ended after that began, and began before all had to be well again."""
    return begun <= call.until and call.since <= healed + RECOVERY_SECONDS


def failures(tally: Tally) -> list[Refused]:
    """Refusals that are not about a workflow that is not there."""
    return [each for each in tally.refused if not each.not_found]


def refusal_problems(tally: Tally, harms: Sequence[Harm]) -> list[str]:
    """Refusals without a fault, told badly, or late; answers by words alone while the embedder worked; late answers."""

    def explained(call: Call) -> bool:
        return any(_explains(call, begun=each.begun, healed=each.healed) for each in harms)

    failed = failures(tally)
    unexplained = [each.message for each in failed if not explained(each.call)]
    if unexplained.count(SLOW) <= STANDSTILL_SHARE * len(tally.answered):
        unexplained = [message for message in unexplained if message != SLOW]
    groups = {
        "refused without a fault": unexplained,
        "told badly": [each.unclean for each in tally.refused if each.unclean],
        "refused late": [f"after {each.call.seconds:.1f} s: {each.message}" for each in failed if _is_late(each.call)],
        "answered late": [
            f"{each.call.kind} after {each.call.seconds:.1f} s" for each in tally.answered if _is_late(each.call)
        ],
        "ranked otherwise without a fault": [
            each.mode
            for each in tally.answered
            if each.call.kind == "search" and each.mode != "hybrid" and not explained(each.call)
        ],
    }
    return [f"{what}: {said}" for what, group in groups.items() for said in sampled(group)]


def _is_late(call: Call) -> bool:
    return call.seconds > ENDED_WITHIN


def sampled(group: Sequence[str]) -> list[str]:
    """The first few of many, and how many more there are."""
    more = len(group) - _SHOWN
    return [*group[:_SHOWN], *([f"… and {more} more"] if more > 0 else [])]


def growth(samples: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Bytes that a process grew by once it had begun to work, and bytes per hour, from (seconds, resident bytes).

    By the slope through all samples: from ten minutes on where there are as many after these, else after a third.
    """
    settled = _warm(samples) or samples[len(samples) // 3 :]
    slope = statistics.linear_regression([at for at, _ in settled], [size for _, size in settled]).slope
    return slope * (settled[-1][0] - settled[0][0]), slope * 3600


def growth_problems(samples: Sequence[tuple[float, int]]) -> list[str]:
    """Growth that does not end."""
    grown, hourly = growth(samples)
    if _warm(samples) and hourly > MAX_GROWTH_BYTES_PER_HOUR:
        return [f"the server grows by {hourly / _MEGABYTE:.0f} MB an hour"]
    return [f"the server grew by {grown / _MEGABYTE:.0f} MB"] if grown > MAX_GROWTH_BYTES else []


def _warm(samples: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
    """What was seen after ten minutes; nothing if that is less than ten minutes more."""
    begun, ended = samples[0][0], samples[-1][0]
    if ended - begun < 2 * _WARM_SECONDS:
        return ()
    return [(at, size) for at, size in samples if at - begun >= _WARM_SECONDS]
