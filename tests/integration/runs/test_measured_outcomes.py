"""What a real Prometheus says of a query over time, and what becomes of one that does not answer."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import AnyHttpUrl

from formulary_catalog.domain.runs.measurement import NotMeasured, OutcomeQueries
from formulary_catalog.domain.runs.outcome import Samples
from formulary_catalog.domain.runs.run import RunTarget
from formulary_catalog.errors import Unavailable
from formulary_operator.measuring import Measuring
from support.alerting import prometheus

UNTIL = datetime(2026, 11, 29, 12, 0, 0, 700_000, tzinfo=UTC)
BEGAN, WELL_FROM = UNTIL - timedelta(minutes=16), UNTIL - timedelta(minutes=5)
NAMED = 'label_replace(vector(time()), "namespace", "$namespace", "", "")'
QUERIES = {
    "well": f"{NAMED} >= bool {WELL_FROM.timestamp():.0f}",
    "ends": f"({NAMED} < {WELL_FROM.timestamp():.0f}) >= bool 0",
    "broken": "sum($namespace",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with prometheus() as address:
        yield address


async def samples(name: str, *, url: str) -> Samples:
    measuring = Measuring(OutcomeQueries(url=AnyHttpUrl(url), queries=QUERIES))
    target = RunTarget(kind="Deployment", namespace="shop", name="web")
    return await measuring.samples(name, target=target, since=BEGAN, until=UNTIL)


@pytest.mark.long
async def test_a_range_says_what_was_before_the_run_and_when_it_became_well(url: str) -> None:
    said = await samples("well", url=url)

    (first, before), (last, after) = said[0], said[-1]
    assert (before, after) == (False, True)
    assert first <= BEGAN
    assert timedelta(0) <= UNTIL - last < timedelta(seconds=1)
    assert abs(next(at for at, well in said if well) - WELL_FROM) <= timedelta(seconds=15)


@pytest.mark.long
@pytest.mark.parametrize(("name", "said"), [("ends", "no value at the end"), ("broken", "is refused by Prometheus")])
async def test_a_query_without_a_value_or_that_is_no_promql_says_nothing(url: str, name: str, said: str) -> None:
    with pytest.raises(NotMeasured, match=said):
        await samples(name, url=url)


async def test_a_prometheus_that_cannot_be_reached_is_asked_again_later() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await samples("well", url="http://127.0.0.1:9")
