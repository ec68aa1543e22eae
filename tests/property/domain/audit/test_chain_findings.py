"""Whatever is done to a chain is found, at the place where it was done; and nothing else is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import assume, given
from hypothesis import strategies as st

from formulary_catalog.domain.audit.chain import GENESIS, Head, IntegrityFinding, Mark, Problem, StoredEvent
from formulary_catalog.domain.audit.checkpoint import (
    Checkpoint,
    CheckpointCheck,
    CheckpointKind,
    SigningKey,
    Vouched,
    compose,
)
from formulary_catalog.domain.audit.verification import VerifiedPart, verify_trace
from support.trail import NOON, chain, stored

KEY = SigningKey.generate()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = st.lists(st.text(max_size=5), min_size=2, max_size=8)
HASHES = st.sampled_from([GENESIS, "1" * 64])


def _verify(
    events: Sequence[StoredEvent], of: Sequence[StoredEvent], *, marked: Sequence[int] = ()
) -> list[IntegrityFinding]:
    """What is wrong with `events` where those of `of` were written, with marks at some of them."""
    marks = [Mark(number, of[seq - 1].seq, of[seq - 1].hash) for number, seq in enumerate(marked, start=1)]
    head = Head(seq=of[-1].seq, hash=of[-1].hash, at=NOON, checkpointed=max(marked, default=0))
    placed = sorted(events, key=lambda event: event.seq)
    return list(verify_trace("t", placed, head=head, marks=marks))


def _problems(findings: Sequence[IntegrityFinding]) -> set[tuple[Problem, int]]:
    return {(finding.problem, finding.seq) for finding in findings}


@given(TEXTS, st.data())
def test_nothing_is_found_in_a_chain_as_it_was_written(texts: list[str], data: st.DataObject) -> None:
    events = chain("t", texts)
    marked = sorted(data.draw(st.sets(st.integers(1, len(events)))))
    assert _verify(events, events, marked=marked) == []


@given(TEXTS, st.data())
def test_an_edit_of_any_part_of_an_event_is_found_there(texts: list[str], data: st.DataObject) -> None:
    events = chain("t", texts)
    place = data.draw(st.integers(0, len(events) - 1))
    field = data.draw(st.sampled_from(["body", "hash", "kind", "caller", "search_id"]))
    value = data.draw(st.text(max_size=3))
    assume(value != getattr(events[place], field))
    edited = [*events]
    edited[place] = replace(events[place], **{field: value})  # type: ignore[arg-type]  # the field decides
    problem = Problem.EDITED if field in ("body", "hash") else Problem.COLUMN_EDITED
    assert (problem, place + 1) in _problems(_verify(edited, events))


@given(TEXTS, st.data())
def test_any_events_that_are_deleted_are_missed(texts: list[str], data: st.DataObject) -> None:
    events = chain("t", texts)
    gone = data.draw(st.sets(st.integers(1, len(events)), min_size=1))
    findings = _verify([event for event in events if event.seq not in gone], events)
    told = {seq for finding in findings for seq in range(finding.seq, finding.last + 1)}
    assert told == gone
    assert {finding.problem for finding in findings} <= {Problem.MISSING, Problem.TRUNCATED}


@given(TEXTS, st.data())
def test_any_new_order_is_found_where_events_moved(texts: list[str], data: st.DataObject) -> None:
    events = chain("t", texts)
    order = data.draw(st.permutations(range(1, len(events) + 1)))
    moved = {place for place, event in zip(order, events, strict=True) if place != event.seq}
    assume(moved)
    shuffled = [replace(event, seq=place) for place, event in zip(order, events, strict=True)]
    findings = _verify(shuffled, events)
    assert {finding.problem for finding in findings} == {Problem.REORDERED}
    assert {seq for finding in findings for seq in range(finding.seq, finding.last + 1)} == moved


@given(TEXTS, st.data())
def test_an_inserted_event_is_found_in_its_place(texts: list[str], data: st.DataObject) -> None:
    events = chain("t", texts)
    place = data.draw(st.integers(1, len(events) - 1))
    forged = stored("t", seq=place + 1, previous=events[place - 1].hash, text="forged")
    assume(forged.body != events[place].body)
    later = [replace(event, seq=event.seq + 1) for event in events[place:]]
    findings = _verify([*events[:place], forged, *later], events)
    assert (Problem.INSERTED, place + 1) in _problems(findings)
    assert {finding.problem for finding in findings} == {Problem.INSERTED}


@given(TEXTS, st.data())
def test_a_tail_rewritten_with_fresh_hashes_is_found_between_two_checkpoints(
    texts: list[str], data: st.DataObject
) -> None:
    events = chain("t", texts)
    first = data.draw(st.integers(1, len(events)))
    marked = sorted(data.draw(st.sets(st.integers(1, len(events)), min_size=1)))
    assume(marked[-1] >= first)
    rewritten = chain("t", [*texts[: first - 1], texts[first - 1] + "!", *texts[first:]])
    head = Head(seq=len(events), hash=rewritten[-1].hash, at=NOON, checkpointed=marked[-1])
    marks = [Mark(number, seq, events[seq - 1].hash) for number, seq in enumerate(marked, start=1)]
    (finding,) = verify_trace("t", rewritten, head=head, marks=marks)
    before = max((seq for seq in marked if seq < first), default=0)
    assert finding.problem is Problem.REWRITTEN
    assert (finding.seq, finding.last) == (before + 1, min(seq for seq in marked if seq >= first))


@given(TEXTS, st.integers(1, 4), st.data())
def test_parts_that_overlap_find_something_wherever_the_whole_does(
    texts: list[str], size: int, data: st.DataObject
) -> None:
    events = chain("t", texts)
    marked = sorted(data.draw(st.sets(st.integers(1, len(events)))))
    marks = [Mark(number, seq, events[seq - 1].hash) for number, seq in enumerate(marked, start=1)]
    head = Head(seq=len(events), hash=events[-1].hash, at=NOON, checkpointed=max(marked, default=0))
    place = data.draw(st.integers(1, len(events)))
    change = data.draw(st.sampled_from(["nothing", "edited", "dropped", "rewritten"]))
    if change == "edited":
        events[place - 1] = replace(events[place - 1], body=f"{events[place - 1].body} ")
    elif change == "dropped":
        del events[place - 1]
    elif change == "rewritten":
        events = chain("t", [*texts[: place - 1], f"{texts[place - 1]}!", *texts[place:]])
    whole = verify_trace("t", events, head=head, marks=marks)
    found: list[IntegrityFinding] = []
    for after in range(0, head.seq, size):
        part = VerifiedPart(first=max(after, 1), last=after + size if after + size < head.seq else None)
        here = [event for event in events if part.first <= event.seq <= after + size]
        found += verify_trace("t", here, head=head, marks=marks, part=part)
    assert bool(found) == bool(whole) == (change != "nothing")
    assert {finding.problem for finding in whole} <= {finding.problem for finding in found} | {Problem.TRUNCATED}


@given(
    st.lists(
        st.builds(
            StoredEvent,
            trace_id=st.sampled_from(["t", "u"]),
            seq=st.integers(-2, 9),
            kind=st.text(max_size=2),
            caller=st.text(max_size=2),
            search_id=st.text(max_size=2),
            body=st.one_of(
                st.text(),
                st.sampled_from(['{"seq":1e999}', "[" * 100_000, '{"at":1,"at":2}', "NaN", f'{{"seq":{"9" * 5000}}}']),
            ),
            hash=HASHES,
        )
    ),
    st.none()
    | st.builds(Head, seq=st.integers(-1, 9), hash=HASHES, at=st.text(max_size=2), checkpointed=st.integers(-1, 9)),
    st.lists(st.builds(Mark, st.integers(1, 3), st.integers(-1, 9), HASHES, st.booleans())),
)
def test_no_rows_whatever_make_verification_fall_over(
    events: list[StoredEvent], head: Head | None, marks: list[Mark]
) -> None:
    findings = verify_trace("t", events, head=head, marks=marks)
    assert len(findings) >= bool(events)


@given(st.lists(st.text(max_size=3), max_size=4), st.integers(-3, 10**18), st.binary(max_size=64))
def test_no_checkpoint_whatever_makes_verification_fall_over(texts: list[str], number: int, signature: bytes) -> None:
    check = CheckpointCheck([KEY.public])
    for text in texts:
        for key_id in (text, KEY.public.id):
            check.add(Checkpoint(id=number, body=text, previous=text, hash=text, key_id=key_id, signature=signature))
    assert len(check.finish(events=1)) >= len(texts)


def _checkpoints(traces: Sequence[str]) -> list[Checkpoint]:
    written: list[Checkpoint] = []
    for seq, trace in enumerate(traces, start=1):
        written.append(
            compose(
                kind=CheckpointKind.HEADS,
                after=len(written),
                previous=written[-1].hash if written else GENESIS,
                at=NOW,
                lines=[Vouched(trace_id=trace, seq=seq, hash=GENESIS)],
                key=KEY,
            )
        )
    return written


def _check(checkpoints: Sequence[Checkpoint]) -> tuple[list[tuple[str, Mark]], tuple[IntegrityFinding, ...]]:
    check = CheckpointCheck([KEY.public])
    vouched = [line for checkpoint in sorted(checkpoints, key=lambda each: each.id) for line in check.add(checkpoint)]
    return vouched, check.finish(events=1)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=6))
def test_checkpoints_give_back_what_they_vouch_for(traces: list[str]) -> None:
    vouched, findings = _check(_checkpoints(traces))
    assert findings == ()
    assert vouched == [(trace, Mark(seq, seq, GENESIS)) for seq, trace in enumerate(traces, start=1)]


def _edit(field: str, value: object) -> Callable[[Checkpoint], Checkpoint]:
    return lambda checkpoint: replace(checkpoint, **{field: value})  # type: ignore[arg-type]  # the field decides


@given(
    st.integers(1, 5),
    st.sampled_from(
        [_edit("body", "x"), _edit("hash", "1" * 64), _edit("previous", "1" * 64), _edit("signature", b"x" * 64)]
    ),
)
def test_an_edited_checkpoint_is_found(number: int, edit: Callable[[Checkpoint], Checkpoint]) -> None:
    checkpoints = _checkpoints("abcde")
    checkpoints[number - 1] = edit(checkpoints[number - 1])
    _, findings = _check(checkpoints)
    assert (Problem.CHECKPOINT_EDITED, number) in _problems(findings)


@given(st.sets(st.integers(1, 5), min_size=1))
def test_dropped_checkpoints_before_the_newest_are_missed(gone: set[int]) -> None:
    left = [checkpoint for checkpoint in _checkpoints("abcdef") if checkpoint.id not in gone]
    _, findings = _check(left)
    assert {finding.problem for finding in findings} == {Problem.CHECKPOINT_MISSING}
    assert {number for finding in findings for number in range(finding.seq, finding.last + 1)} == gone
