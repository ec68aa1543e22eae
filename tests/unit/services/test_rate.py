"""How often one caller may ask."""

import pytest

from formulary_catalog.errors import RateLimited
from formulary_catalog.services.analytics import Rate


def test_a_caller_has_its_calls_within_any_minute_and_others_have_their_own() -> None:
    now = [0.0]
    rate = Rate(2, clock=lambda: now[0])
    rate.count("alice")
    now[0] = 40.0
    rate.count("alice")
    rate.count("bob")
    now[0] = 59.0
    with pytest.raises(
        RateLimited, match="alice has run 2 statements within a minute, which is the most; retry in 1 s"
    ):
        rate.count("alice")
    now[0] = 60.0
    rate.count("alice")
    with pytest.raises(RateLimited) as refused:
        rate.count("alice")
    assert refused.value.retry_after == 40
    now[0] = 500.0
    for _ in range(2):
        rate.count("alice")
