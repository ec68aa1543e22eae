"""Times beside what happened, as pages of the console say them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from formulary_catalog.edges.console.templating import exact, instant, relative

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(), "just now"),
        (timedelta(seconds=-4), "just now"),
        (timedelta(seconds=-5), "5 seconds ago"),
        (timedelta(seconds=59), "in 59 seconds"),
        (timedelta(minutes=-1), "1 minute ago"),
        (timedelta(minutes=59, seconds=59), "in 59 minutes"),
        (timedelta(hours=1), "in 1 hour"),
        (timedelta(hours=-47), "47 hours ago"),
        (timedelta(days=2), "in 2 days"),
        (timedelta(days=-59), "59 days ago"),
        (timedelta(days=-92), "3 months ago"),
    ],
)
def test_a_moment_is_said_by_how_far_it_is(away: timedelta, said: str) -> None:
    assert relative(NOW + away, now=NOW) == said


def test_moments_of_answers_are_read_in_their_zone_and_shown_in_one() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    for given in (NOW, east, east.isoformat(), "2026-03-01T12:00:00.000Z", NOW.replace(tzinfo=None)):
        read = instant(given)
        assert read is not None
        assert read == NOW
        assert exact(read) == "2026-03-01 12:00:00 UTC"
    assert instant("") is None
