"""Search answers that fit into what a model can read (DESIGN section 7): texts get shorter before hits get fewer.

The MCP tool applies this before the answer is recorded, so that the audit trail knows which hits were returned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from formulary_catalog.domain.answers import SearchAnswer, WorkflowHit

DEFAULT_SEARCH_BYTES = 4000
"""Of a search without `top_k`."""
MAX_ANSWER_BYTES = 25_000
"""Of any answer that a model reads."""
SHORTENED = "shortened to fit; get_workflow_details has what is left out"
_SHORT_TOKEN, _LONG_TOKEN = 3, 4
"""Bytes."""
_LONG_NOTE = 200
_SHORT_NOTE = 100
_ELLIPSIS = "…"
_Members = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Shortens one member of a hit: a text to some characters, a list to some entries. Without both it is left out."""

    member: str
    characters: int | None = None
    entries: int | None = None

    def of(self, value: Any) -> Any:
        """The shorter value; None if the member is to be left out."""
        if isinstance(value, str):
            return None if self.characters is None else _shortened(value, limit=self.characters)
        if isinstance(value, list) and self.entries is not None:
            return [_shortened(text, limit=self.characters or len(text)) for text in value[: self.entries]]
        return None


_CUTS = (
    _Cut(member="description", characters=60),
    _Cut(member="description"),
    _Cut(member="match_reasons", entries=2),
    _Cut(member="match_reasons", entries=1),
    _Cut(member="labels"),
    _Cut(member="signal_types"),
    _Cut(member="similarity_score"),
    _Cut(member="estimated_duration"),
    _Cut(member="title", characters=60),
    _Cut(member="match_reasons", entries=1, characters=40),
    _Cut(member="title", characters=40),
    _Cut(member="version"),
    _Cut(member="median_duration_seconds"),
    _Cut(member="success_rate"),
    _Cut(member="title", characters=30),
    _Cut(member="caution", characters=60),
)
"""In this order. A caution is a warning: it gets shorter last, and a hit is dropped rather than shown without it. What
identifies a hit is never cut."""
_FIRST_CUTS = (_Cut(member="labels"), _Cut(member="signal_types"), _Cut(member="similarity_score"), *_CUTS)
"""Those of the first hit: what it does and why it was found help more to choose than labels, which already filtered."""
_OPTIONAL = frozenset(name for name, field in WorkflowHit.model_fields.items() if not field.is_required())


def allowance(asked: int | None) -> int:
    """Bytes of an answer that a model reads. A caller that says how many entries it wants gets that."""
    return DEFAULT_SEARCH_BYTES if asked is None else MAX_ANSWER_BYTES


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

    Of lower ranks, first what is unknown is left out, then the members of `_CUTS` are shortened, each from the last
    rank up to the second. Then long notes and the first hit get shorter. Hits are dropped from the end at last, with
    a note of how many. The first hit always stays.
    """
    excess = _size(answer) - limit
    if excess <= 0:
        return answer
    if not answer.workflows:
        return answer.model_copy(update={"notes": _fitting_notes(answer.notes, excess=excess)})
    first, *lower = [hit.model_dump(exclude_unset=True) for hit in answer.workflows]
    excess = _cut_lower(lower, excess=excess + _note_bytes(SHORTENED))
    notes = [*answer.notes, SHORTENED]
    if excess > 0:
        shorter = [_shortened(note, limit=_LONG_NOTE) for note in notes]
        excess -= _notes_bytes(notes) - _notes_bytes(shorter)
        notes = shorter
    whole_first, saved = dict(first), _cut_first(first, excess=excess)
    excess -= saved
    dropped = 0
    while excess > 0 and lower:
        dropped += 1
        excess -= len(to_json(lower.pop())) + 1
        excess += _notes_bytes(_on_dropped(dropped)) - _notes_bytes(_on_dropped(dropped - 1))
    if excess + saved <= 0:
        first = whole_first
    return answer.model_copy(
        update={
            "workflows": [WorkflowHit(**members) for members in (first, *lower)],
            "notes": _fitting_notes([*notes, *_on_dropped(dropped)], excess=excess),
        }
    )


def _cut_lower(hits: Sequence[_Members], *, excess: int) -> int:
    """Shorten these in place until nothing is in excess, or nothing is left to cut; returns what is left."""
    for hit in reversed(hits):
        if excess > 0:
            excess -= _leave_out_unknown(hit)
    for cut in _CUTS:
        for hit in reversed(hits):
            if excess <= 0:
                return excess
            excess -= _apply(cut, hit=hit)
    return excess


def _cut_first(hit: _Members, *, excess: int) -> int:
    """Shorten the first hit in place as far as something is in excess; returns the bytes that this saves."""
    saved = _leave_out_unknown(hit) if excess > 0 else 0
    for cut in _FIRST_CUTS:
        if saved >= excess:
            break
        saved += _apply(cut, hit=hit)
    return saved


def _leave_out_unknown(hit: _Members) -> int:
    """Leave out members that say nothing; returns the bytes that this saves."""
    unknown = [name for name, value in hit.items() if name in _OPTIONAL and value in (None, "", [], {})]
    return sum(_member_bytes(name, hit.pop(name)) for name in unknown)


def _apply(cut: _Cut, *, hit: _Members) -> int:
    """Make one cut; returns the bytes that this saves."""
    if cut.member not in hit:
        return 0
    before = _member_bytes(cut.member, hit[cut.member])
    shorter = cut.of(hit[cut.member])
    if shorter is None:
        del hit[cut.member]
        return before
    hit[cut.member] = shorter
    return before - _member_bytes(cut.member, shorter)


def _fitting_notes(notes: Sequence[str], *, excess: int) -> list[str]:
    """The notes, shortened and dropped from the end as far as they are `excess` bytes too long."""
    kept = list(notes)
    if excess > 0:
        shorter = [_shortened(note, limit=_SHORT_NOTE) for note in kept]
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


def _shortened(text: str, *, limit: int) -> str:
    """The text within `limit` characters, cut at a word."""
    if len(text) <= limit:
        return text
    return text[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + _ELLIPSIS
