"""Whether a trace is as it was written, and where it is not (`domain/audit/chain`).

Each event is looked at by itself while it passes by; how they stand together is judged when all have passed, from a
few numbers and hashes of each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from formulary_catalog.domain.audit.chain import (
    GENESIS,
    HOLD_PLACED,
    HOLD_RELEASED,
    CheckpointTime,
    Head,
    IntegrityFinding,
    Mark,
    Problem,
    StoredEvent,
    digest,
    is_event,
)

_SCHEMA = frozenset({Problem.MALFORMED, Problem.COLUMN_EDITED})
_STRUCTURE = frozenset(
    {
        Problem.MISPLACED,
        Problem.REORDERED,
        Problem.INSERTED,
        Problem.MISSING,
        Problem.TRUNCATED,
        Problem.DROPPED,
        Problem.HOLD_MISSING,
        Problem.FUNCTION_CHANGED,
        Problem.TRIGGER_CHANGED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What verification came to. `unsigned` and `unchecked` count the checkpoints without a signature, and those whose
    signature nobody gave a key for; neither is a finding.

    `newest` is the newest checkpoint there is. `proven` is the newest one that was also published or seen outside the
    database; None if none was compared. What is newer can have been cut off with its checkpoints, signed or not.
    """

    findings: tuple[IntegrityFinding, ...]
    event_count: int
    trace_count: int
    checkpoint_count: int = 0
    unsigned: int = 0
    unchecked: int = 0
    newest: CheckpointTime | None = None
    proven: CheckpointTime | None = None

    @property
    def passed(self) -> bool:
        """Whether all is as it was written, as far as is known."""
        return not self.findings

    @property
    def status(self) -> str:
        """`PASS` or `FAIL`."""
        return "PASS" if self.passed else "FAIL"

    @property
    def error_count(self) -> int:
        """How many findings there are."""
        return len(self.findings)

    @property
    def checks(self) -> dict[str, bool]:
        """What holds: bodies and columns; hashes and whatever vouches for them; that all is there, in order."""
        found = {finding.problem for finding in self.findings}
        return {
            "schema_valid": not found & _SCHEMA,
            "hash_chain_valid": not found - _SCHEMA - _STRUCTURE,
            "structure_valid": not found & _STRUCTURE,
        }


def verify_trace(
    trace_id: str,
    events: Iterable[StoredEvent],
    *,
    head: Head | None,
    marks: Iterable[Mark] = (),
    held: bool = True,
    part: "VerifiedPart | None" = None,
) -> tuple[IntegrityFinding, ...]:
    """All that is wrong with one trace, or with a `part` of which these are the events.

    `marks` in the order of their checkpoints, `held` as `TraceCheck.finish`.
    """
    check = TraceCheck(trace_id, part=part)
    for event in events:
        check.add(event)
    return check.finish(head=head, marks=marks, held=held)


@dataclass(frozen=True, slots=True)
class VerifiedPart:
    """Events `first` to `last` of a trace, to its end where `last` is None.

    Parts of which each begins with the last event of the one before verify all of a trace together.
    """

    first: int = 1
    last: int | None = None


_WHOLE = VerifiedPart()


class _Link(NamedTuple):
    """What of an event matters for its place. `number` is the one it was written with, `place` where it stands."""

    place: int
    number: int
    previous: str
    hash: str
    at: str
    sound: bool


class TraceCheck:
    """Verifies one trace, or a part of one."""

    def __init__(self, trace_id: str, *, part: VerifiedPart | None = None) -> None:
        self._trace_id = trace_id
        self._part = part or _WHOLE
        self._findings: list[IntegrityFinding] = []
        self._links: list[_Link] = []
        self._hold: StoredEvent | None = None

    def add(self, event: StoredEvent) -> None:
        """Look at the next event, in the order of `seq`."""
        content = self._sound(event)
        if event.kind in (HOLD_PLACED, HOLD_RELEASED):
            self._hold = event if event.kind == HOLD_PLACED else None
        self._links.append(
            _Link(event.seq, event.seq, "", event.hash, "", False)
            if content is None
            else _Link(event.seq, content["seq"], content["previous"], event.hash, content["at"], True)
        )

    def finish(self, *, head: Head | None, marks: Iterable[Mark], held: bool = True) -> tuple[IntegrityFinding, ...]:
        """All findings, in the order in which they are met in the trace.

        `held` is whether a hold of it is in force; true where that cannot be seen.
        """
        current = self._since_expiry(marks)
        if not self._links and head is None and current:
            message = f"the whole trace is gone; {_checkpoint(current[-1])} vouches for {current[-1].seq} events of it"
            self._find(Problem.DROPPED, 0, message)
            return tuple(self._findings)
        chain = self._arrange(vouched={mark.hash for mark in current} | ({head.hash} if head else set()))
        self._follow(chain)
        self._compare_with_head(chain, head=head, vouched=current[-1].seq if current else 0)
        self._compare_with_marks(chain, marks=current, head=head)
        if self._hold is not None and not held:
            message = f"the hold by {self._hold.caller!r} is gone, and nobody released it"
            self._find(Problem.HOLD_MISSING, self._hold.seq, message)
        return tuple(sorted(_merged(self._findings), key=lambda finding: (finding.seq, finding.last)))

    def _sound(self, event: StoredEvent) -> Mapping[str, Any] | None:
        """What an event says that has the recorded hash, the form of an event, and is in its own trace."""
        if digest(event.body) != event.hash:
            self._find(Problem.EDITED, event.seq, "body and recorded hash do not belong together")
            return None
        content = event.content
        if not is_event(content):
            self._find(Problem.MALFORMED, event.seq, "the body is not the JSON of an event")
            return None
        if content["trace_id"] != event.trace_id:
            self._find(Problem.MISPLACED, event.seq, f"this was written into trace {content['trace_id']!r}")
            return None
        self._compare_columns(event, content)
        return content

    def _compare_columns(self, event: StoredEvent, content: Mapping[str, Any]) -> None:
        payload = content["payload"]
        stored = (event.kind, event.caller, event.search_id)
        said = (content["kind"], payload.get("caller"), payload.get("search_id", ""))
        if stored == said:
            return
        for column, stored_value, body_value in zip(("kind", "caller", "search_id"), stored, said, strict=True):
            if stored_value != body_value:
                self._find(
                    Problem.COLUMN_EDITED, event.seq, f"{column} is {stored_value!r}, and {body_value!r} in the body"
                )

    def _arrange(self, *, vouched: set[str]) -> dict[int, _Link]:
        """The events by the number that they were written with, one for each; reports those that do not belong."""
        claims: dict[int, list[_Link]] = {}
        for link in self._links:
            claims.setdefault(link.number, []).append(link)
        chain: dict[int, _Link] = {}
        for number, links in sorted(claims.items()):
            if len(links) == 1:
                chain[number] = links[0]
                continue
            named = vouched | {link.previous for link in claims.get(number + 1, ())}
            before = chain[number - 1].hash if number - 1 in chain else GENESIS
            chain[number] = max(links, key=lambda link: (link.hash in named, link.previous == before, -link.place))
            for link in links:
                if link is not chain[number]:
                    self._find(Problem.INSERTED, link.place, f"there is another event {number}, which others follow")
        self._compare_places(chain)
        return chain

    def _compare_places(self, chain: Mapping[int, _Link]) -> None:
        """Where events stand. That all behind a gap or an insertion have moved up needs no finding of its own."""
        before = self._part.first - 1
        steps = ((max(one, before), other) for one, other in pairwise((before, *chain)))
        missing = [(one + 1, other - 1) for one, other in steps if other > one + 1]
        for first, last in missing:
            self._find(Problem.MISSING, first, "this is not there, though later ones are", to=last)
        in_order = all(one.place < other.place for one, other in pairwise(chain.values()))
        if in_order and (missing or len(chain) < len(self._links)):
            return
        for number, link in chain.items():
            if link.place != number:
                self._find(Problem.REORDERED, link.place, "another event is in its place")

    def _follow(self, chain: Mapping[int, _Link]) -> None:
        for number, link in chain.items():
            before = chain.get(number - 1)
            known = number == 1 or (before is not None and before.sound)
            if link.sound and known and link.previous != (before.hash if before else GENESIS):
                self._find(
                    Problem.REWRITTEN, max(number - 1, 1), f"event {number} was written after another one than this"
                )

    def _compare_with_head(self, chain: Mapping[int, _Link], *, head: Head | None, vouched: int) -> None:
        last = max(chain, default=self._part.first - 1)
        if head is None:
            if chain:
                self._find(Problem.HEAD_EDITED, last, "the trace has events and no head")
            return
        if self._part.last is not None and head.seq > self._part.last:
            if last < self._part.last:
                self._find(Problem.MISSING, last + 1, "this is not there, though later ones are", to=self._part.last)
        elif head.seq > last:
            self._find(Problem.TRUNCATED, last + 1, "the head of the trace knows of this, and it is gone", to=head.seq)
        elif head.seq < last:
            self._find(Problem.INSERTED, head.seq + 1, "the head of the trace does not know of this", to=last)
        elif last not in chain or chain[last].hash != head.hash:
            self._find(Problem.HEAD_EDITED, last, "the head of the trace has another hash than its newest event")
        elif chain[last].sound and chain[last].at != head.at:
            message = f"the head says that the newest event is of {head.at}, and that says {chain[last].at}"
            self._find(Problem.HEAD_EDITED, last, message)
        if head.checkpointed != vouched:
            message = f"the head says that checkpoints vouch for {head.checkpointed} events, and they do for {vouched}"
            self._find(Problem.HEAD_EDITED, head.seq, message)

    def _compare_with_marks(self, chain: Mapping[int, _Link], *, marks: Sequence[Mark], head: Head | None) -> None:
        sure, last = self._part.first - 1, max(chain, default=self._part.first - 1)
        for mark in marks:
            link = chain.get(mark.seq)
            if link is not None and link.hash == mark.hash:
                sure = mark.seq
            elif link is not None and link.sound:
                self._find(
                    Problem.REWRITTEN, sure + 1, f"somewhere here is not what {_checkpoint(mark)} saw", to=mark.seq
                )
                return
            elif mark.seq > last and (head is None or head.seq < mark.seq):
                self._find(
                    Problem.TRUNCATED, last + 1, f"{_checkpoint(mark)} vouches for this, and it is gone", to=mark.seq
                )
                return

    def _since_expiry(self, marks: Iterable[Mark]) -> list[Mark]:
        """What checkpoints say of the chain that may still be there. What expired must be what they had seen."""
        current: list[Mark] = []
        for mark in marks:
            if not mark.expired:
                current.append(mark)
                continue
            if current and (mark.seq, mark.hash) != (current[-1].seq, current[-1].hash) and mark.seq <= current[-1].seq:
                message = f"{_checkpoint(mark)} dropped another trace than {_checkpoint(current[-1])} saw"
                self._find(Problem.REWRITTEN, mark.seq, message, to=current[-1].seq)
            current = []
        return current

    def _find(self, problem: Problem, seq: int, message: str, *, to: int = 0) -> None:
        self._findings.append(
            IntegrityFinding(problem=problem, message=message, trace_id=self._trace_id, seq=seq, last=max(seq, to))
        )


def _checkpoint(mark: Mark) -> str:
    return f"checkpoint {mark.checkpoint}"


def _merged(findings: Iterable[IntegrityFinding]) -> Iterator[IntegrityFinding]:
    """The same findings; what is said of several events in a row is said once."""
    pending: IntegrityFinding | None = None
    for finding in findings:
        if pending is not None and (pending.problem, pending.message) == (finding.problem, finding.message):
            if finding.seq == pending.last + 1:
                pending = replace(pending, last=finding.last)
                continue
        if pending is not None:
            yield pending
        pending = finding
    if pending is not None:
        yield pending
