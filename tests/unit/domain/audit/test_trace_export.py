"""The files of an exported trace: the events byte by byte as they were sealed, the verdict, what verification says."""

import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem, StoredEvent
from formulary_catalog.domain.audit.export import FileName, directory_name, event_line, trace_files, verdict_of
from formulary_catalog.domain.audit.verification import Replay
from support import incident
from support.incident import call, recalled

TRACE = "rr-2026-0042"
EDITED = IntegrityFinding(problem=Problem.EDITED, message="the body was changed", trace_id=TRACE, seq=3, last=3)
RECOMPUTE = (
    r"""sed -E 's/,"hash":"[0-9a-f]{64}"\}$/}/' | while IFS= read -r line; do printf %s "$line" | sha256sum; done"""
)


def trace(*happened: tuple[float, str, Any]) -> list[StoredEvent]:
    return recalled(TRACE, happened or incident.HAPPENED)


def files(events: list[StoredEvent], *findings: IntegrityFinding) -> dict[FileName, str]:
    replay = Replay(findings=findings, event_count=len(events), trace_count=1)
    return trace_files(TRACE, events, replay=replay)


def test_an_export_has_the_files_that_an_auditor_expects() -> None:
    events = trace()
    written = files(events, EDITED)
    assert list(written) == ["events.ndjson", "verdict.json", "verdict.md", "replay.json", "diff.json"]
    assert json.loads(written["replay.json"]) == {
        "replay": {
            "status": "FAIL",
            "pass": False,
            "event_count": len(events),
            "error_count": 1,
            "checks": {"schema_valid": True, "hash_chain_valid": False, "structure_valid": True},
        },
        "trace_id": TRACE,
    }
    assert json.loads(written["diff.json"]) == {
        "trace_id": TRACE,
        "discrepancies": [
            {"problem": "edited", "trace_id": TRACE, "first": 3, "last": 3, "message": "the body was changed"}
        ],
    }
    assert len(written["events.ndjson"].splitlines()) == len(events)


def test_an_auditor_recomputes_the_hashes_with_plain_tools(tmp_path: Path) -> None:
    exported = tmp_path / "events.ndjson"
    odd = call(arguments={"query": 'quote " backslash \\ newline \n ümlaut 🚀'}, result={"number": 1e-07})
    exported.write_text(files(trace(*incident.HAPPENED, (300, "search", odd)))["events.ndjson"])
    shell = shutil.which("bash")
    assert shell is not None
    with exported.open() as lines:
        done = subprocess.run([shell, "-c", RECOMPUTE], stdin=lines, capture_output=True, text=True, check=True)
    recomputed = [line.split()[0] for line in done.stdout.splitlines()]
    stored = [json.loads(line)["hash"] for line in exported.read_text().splitlines()]
    previous = [json.loads(line)["previous"] for line in exported.read_text().splitlines()]
    assert recomputed == stored
    assert previous == ["0" * 64, *stored[:-1]]


@given(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False) | st.integers(), max_size=4))
def test_a_line_without_its_hash_is_the_text_that_was_hashed(payload: dict[str, Any]) -> None:
    (event,) = trace((0, "search", payload))
    line = event_line(event)
    assert json.loads(line) == {**json.loads(event.body), "hash": event.hash}
    assert hashlib.sha256(re.sub(r',"hash":"[0-9a-f]{64}"\}$', "}", line).encode()).hexdigest() == event.hash


@pytest.mark.parametrize("body", ["", "no JSON", "[1]", "{}", '{"a":1} ', '{"a":\n1}', '{"hash":"x"}', "[" * 100_000])
def test_a_body_that_tampering_left_behind_is_exported_as_it_is(body: str) -> None:
    line = event_line(replace(trace()[0], body=body, hash='"x'))
    assert "\n" not in line
    assert json.loads(line) == {"body": body, "hash": '"x'}


@pytest.mark.parametrize(
    ("happened", "decision", "why"),
    [
        ([("search", incident.SEARCH)], "ALLOW", ["every call passed the gate as read-only"]),
        (
            [("invocation.decided", incident.WAITS), ("invocation.decided", incident.ALLOWED)],
            "ALLOW",
            ["approved by alice"],
        ),
        ([("invocation.decided", incident.WAITS)], "UNKNOWN", incident.WAITS["why"]),
        ([("invocation.decided", incident.decided("BLOCK", why=["no"]))], "BLOCK", ["no"]),
        ([("invocation.decided", {"outcome": ["odd"]})], "UNKNOWN", []),
        ([("drill.ended", {})], "UNKNOWN", []),
    ],
)
def test_the_verdict_is_the_last_decision(happened: list[tuple[str, Any]], decision: str, why: list[str]) -> None:
    verdict = verdict_of(trace(*((float(second), *event) for second, event in enumerate(happened))))
    assert (verdict["final_decision"], verdict["why"]) == (decision, why)
    assert verdict.keys() == {
        "version",
        "decision_id",
        "final_decision",
        "summary",
        "why",
        "next_steps",
        "confidence",
    }


def test_a_verdict_that_was_given_is_exported_unchanged() -> None:
    given_one = {"version": "1.0.0", "final_decision": "DEGRADE", "summary": "*dry*", "why": ["<b>"], "more": [1]}
    written = files(trace((0, "governance.verdict", call(result={"verdict": given_one}))))
    assert json.loads(written["verdict.json"]) == given_one
    assert "\\*dry\\*" in written["verdict.md"]
    assert "- &lt;b&gt;" in written["verdict.md"]


def test_the_page_tells_the_decision_and_the_story() -> None:
    page = files(trace())["verdict.md"]
    assert page.startswith(f"# {TRACE}: ALLOW\n\nAllowed: approved by alice.\n")
    assert "- 00:01:44, +3 min 43 s: **run of formulary/oom-raise@1.0.0 succeeded after 42 s**" in page


@pytest.mark.parametrize(
    ("trace_id", "name"),
    [
        ("rr-2026-0042", "rr-2026-0042"),
        ("..", "%2E."),
        (".", "%2E"),
        ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
        ("shop/oom", "shop%2Foom"),
        ("50%", "50%25"),
        ("a\0b\n", "a%00b%0A"),
        ("ü", "%C3%BC"),
    ],
)
def test_a_trace_id_never_is_a_path(trace_id: str, name: str) -> None:
    assert directory_name(trace_id) == name


@given(st.text(min_size=1, max_size=253), st.text(min_size=1, max_size=253))
def test_no_two_traces_share_a_directory(one: str, other: str) -> None:
    name = directory_name(one)
    assert len(name.encode()) <= 255
    assert re.fullmatch(r"[A-Za-z0-9_~%-][A-Za-z0-9_.~%-]*", name)
    assert (name == directory_name(other)) is (one == other)


def test_the_page_of_a_dry_run_says_that_nothing_was_chosen() -> None:
    events = trace(
        (0, "search", incident.SEARCH),
        (1, "invocation.requested", {**incident.REQUESTED, "dry_run": True}),
        (2, "invocation.started", {**incident.STARTED, "dry_run": True}),
        (3, "invocation.finished", {**incident.FINISHED, "reason": "DryRun"}),
    )
    page = files(events)["verdict.md"]
    assert "chosen" not in page
    assert "dry run of formulary/oom-raise@1.0.0 succeeded" in page
