"""How the ends of runs are read from the objects of each engine, and what they put out."""

import json
from typing import Any

import pytest

from formulary_catalog.domain.runs.run import Phase, Reason
from formulary_operator.engines import ENGINES
from formulary_operator.engines.observations import MAX_BYTES, OMITTED


def job_status(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"status": {"startTime": "2026-01-01T10:00:00Z", "conditions": list(conditions), **status}}


def ended_pod(message: str, *, at: str = "2026-01-01T10:00:30Z", name: str = "workflow") -> dict[str, Any]:
    terminated = {"exitCode": 0, "finishedAt": at, "message": message}
    return {"status": {"containerStatuses": [{"name": name, "state": {"terminated": terminated}}]}}


def argo_status(phase: str, *, until: str, message: str = "") -> dict[str, Any]:
    status = {"phase": phase, "message": message, "startedAt": "2026-01-01T10:00:00Z", "finishedAt": until}
    return {"spec": {"activeDeadlineSeconds": 300}, "status": status}


@pytest.mark.parametrize(
    ("document", "phase", "reason", "message"),
    [
        ({}, Phase.RUNNING, Reason.STARTED, ""),
        (job_status(active=1), Phase.RUNNING, Reason.STARTED, ""),
        (job_status({"type": "Complete", "status": "False"}), Phase.RUNNING, Reason.STARTED, ""),
        (job_status({"type": "Complete", "status": "True"}), Phase.SUCCEEDED, Reason.COMPLETED, ""),
        (
            job_status({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}),
            Phase.FAILED,
            Reason.RUN_FAILED,
            "BackoffLimitExceeded: too often",
        ),
        (
            job_status({"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}),
            Phase.TIMED_OUT,
            Reason.DEADLINE_EXCEEDED,
            "DeadlineExceeded",
        ),
    ],
)
def test_how_a_job_stands_is_read_from_its_conditions(
    document: dict[str, Any], phase: Phase, reason: Reason, message: str
) -> None:
    found = ENGINES["job"].observe(document)
    assert (found.phase, found.reason, found.message) == (phase, reason, message)


def test_when_a_run_began_and_ended_is_read_too() -> None:
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T10:00:45Z"}
    found = ENGINES["job"].observe(job_status(complete, completionTime="2026-01-01T10:00:40Z"))
    assert found.started_at is not None
    assert found.finished_at is not None
    assert (found.finished_at - found.started_at).total_seconds() == 40
    without = ENGINES["job"].observe(job_status(complete))
    assert without.finished_at is not None
    assert without.finished_at.second == 45


@pytest.mark.parametrize(
    ("condition", "phase"),
    [
        ({"status": "Unknown", "reason": "Running"}, Phase.RUNNING),
        ({"status": "True", "reason": "Succeeded"}, Phase.SUCCEEDED),
        ({"status": "False", "reason": "Failed"}, Phase.FAILED),
        ({"status": "False", "reason": "Cancelled"}, Phase.FAILED),
        ({"status": "False", "reason": "PipelineRunTimeout"}, Phase.TIMED_OUT),
    ],
)
def test_how_a_pipeline_run_stands_is_read_from_its_condition(condition: dict[str, str], phase: Phase) -> None:
    document = {"status": {"conditions": [{"type": "Succeeded", "message": "m", **condition}]}}
    assert ENGINES["tekton"].observe(document).phase is phase
    assert ENGINES["tekton"].observe(document).message.endswith("m")


@pytest.mark.parametrize(
    ("document", "phase"),
    [
        ({"status": {}}, Phase.RUNNING),
        (argo_status("Pending", until=""), Phase.RUNNING),
        (argo_status("Succeeded", until="2026-01-01T10:06:00Z"), Phase.SUCCEEDED),
        (argo_status("Failed", until="2026-01-01T10:04:59Z"), Phase.FAILED),
        (argo_status("Error", until="2026-01-01T10:00:01Z", message="no pods"), Phase.FAILED),
        (argo_status("Failed", until="2026-01-01T10:05:00Z"), Phase.TIMED_OUT),
    ],
)
def test_how_an_argo_workflow_stands_is_read_from_its_phase_and_its_times(
    document: dict[str, Any], phase: Phase
) -> None:
    assert ENGINES["argo"].observe(document).phase is phase


@pytest.mark.parametrize(
    ("message", "outputs"),
    [
        ('{"replicas": 3, "note": "done"}', {"replicas": 3, "note": "done"}),
        ("==> look\nstep look failed with exit code 1\n", {"message": "==> look\nstep look failed with exit code 1\n"}),
        ("[1, 2]", {"message": "[1, 2]"}),
        ("", {}),
        ('{"a": "b\\u0000c"}', {"a": "b\N{REPLACEMENT CHARACTER}c"}),
        ("[" * 4000, {"message": "[" * 4000}),
    ],
)
def test_outputs_of_a_job_are_its_termination_message(message: str, outputs: dict[str, Any]) -> None:
    assert ENGINES["job"].outputs({}, [ended_pod(message)]) == outputs


def test_outputs_of_a_job_are_those_of_the_container_that_ended_last() -> None:
    first = ended_pod('{"n": 1}', at="2026-01-01T10:00:10Z")
    last = ended_pod('{"n": 2}', at="2026-01-01T10:00:20Z")
    sidecar = ended_pod('{"n": 3}', at="2026-01-01T10:00:30Z", name="proxy")
    assert ENGINES["job"].outputs({}, [last, first, sidecar]) == {"n": 2}
    assert ENGINES["job"].outputs({}, []) == {}


def test_outputs_of_tekton_and_argo_are_their_results() -> None:
    results = [{"name": "replicas", "value": "3"}, {"name": "hosts", "value": ["a"]}, {"value": "nameless"}]
    expected = {"replicas": "3", "hosts": ["a"]}
    assert ENGINES["tekton"].outputs({"status": {"results": results}}, []) == expected
    assert ENGINES["argo"].outputs({"status": {"outputs": {"parameters": results}}}, []) == expected


def test_outputs_that_are_too_large_are_left_out_and_counted() -> None:
    results = [{"name": "log", "value": "x" * MAX_BYTES}, {"name": "replicas", "value": "3"}]
    found = ENGINES["tekton"].outputs({"status": {"results": results}}, [])
    assert found["replicas"] == "3"
    assert "1 of 2 outputs" in found[OMITTED]
    assert len(json.dumps(found).encode()) <= MAX_BYTES
