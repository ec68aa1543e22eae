"""The events of one incident, from the first search to the outcome, as a trace holds them."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from formulary_catalog.domain.audit.chain import GENESIS, IntegrityFinding, StoredEvent, digest
from formulary_catalog.domain.audit.narration import Story, narrate
from formulary_catalog.domain.audit.verification import Replay
from formulary_catalog.domain.reading import TraceAnswer
from formulary_catalog.services.audit.stories import trace_answer
from formulary_catalog.store.audit.one_trace import TracePart

AGENT = "system:serviceaccount:agents:holmesgpt"
BEGAN = datetime(2026, 11, 22, 23, 58, 1, tzinfo=UTC)
RUN = "inv-0123456789abcdef0123"
CHOSEN = "wf_ver_0000000000000000000a"


def recalled(trace_id: str, happened: Iterable[tuple[float, str, Any]]) -> list[StoredEvent]:
    """The events of a chain, from (seconds since it began, kind, payload)."""
    events: list[StoredEvent] = []
    previous = GENESIS
    for seq, (seconds, kind, payload) in enumerate(happened, start=1):
        at = BEGAN + timedelta(seconds=seconds)
        fields = {"at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", "kind": kind, "payload": payload, "previous": previous}
        body = json.dumps(
            {**fields, "seq": seq, "trace_id": trace_id}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        previous = digest(body)
        event = StoredEvent(trace_id=trace_id, seq=seq, kind=kind, caller="", search_id="", body=body, hash=previous)
        events.append(event)
    return events


def story(*happened: tuple[float, str, Any]) -> Story:
    """The story of these events, from (seconds since the first, kind, payload)."""
    return narrate("rr-2026-0042", recalled("rr-2026-0042", happened))


def answer(*happened: tuple[float, str, Any], findings: tuple[IntegrityFinding, ...] = ()) -> TraceAnswer:
    """These events as the answer that commands and pages show."""
    events = recalled("rr-2026-0042", happened)
    replay = Replay(findings=findings, event_count=len(events), trace_count=1)
    part = TracePart(
        after=0, upto=len(events), total=len(events), before=None, events=events, began=events[0].at, replay=replay
    )
    return trace_answer("rr-2026-0042", events, part=part, last=part, namespaces=["shop"])


def call(**payload: Any) -> dict[str, Any]:
    """What is recorded of a call of the agent that went well."""
    return {"caller": AGENT, "outcome": "ok", "analysis": "shop/oom", **payload}


def candidate(version_id: str, workflow: str, *, confidence: float, returned: bool = True) -> dict[str, Any]:
    """A workflow that a search found."""
    return {
        "workflow": workflow,
        "version_id": version_id,
        "cosine": 0.62,
        "confidence": confidence,
        "match_reasons": ["declared for signal-type oomkilled", "words: oomkilled, memory"],
        "returned": returned,
    }


SEARCH = call(
    mode="hybrid",
    arguments={
        "query": "OOMKilled critical",
        "labels": {"priority": ["P0", "P1"], "component": ["v1/Pod"]},
        "exclude_keywords": ["drain"],
    },
    result={
        "total": 3,
        "candidates": [
            candidate("wf_ver_0000000000000000000b", "formulary/restart@2.0.0", confidence=0.81),
            candidate(CHOSEN, "formulary/oom-raise@1.0.0", confidence=0.6),
            candidate("wf_ver_0000000000000000000c", "formulary/scale-out@1.0.0", confidence=0.2, returned=False),
        ],
    },
)
DETAILS = call(arguments={"workflow_id": CHOSEN, "version": ""}, result={"version_id": CHOSEN})
NOT_FOUND = call(
    outcome="NotFound", arguments={"workflow_id": "drain-node"}, result={"error": "workflow 'drain-node' is not found"}
)
SELECTION = call(
    arguments={"workflow_id": "oom-raise", "version": "1.0.0", "reasoning": "killed at its limit", "confidence": 0.8},
    result={"version_id": CHOSEN, "namespace": "formulary"},
)
UNSUPPORTED = {
    **SELECTION,
    "search_id": "5f0c2a9b-1d3e-4f60-8182-93a4b5c6d7e8",
    "result": {**SELECTION["result"], "supported": False},
}
REQUESTED = {
    "caller": AGENT,
    "invocation_id": RUN,
    "workflow_id": "formulary/oom-raise",
    "version": "1.0.0",
    "version_id": CHOSEN,
    "namespace": "shop",
    "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"},
    "input": {"LIMIT": "512Mi", "TOKEN": "sha256:0d1e"},
    "timeout_seconds": 600.0,
    "dry_run": False,
}
_RULE = {
    "contract": "formulary/production",
    "id": "ask-first",
    "effect": "REQUIRE_EVIDENCE",
    "rationale": "people watch",
}


def decided(outcome: str, **others: Any) -> dict[str, Any]:
    """What is recorded of a decision on the run."""
    return {
        "caller": AGENT,
        "invocation_id": RUN,
        "outcome": outcome,
        "gate": {
            "version": "1.0.0",
            "decision": "ALLOW",
            "risks": [{"severity": "medium", "category": "environment", "message": "the environment is production"}],
        },
        "rules": [_RULE],
        **others,
    }


WAITS = decided(
    "AWAIT",
    why=["REQUIRE_EVIDENCE by rule ask-first of contract formulary/production (people watch)"],
    missing=["an approval"],
    message="Waits for an approval: people watch.",
    phase="AwaitingApproval",
)
ALLOWED = decided(
    "ALLOW", why=["approved by alice"], missing=[], message="Allowed: approved by alice.", phase="Running"
)
APPROVED = {"caller": "alice", "invocation_id": RUN, "approver": "alice", "reason": "the limit is too low indeed"}
STARTED = {"caller": "formulary-operator", "invocation_id": RUN, "dry_run": False}
FINISHED = {
    "caller": "formulary-operator",
    "invocation_id": RUN,
    "phase": "Succeeded",
    "reason": "Completed",
    "message": "",
    "outputs": {"limit": "512Mi"},
    "duration_seconds": 42.25,
    "reference": {"kind": "Job", "name": RUN, "namespace": "shop"},
}
HAPPENED: tuple[tuple[float, str, Mapping[str, Any]], ...] = (
    (0, "search", SEARCH),
    (2.1, "details", DETAILS),
    (2.9, "details", NOT_FOUND),
    (9, "selection", SELECTION),
    (12, "invocation.requested", REQUESTED),
    (12.02, "invocation.decided", WAITS),
    (180, "invocation.approved", APPROVED),
    (181, "invocation.decided", ALLOWED),
    (181.01, "invocation.started", STARTED),
    (223.26, "invocation.finished", FINISHED),
)
