"""Answers that fit into what a model can read: pure functions from an answer to a smaller one of the same shape.

Every shrunk answer is still valid against its output schema, and says in its notes what is missing. Lines of a listing
get shorter before there are fewer of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from formulary_catalog.domain.answers.answer_size import MAX_ANSWER_BYTES, SHORTENED, Cut, cut_lines
from formulary_catalog.domain.answers.catalog import WorkflowList, WorkflowSummary
from formulary_catalog.domain.text import cut_short

_MAX_NAMED_TEXTS = 8
_IDENTITY = frozenset({"workflow_id", "version", "version_id", "namespace", "uri", "search_id", "search_mode"})
"""Never cut: a shortened identifier names something else."""
_OPEN = frozenset({"input_schema", "execution", "parameters", "labels"})
"""Of no fixed size and worth nothing in part: left out whole, as the last resort."""

Json = dict[str, Any]
_LINE_CUTS = (
    Cut(member="version_id"),
    Cut(member="namespace"),
    Cut(member="title", characters=60),
    Cut(member="signal_types", values=3),
    Cut(member="indexed_at"),
    Cut(member="signal_types", values=1),
    Cut(member="title", characters=40),
    Cut(member="title", characters=30),
)
"""In this order. Programs may count on all other members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """How far to cut: characters of a text, entries of a list, and whether commands and open members are spared."""

    characters: int
    entries: int | None = None
    commands: bool = True
    open_members: bool = False


_CUTS = (
    *(_Cut(characters=limit, commands=False) for limit in (4000, 2000, 1000, 500, 250, 120)),
    *(_Cut(characters=limit) for limit in (2000, 1000, 500, 250, 120)),
    *(_Cut(characters=120, entries=entries) for entries in (100, 30, 10, 3)),
    _Cut(characters=60, entries=1, open_members=True),
)


def compact(answer: Any) -> str:
    """The answer as JSON without spaces, with every character as itself."""
    return to_json(answer).decode()


def size(answer: Any) -> int:
    """Bytes of the compact form."""
    return len(to_json(answer))


def fit(answer: Json, *, budget: int = MAX_ANSWER_BYTES, whole: str = "the resource at uri has the whole") -> Json:
    """Any answer with `notes`, of at most `budget` bytes, with a note that names what was cut and where the `whole` is.

    The longest texts are cut first; the commands of steps only when that is not enough, and never unnamed.
    """
    if size(answer) <= budget:
        return answer
    for cut in _CUTS:
        fitted = _apply(cut, answer=answer, whole=whole)
        if size(fitted) <= budget:
            break
    return fitted


def _apply(cut: _Cut, *, answer: Json, whole: str) -> Json:
    named: list[str] = []
    fitted: Json = _walk(answer, cut=cut, path="", named=named)
    commands = [path for path in named if path.endswith(".command")]
    others = [path for path in named if not path.endswith(".command")]
    unnamed = [f"{len(others) - _MAX_NAMED_TEXTS} more texts"] if len(others) > _MAX_NAMED_TEXTS else []
    where = ", ".join([*others[:_MAX_NAMED_TEXTS], *commands, *unnamed])
    return {**fitted, "notes": [*fitted["notes"], f"cut to fit: {where}; {whole}"]}


def _walk(value: Any, *, cut: _Cut, path: str, named: list[str]) -> Any:
    if isinstance(value, str):
        if len(value) <= cut.characters or (path.endswith(".command") and not cut.commands):
            return value
        named.append(path)
        return cut_short(value, limit=cut.characters)
    if isinstance(value, list):
        kept = value[: cut.entries]
        if len(kept) < len(value):
            named.append(f"{path} after the first {len(kept)}")
        return [_walk(item, cut=cut, path=f"{path}[{number}]", named=named) for number, item in enumerate(kept)]
    if isinstance(value, dict):
        return {key: _member(key, item, cut=cut, path=path, named=named) for key, item in value.items()}
    return value


def _member(key: str, value: Any, *, cut: _Cut, path: str, named: list[str]) -> Any:
    if key in _IDENTITY:
        return value
    inner = f"{path}.{key}" if path else key
    if key in _OPEN and cut.open_members and value:
        named.append(inner)
        return type(value)()
    return _walk(value, cut=cut, path=inner, named=named)


def within(listing: WorkflowList, *, limit: int, cursor_after: Callable[[int], str]) -> WorkflowList:
    """The listing in at most `limit` bytes of compact JSON. `cursor_after` is the cursor behind so many lines.

    Notes say that lines are shortened, and how many of the page did not fit. The first line always stays.
    """
    asked = len(listing.workflows)
    fitting = listing
    for kept in range(asked, 0, -1):
        fitting = _lines_of(listing, kept=kept, cursor=cursor_after(kept) if kept < asked else listing.next_cursor)
        excess = size(fitting.as_json()) - limit
        if excess <= 0:
            break
        fitting = fitting.model_copy(update={"notes": [*fitting.notes, SHORTENED]})
        lines = [line.model_dump(exclude_unset=True) for line in fitting.workflows]
        if cut_lines(_LINE_CUTS, lines=lines, excess=size(fitting.as_json()) - limit) <= 0 or kept == 1:
            fitting = fitting.model_copy(update={"workflows": [WorkflowSummary(**line) for line in lines]})
            break
    return fitting


def _lines_of(listing: WorkflowList, *, kept: int, cursor: str) -> WorkflowList:
    """The first lines of a listing, with a note if they are not all."""
    asked = len(listing.workflows)
    if kept == asked:
        return listing
    note = f"{kept} of {asked} fit; cursor leads on, limit allows a longer answer"
    fields = listing.model_dump(exclude_unset=True) | {"notes": [*listing.notes, note], "next_cursor": cursor}
    return WorkflowList(**fields | {"workflows": listing.workflows[:kept]})
