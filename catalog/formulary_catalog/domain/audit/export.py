"""A trace as files that outlive the database: the events as they were sealed, the verdict, what verification says."""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from formulary_catalog.domain.audit.chain import StoredEvent
from formulary_catalog.domain.audit.narration import Passage, Story, narrate
from formulary_catalog.domain.audit.payload import Recorded
from formulary_catalog.domain.audit.verification import Replay
from formulary_catalog.domain.audit.wording import spell_duration
from formulary_catalog.domain.governance.gate import GateDecision
from formulary_catalog.domain.governance.verdict import Verdict

FileName: TypeAlias = Literal["events.ndjson", "verdict.json", "verdict.md", "replay.json", "diff.json"]
_LONGEST_NAME = 150
_RUN_DECISIONS = {
    "ALLOW": GateDecision.ALLOW,
    "DEGRADE": GateDecision.DEGRADE,
    "AWAIT": GateDecision.UNKNOWN,
    "BLOCK": GateDecision.BLOCK,
}
_READS = frozenset({"search", "details", "list", "selection", "status"})
_READING = "read."


def directory_name(trace_id: str) -> str:
    """A name for the directory of a trace: readable, never a path, and never the same for two traces."""
    name = quote(trace_id, safe="", errors="surrogatepass")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST_NAME:
        # No quoted name holds two percent signs in a row.
        name = f"{name[:_LONGEST_NAME]}%%{sha256(trace_id.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return name


def event_line(event: StoredEvent) -> str:
    """One event as a line of JSON: the text that was hashed, with the hash as its last field.

    Without `,"hash":"…"` it is the hashed text again, byte by byte. A text that is no object, which only tampering
    leaves behind, is given as a string.
    """
    try:
        fields = json.loads(event.body)
    except (ValueError, RecursionError):
        fields = None
    whole = event.body.endswith("}") and "\n" not in event.body
    if whole and isinstance(fields, dict) and fields and "hash" not in fields:
        return f'{event.body[:-1]},"hash":{json.dumps(event.hash, ensure_ascii=False)}}}'
    return json.dumps({"body": event.body, "hash": event.hash}, ensure_ascii=False, separators=(",", ":"))


def trace_files(trace_id: str, events: Sequence[StoredEvent], *, replay: Replay) -> dict[FileName, str]:
    """The files of one trace, by name. `replay` is what verification says.

    Raises:
        ValueError: there are no events.
    """
    verdict = verdict_of(events)
    story = narrate(trace_id, events)
    return {
        "events.ndjson": "".join(f"{event_line(event)}\n" for event in events),
        "verdict.json": _json(verdict),
        "verdict.md": _verdict_page(verdict, story=story),
        "replay.json": _json({"replay": replay_report(replay), "trace_id": trace_id}),
        "diff.json": _json({"trace_id": trace_id, "discrepancies": discrepancies(replay)}),
    }


def verdict_of(events: Sequence[StoredEvent]) -> dict[str, Any]:
    """The last word of governance in a trace: a verdict that was given, or the decision on a run, or that all was read.

    What was decided on a run is not estimated, so its confidence is 1; its id is the beginning of its event's hash.
    """
    for event in reversed(events):
        payload = Recorded(event.payload)
        if event.kind == "governance.verdict" and (given := payload.inner("result").inner("verdict")):
            return given.as_dict()
        if event.kind == "invocation.decided":
            return _verdict_on_run(payload, event=event)
    reads = all(event.kind in _READS or event.kind.startswith(_READING) for event in events)
    return Verdict(
        decision_id=_decision_id(events[-1]) if events else "",
        final_decision=GateDecision.ALLOW if reads else GateDecision.UNKNOWN,
        summary="Only reads: nothing was asked to run." if reads else "No decision is recorded in this trace.",
        why=("every call passed the gate as read-only",) if reads else (),
        next_steps=(),
        confidence=1.0 if reads else 0.0,
    ).as_json()


def replay_report(replay: Replay) -> dict[str, Any]:
    """What verification came to, as `governance_replay` says it."""
    return {
        "status": replay.status,
        "pass": replay.passed,
        "event_count": replay.event_count,
        "error_count": replay.error_count,
        "checks": replay.checks,
    }


def discrepancies(replay: Replay) -> list[dict[str, Any]]:
    """Each finding as JSON; `trace_id` is empty for one about checkpoints."""
    return [
        {
            "problem": finding.problem.value,
            "trace_id": finding.trace_id,
            "first": finding.seq,
            "last": max(finding.seq, finding.last),
            "message": finding.message,
        }
        for finding in replay.findings
    ]


def _verdict_on_run(payload: Recorded, *, event: StoredEvent) -> dict[str, Any]:
    return Verdict(
        decision_id=_decision_id(event),
        final_decision=_RUN_DECISIONS.get(payload.text("outcome"), GateDecision.UNKNOWN),
        summary=payload.text("message"),
        why=tuple(payload.texts("why")),
        next_steps=tuple(f"Give {missing}." for missing in payload.texts("missing")),
        confidence=1.0,
    ).as_json()


def _decision_id(event: StoredEvent) -> str:
    return f"dec_{event.hash[:20]}"


def _verdict_page(verdict: Mapping[str, Any], *, story: Story) -> str:
    recorded = Recorded(verdict)
    parts = [f"# {_escaped(story.trace_id)}: {recorded.text('final_decision') or 'UNKNOWN'}"]
    if summary := recorded.text("summary"):
        parts.append(_escaped(summary))
    for heading, name in (("Why", "why"), ("Next steps", "next_steps")):
        if recorded.texts(name):
            parts.append(f"## {heading}")
            parts.append("\n".join(f"- {_escaped(each)}" for each in recorded.texts(name)))
    parts.append("## What happened")
    parts.append(f"Times are UTC; the trace began on {story.began:%Y-%m-%d %H:%M:%S}.")
    parts.append("\n".join(line for passage in story.passages for line in _passage_lines(passage)))
    return "\n\n".join(parts) + "\n"


def _passage_lines(passage: Passage) -> Iterator[str]:
    by = f" ({_escaped(passage.caller)})" if passage.caller else ""
    elapsed = spell_duration(passage.elapsed)
    yield f"- {passage.at:%H:%M:%S}, +{elapsed}: **{_escaped(passage.description.title)}**{by}"
    for line in passage.description.lines:
        margin = "  " if line.label else "    "
        yield f"{margin}- {_escaped(f'{line.label} {line.text}'.strip())}"


def _escaped(text: str) -> str:
    """Text of others as one line that Markdown shows as it is."""
    harmless = html.escape(" ".join(text.split()), quote=False)
    return "".join(f"\\{character}" if character in "\\`*_[]|#!" else character for character in harmless)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
