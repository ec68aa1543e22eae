"""What a run is called, how long it may take, and what may be kept of its input."""

from uuid import UUID

import pytest

from formulary_catalog.domain.runs.run import (
    Phase,
    duration_seconds,
    id_of_object,
    id_of_request,
    is_invocation_id,
    trace_id,
)
from support.runs import request


def test_the_same_key_of_one_caller_is_one_id_and_of_two_callers_two() -> None:
    one = id_of_request(caller="a", idempotency_key="k")
    assert one == id_of_request(caller="a", idempotency_key="k")
    assert (
        len({one, id_of_request(caller="b", idempotency_key="k"), id_of_request(caller="a", idempotency_key="l")}) == 3
    )
    assert is_invocation_id(one)


def test_without_a_key_every_request_has_an_id_of_its_own() -> None:
    assert id_of_request(caller="a", idempotency_key="") != id_of_request(caller="a", idempotency_key="")


def test_an_object_cannot_be_mistaken_for_a_request() -> None:
    assert id_of_object("k") != id_of_request(caller="", idempotency_key="k")


def test_an_event_belongs_to_its_incident_else_to_its_search_else_to_itself() -> None:
    search = UUID(int=5)
    assert trace_id(remediation_id="rr-1", search_id=search, fallback="inv-1") == "rr-1"
    assert trace_id(search_id=search, fallback="inv-1") == f"tr_{search.hex}"
    assert trace_id(fallback="inv-1") == "tr_1"


@pytest.mark.parametrize("remediation_id", [f"tr_{UUID(int=7).hex}", "r" * 254, "rr\0"])
def test_the_id_of_an_incident_leads_into_no_chain_of_others_and_into_none_that_cannot_be(remediation_id: str) -> None:
    assert trace_id(remediation_id=remediation_id, search_id=UUID(int=5), fallback="inv-1") == f"tr_{UUID(int=5).hex}"
    assert trace_id(remediation_id=remediation_id, fallback="inv-1") == "tr_1"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1h30m", 5400), ("45s", 45), (" 2 M ", 120), ("5 minutes", None), ("", None), ("m", None)],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds


def test_every_phase_has_a_state_and_five_of_them_are_the_end() -> None:
    assert {phase.state for phase in Phase} == {
        "pending",
        "awaiting_approval",
        "running",
        "completed",
        "failed",
        "timed_out",
        "cancelled",
        "halted",
    }
    assert sum(phase.is_final for phase in Phase) == 5


def test_what_is_kept_of_a_secret_tells_neither_the_value_nor_that_two_are_equal() -> None:
    one, other = request(secret={"TOKEN": "x"}), request(secret={"TOKEN": "x"})
    assert one.recorded_input["TOKEN"].startswith("sha256:")
    assert one.recorded_input["TOKEN"] != other.recorded_input["TOKEN"]


def test_requests_that_differ_in_a_secret_are_different_requests() -> None:
    one, other = request(key="k", secret={"T": "x"}), request(key="k", secret={"T": "y"})
    assert one.request_hash(salt="s") != other.request_hash(salt="s")
    assert one.request_hash(salt="s") == request(key="k", secret={"T": "x"}).request_hash(salt="s")
