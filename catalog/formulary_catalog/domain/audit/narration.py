"""The story of a trace: from the first search to the outcome, for a person who reads it after the outage."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from formulary_catalog.domain.audit.chain import StoredEvent, is_event
from formulary_catalog.domain.audit.passages import describe, is_ok, is_supported
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.wording import Description, Known, Tone, workflow_name

_RUN = "invocation."
_REQUESTED = "invocation.requested"
_STARTED = "invocation.started"
_SEARCH = "search"
_SELECTION = "selection"
_VERIFIED, _UNKNOWN = "invocation.verified", "Unknown"
_VERDICT = "governance.verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One event in words. `elapsed` is in seconds since the trace began; `caller` is empty if it is the one before."""

    seq: int
    at: datetime
    elapsed: float
    caller: str
    description: Description


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A trace in words. `outcomes` are what its runs came to, or how far it went without one; `took` is in seconds."""

    trace_id: str
    outcomes: tuple[Description, ...]
    began: datetime
    took: float
    analysis: str
    passages: tuple[Passage, ...]


def narrate(
    trace_id: str,
    events: Iterable[StoredEvent],
    *,
    began: datetime | None = None,
    shown: Container[int] | None = None,
) -> Story:
    """The story of a trace's events, in their order. What is damaged is described as far as it can be read.

    `began` is when the trace began, where these are not its first events; `shown` are the numbers of those that get a
    passage, all of them without it.

    Raises:
        ValueError: there are no events.
    """
    scenes = list(_scenes(events))
    if not scenes:
        raise ValueError("a story needs events")
    began = began or scenes[0].at
    descriptions = list(_descriptions(scenes, shown=shown))
    return Story(
        trace_id=trace_id,
        outcomes=_outcomes(scenes, descriptions),
        began=began,
        took=(scenes[-1].at - began).total_seconds(),
        analysis=next((said for scene in scenes if (said := scene.payload.text("analysis"))), ""),
        passages=tuple(_passages(scenes, descriptions, began=began, shown=shown)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """An event, read. One that is damaged has the time of the one before."""

    seq: int
    at: datetime
    kind: str
    payload: Recorded
    damaged: bool


def _scenes(events: Iterable[StoredEvent]) -> Iterator[_Scene]:
    at = None
    for event in events:
        damaged = not is_event(event.content)
        at = at if damaged and at is not None else event.at
        yield _Scene(seq=event.seq, at=at, kind=event.kind, payload=Recorded(event.payload), damaged=damaged)


@dataclass(slots=True)
class _Reader:
    """What has been read so far, and what has to be known before: `chosen`, as `_chosen` has it."""

    chosen: Mapping[int, frozenset[str]]
    names: dict[str, str] = field(default_factory=dict)
    searches: list[_Scene] = field(default_factory=list)
    started: dict[str, datetime] = field(default_factory=dict)
    dry: set[str] = field(default_factory=set)

    def read(self, scene: _Scene) -> Description:
        if scene.damaged:
            return Description(title=f"{scene.kind}: the event is damaged and cannot be read", tone=Tone.BAD)
        self._learn(scene)
        begun = self.started.get(scene.payload.text("invocation_id"))
        known = Known(
            names=self.names,
            chosen=self.chosen.get(scene.seq, frozenset()),
            found=next((_found(search) for search in _sources(scene, self.searches)), ()),
            dry=scene.payload.text("invocation_id") in self.dry,
            ran_for=None if begun is None else (scene.at - begun).total_seconds(),
        )
        return describe(scene.kind, scene.payload, known=known)

    def skip(self, scene: _Scene) -> None:
        """Know of an event without describing it."""
        if not scene.damaged:
            self._learn(scene)

    def _learn(self, scene: _Scene) -> None:
        invocation_id = scene.payload.text("invocation_id")
        if _is_search(scene):
            candidates = scene.payload.inner("result").each("candidates")
            self.searches.append(scene)
            self.names |= {each.text("version_id"): name for each in candidates if (name := each.text("workflow"))}
        elif invocation_id and (name := workflow_name(scene.payload)):
            self.names.setdefault(invocation_id, name)
        if invocation_id and _is_dry(scene):
            self.dry.add(invocation_id)
        if scene.kind == _STARTED:
            self.started[invocation_id] = scene.at


def _descriptions(scenes: Sequence[_Scene], *, shown: Container[int] | None) -> Iterator[Description | None]:
    """Each event in words; None for one that is not shown and decides nothing."""
    reader = _Reader(chosen=_chosen(scenes))
    for scene in scenes:
        if shown is None or scene.seq in shown or scene is scenes[-1] or _decides(scene):
            yield reader.read(scene)
        else:
            reader.skip(scene)
            yield None


def _passages(
    scenes: Sequence[_Scene],
    descriptions: Sequence[Description | None],
    *,
    began: datetime,
    shown: Container[int] | None,
) -> Iterator[Passage]:
    speaker = ""
    for scene, description in zip(scenes, descriptions, strict=True):
        caller = scene.payload.text("caller")
        if description is not None and (shown is None or scene.seq in shown):
            yield Passage(
                seq=scene.seq,
                at=scene.at,
                elapsed=(scene.at - began).total_seconds(),
                caller="" if caller == speaker else caller,
                description=description,
            )
        speaker = caller or speaker


def _decides(scene: _Scene) -> bool:
    """Whether an outcome may be made of it."""
    return scene.kind.startswith(_RUN) or scene.kind in (_SELECTION, _VERDICT)


def _chosen(scenes: Sequence[_Scene]) -> Mapping[int, frozenset[str]]:
    """The versions that were selected or really run, by the `seq` of the search that returned them to the chooser."""
    begun = {scene.payload.text("invocation_id") for scene in scenes if scene.kind == _STARTED and not _is_dry(scene)}
    chosen: defaultdict[int, frozenset[str]] = defaultdict(frozenset)
    searches: list[_Scene] = []
    selected: set[str] = set()
    for scene in scenes:
        version_id = ""
        if _is_search(scene):
            searches.append(scene)
        elif _is_choice(scene):
            version_id = scene.payload.inner("result").text("version_id")
            selected.add(version_id)
        elif scene.kind == _REQUESTED and scene.payload.text("invocation_id") in begun - {""}:
            version_id = scene.payload.text("version_id")
            if version_id in selected and not scene.payload.text("search_id"):
                continue  # The selection has said from which search.
        sources = (each for each in _sources(scene, searches) if version_id in _found(each, returned=True))
        if version_id and (source := next(sources, None)):
            chosen[source.seq] |= {version_id}
    return chosen


def _sources(choice: _Scene, searches: Sequence[_Scene]) -> Iterator[_Scene]:
    """The searches that a choice can be from: the one that it names; else all before it, the last first."""
    named = choice.payload.text("search_id")
    return (each for each in reversed(searches) if not named or each.payload.text("search_id") == named)


def _found(search: _Scene, *, returned: bool = False) -> tuple[str, ...]:
    """The versions among the candidates of a search, in its order; `returned`: only those that its answer held."""
    candidates = search.payload.inner("result").each("candidates")
    return tuple(each.text("version_id") for each in candidates if each.flag("returned") or not returned)


def _is_search(scene: _Scene) -> bool:
    return scene.kind == _SEARCH and is_ok(scene.payload)


def _is_choice(scene: _Scene) -> bool:
    return scene.kind == _SELECTION and is_ok(scene.payload) and is_supported(scene.payload)


def _is_dry(scene: _Scene) -> bool:
    """Whether a dry run was asked for or begun; what was refused says so among its arguments."""
    return scene.payload.flag("dry_run") or scene.payload.inner("arguments").flag("dry_run")


def _outcomes(scenes: Sequence[_Scene], descriptions: Sequence[Description | None]) -> tuple[Description, ...]:
    """The newest of each run, after the choice where all were dry; without a run, how far it went."""
    runs: dict[str, Description] = {}
    dry: set[str] = set()
    verdict: Description | None = None
    choices: dict[bool, Description] = {}
    for scene, description in zip(scenes, descriptions, strict=True):
        if description is None:
            continue
        if scene.kind.startswith(_RUN):
            invocation_id = scene.payload.text("invocation_id")
            # That nobody knows whether it helped says less than how it ended.
            if scene.kind != _VERIFIED or scene.payload.text("outcome") != _UNKNOWN:
                runs[invocation_id] = description
            if _is_dry(scene):
                dry.add(invocation_id)
        elif scene.kind == _SELECTION and is_ok(scene.payload):
            choices[is_supported(scene.payload)] = description
        elif scene.kind == _VERDICT:
            verdict = description
    if runs.keys() - dry or (runs and not choices):
        return tuple(runs.values())
    if choices:
        choice = choices.get(True) or choices[False]
        nothing = "nothing was run for real" if runs else "nothing was run"
        return (Description(title=f"{choice.title}; {nothing}"), *runs.values())
    if verdict is not None:
        return (verdict,)
    if any(scene.kind == _SEARCH for scene in scenes):
        return (Description(title="nothing was chosen and nothing was run"),)
    return tuple(description for description in descriptions[-1:] if description is not None)
