"""Search answers that fit into what a model can read (DESIGN section 7): weak hits go before a text gets shorter.

The MCP tool applies this before the answer is recorded, so that the audit trail knows which hits were returned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from formulary_catalog.domain.answers.catalog import WEAK_CONFIDENCE, SearchAnswer, WorkflowHit
from formulary_catalog.domain.text import cut_at_word

DEFAULT_SEARCH_BYTES = 4090
"""Of a search without `top_k`."""
ASKED_BYTES = 50_000
"""Of an answer with as many entries as the caller asked for: 50 hits of the starter catalog are whole."""
MAX_ANSWER_BYTES = 25_000
"""Of the details of a workflow, and of other answers that grow with what was stored."""
SHORTENED = "shortened to fit; get_workflow_details has the rest"
_SHORT_TOKEN, _LONG_TOKEN = 3, 4
"""Bytes."""
_LONG_NOTE, _SHORT_NOTE = 300, 100
"""Characters. What to check before a run is the longest note."""
Members = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Shortens one member of a line: a text to some characters, a list to some values. Without both it is left out."""

    member: str
    characters: int | None = None
    values: int | None = None

    def of(self, value: Any) -> Any:
        """The shorter value; None if the member is to be left out."""
        if isinstance(value, str):
            return None if self.characters is None else cut_at_word(value, limit=self.characters)
        if isinstance(value, list) and self.values is not None:
            return [cut_at_word(text, limit=self.characters or len(text)) for text in value[: self.values]]
        return None


_UNLISTED = (Cut(member="median_duration_seconds"), Cut(member="success_interval"), Cut(member="runs_counted"))
"""What no contract lists."""
_LABELS = (Cut(member="labels"),)
"""They have filtered already."""
_BRIEF = (
    Cut(member="description"),
    Cut(member="match_reasons", values=1),
    Cut(member="namespace"),
    Cut(member="signal_types", values=1),
)
"""What a hit can do without, where many are likely: `uri` names the namespace, the details have the rest."""
_LAST_RESORT = (
    Cut(member="match_reasons", values=1, characters=60),
    Cut(member="title", characters=60),
    Cut(member="caution", characters=60),
)
"""Of a hit that alone is too long."""
_OF_THE_SEED = frozenset({"signal_types", "estimated_duration", "success_rate"})
"""Every hit has them, known or not: clients of DD-WORKFLOW-002 read them without asking whether they are there."""
_OPTIONAL = frozenset(
    name for name, field in WorkflowHit.model_fields.items() if not field.is_required() and name not in _OF_THE_SEED
)


def allowance(asked: int | None) -> int:
    """Bytes of an answer that a model reads. A caller that says how many entries it wants gets that."""
    return DEFAULT_SEARCH_BYTES if asked is None else ASKED_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSize:
    """How long an answer is as a model reads it: bytes of compact JSON, and some so many tokens.

    The tokens are estimated: tokenizers of models make one of some three to four bytes of JSON.
    """

    size: int
    fewest_tokens: int
    most_tokens: int


def size_of(answer: SearchAnswer) -> AnswerSize:
    """The size of an answer as it is sent."""
    size = _size(answer)
    return AnswerSize(size=size, fewest_tokens=round(size / _LONG_TOKEN), most_tokens=round(size / _SHORT_TOKEN))


def within(answer: SearchAnswer, *, limit: int) -> SearchAnswer:
    """The answer in at most `limit` bytes of compact JSON, as `SearchAnswer.as_json` writes it.

    Weak hits go from the end, before a text of the others gets shorter: what a reader gets is worth reading. Then the
    likely ones become brief from the last rank up, the first one at last, before any is dropped. The first hit always
    stays, and no title is cut but its own, where it is too long alone. Notes say what is missing.
    """
    excess = _size(answer) - limit
    if excess <= 0:
        return answer
    if not answer.workflows:
        return answer.model_copy(update={"notes": _fitting_notes(answer.notes, excess=excess)})
    hits, notes, left = _fitted(answer, limit=limit)
    if left > 0:
        left = cut_lines(_LAST_RESORT, lines=hits, excess=left)
    return answer.model_copy(
        update={"workflows": [WorkflowHit(**each) for each in hits], "notes": _fitting_notes(notes, excess=left)}
    )


def _fitted(answer: SearchAnswer, *, limit: int) -> tuple[list[Members], list[str], int]:
    """As many of the first hits as fit, at least one; the notes, and what is in excess.

    Weak ones are dropped before a likely one becomes brief.
    """
    likely = sum(hit.confidence >= WEAK_CONFIDENCE for hit in answer.workflows)
    for kept in range(len(answer.workflows), 0, -1):
        hits = [hit.model_dump(exclude_unset=True) for hit in answer.workflows[:kept]]
        ours = [SHORTENED, *_on_dropped(len(answer.workflows) - kept)]
        notes = [*answer.notes, *ours]
        excess = _size(answer.model_copy(update={"workflows": answer.workflows[:kept], "notes": notes})) - limit
        excess = _cut_notes(notes, limit=_LONG_NOTE, excess=excess)
        excess = cut_lines(_UNLISTED, lines=hits, excess=excess)
        excess = _leave_out_unknown(hits, excess=excess)
        excess = cut_lines(_LABELS, lines=hits[1:], excess=excess)
        if kept <= max(likely, 1):
            excess = cut_lines(_BRIEF, lines=hits[1:], excess=excess)
            excess = cut_lines((*_LABELS, *_BRIEF), lines=hits[:1], excess=excess)
        if excess <= 0:
            break
    return hits, notes, excess


def cut_lines(cuts: Iterable[Cut], *, lines: Sequence[Members], excess: int) -> int:
    """Make the cuts in place, each from the last line up, until nothing is in excess; returns what is left."""
    for cut in cuts:
        for line in reversed(lines):
            if excess <= 0:
                return excess
            excess -= _apply(cut, line=line)
    return excess


def _cut_notes(notes: list[str], *, limit: int, excess: int) -> int:
    """Shorten long notes in place if something is in excess; returns what is left."""
    if excess <= 0:
        return excess
    before = _notes_bytes(notes)
    notes[:] = [cut_at_word(note, limit=limit) for note in notes]
    return excess - before + _notes_bytes(notes)


def _leave_out_unknown(hits: Sequence[Members], *, excess: int) -> int:
    """Leave out members that say nothing, from the last hit up; returns what is left in excess."""
    for hit in reversed(hits):
        if excess > 0:
            unknown = [name for name, value in hit.items() if name in _OPTIONAL and value in (None, "", [], {})]
            excess -= sum(_member_bytes(name, hit.pop(name)) for name in unknown)
    return excess


def _apply(cut: Cut, *, line: Members) -> int:
    """Make one cut; returns the bytes that this saves."""
    if cut.member not in line:
        return 0
    before = _member_bytes(cut.member, line[cut.member])
    shorter = cut.of(line[cut.member])
    if shorter is None:
        del line[cut.member]
        return before
    line[cut.member] = shorter
    return before - _member_bytes(cut.member, shorter)


def _fitting_notes(notes: Sequence[str], *, excess: int) -> list[str]:
    """The notes, shortened and dropped from the end as far as they are `excess` bytes too long."""
    kept = list(notes)
    if excess > 0:
        shorter = [cut_at_word(note, limit=_SHORT_NOTE) for note in kept]
        excess -= _notes_bytes(kept) - _notes_bytes(shorter)
        kept = shorter
    while excess > 0 and kept:
        excess -= _note_bytes(kept.pop())
    return kept


def _on_dropped(hits: int) -> tuple[str, ...]:
    """The note on hits that were dropped; none without any."""
    if not hits:
        return ()
    noun = "hit" if hits == 1 else "hits"
    return (f"{hits} more {noun} did not fit; top_k allows a longer answer, label parameters a narrower search",)


def _size(answer: SearchAnswer) -> int:
    return len(answer.model_dump_json(exclude_unset=True).encode())


def _notes_bytes(notes: Iterable[str]) -> int:
    """Bytes of notes, each with a comma."""
    return sum(map(_note_bytes, notes))


def _note_bytes(note: str) -> int:
    return len(to_json(note)) + 1


def _member_bytes(name: str, value: Any) -> int:
    """Bytes of a member with its name in quotes, the colon and a comma."""
    return len(name) + len(to_json(value)) + 4
