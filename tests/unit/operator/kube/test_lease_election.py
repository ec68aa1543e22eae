"""Who may take a lease, and what it then says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from formulary_operator.kube.election import claimed, holder, observed, released, seconds_until_claim

AT = datetime(2031, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)
HELD = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "acquireTime": "2031-01-01T00:00:00.000000Z",
    "renewTime": "2031-01-01T00:00:00.000000Z",
    "leaseTransitions": 3,
}


def _may_claim(spec: dict[str, Any], *, identity: str, after: float = 0.0) -> bool:
    seen = observed(spec, before=None, now=100.0)
    return seconds_until_claim(seen, identity=identity, now=100.0 + after, seconds=15) == 0


@pytest.mark.parametrize("spec", [{}, released(HELD, at=AT), HELD | {"holderIdentity": None}])
def test_a_lease_that_nobody_holds_is_taken_at_once(spec: dict[str, Any]) -> None:
    assert _may_claim(spec, identity="b")


def test_a_lease_is_its_holders_to_renew() -> None:
    assert _may_claim(HELD, identity="a")


def test_a_lease_of_another_is_taken_once_it_has_not_changed_for_its_duration() -> None:
    assert not _may_claim(HELD, identity="b", after=14.9)
    assert _may_claim(HELD, identity="b", after=15.0)


def test_the_holder_decides_how_long_it_counts_as_alive() -> None:
    assert not _may_claim(HELD | {"leaseDurationSeconds": 60}, identity="b", after=59.0)


@pytest.mark.parametrize("seconds", [None, 0, -5, "soon"])
def test_a_record_without_a_sensible_duration_is_honoured_as_long_as_our_own(seconds: Any) -> None:
    spec = HELD | {"leaseDurationSeconds": seconds}
    assert not _may_claim(spec, identity="b", after=14.9)
    assert _may_claim(spec, identity="b", after=15.0)


def test_a_renewal_starts_the_wait_anew_whatever_its_clock_says() -> None:
    first = observed(HELD, before=None, now=100.0)
    renewed = HELD | {"renewTime": "1999-01-01T00:00:00.000000Z"}
    second = observed(renewed, before=first, now=110.0)
    assert seconds_until_claim(second, identity="b", now=124.0, seconds=15) == 1
    assert seconds_until_claim(second, identity="b", now=125.0, seconds=15) == 0


def test_reading_the_same_record_again_does_not_prolong_it() -> None:
    first = observed(HELD, before=None, now=100.0)
    assert observed(dict(HELD), before=first, now=114.0) is first


def test_a_takeover_counts_as_a_transition() -> None:
    assert claimed(HELD, identity="b", seconds=20, at=AT) == {
        "holderIdentity": "b",
        "leaseDurationSeconds": 20,
        "acquireTime": "2031-05-04T03:02:01.123456Z",
        "renewTime": "2031-05-04T03:02:01.123456Z",
        "leaseTransitions": 4,
    }


def test_a_renewal_changes_the_time_alone() -> None:
    assert claimed(HELD, identity="a", seconds=15, at=AT) == HELD | {"renewTime": "2031-05-04T03:02:01.123456Z"}


def test_the_first_holder_is_no_transition() -> None:
    assert claimed({}, identity="a", seconds=15, at=AT)["leaseTransitions"] == 0


def test_a_lease_that_was_given_back_names_nobody_and_keeps_its_count() -> None:
    free = released(HELD, at=AT)
    assert holder(free) == ""
    assert claimed(free, identity="b", seconds=15, at=AT)["leaseTransitions"] == 4
