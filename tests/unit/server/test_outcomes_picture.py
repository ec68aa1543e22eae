"""The picture of how runs ended, by day or by week."""

from typing import Literal
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.reading import OutcomesAnswer, PeriodOutcomes
from formulary_catalog.server.console.pictures.outcomes import outcomes, span

SVG = "{http://www.w3.org/2000/svg}"
COUNTS = st.integers(0, 10_000)
PERIODS = st.lists(st.builds(PeriodOutcomes, begins=st.text(), succeeded=COUNTS, failed=COUNTS), max_size=40)


@given(st.builds(OutcomesAnswer, workflow_id=st.just(""), by=st.sampled_from(["day", "week"]), periods=PERIODS))
def test_any_periods_make_well_formed_xml_with_bars_inside_the_picture(ended: OutcomesAnswer) -> None:
    picture = ElementTree.fromstring(outcomes(ended))
    height = float(picture.get("height", 0))
    bars = list(picture.iter(f"{SVG}rect"))
    assert len(bars) == sum(bool(each.succeeded) + bool(each.failed) for each in ended.periods)
    for bar in bars:
        top, bottom = float(bar.get("y", -1)), float(bar.get("y", -1)) + float(bar.get("height", -1))
        assert 0 <= top <= bottom <= height


@pytest.mark.parametrize(
    ("by", "worst", "said"), [("day", "on", ""), ("week", "in the week from", "week from ")], ids=["day", "week"]
)
def test_it_says_in_words_what_it_shows(by: Literal["day", "week"], worst: str, said: str) -> None:
    periods = [
        PeriodOutcomes(begins="2026-11-14", succeeded=3, failed=0),
        PeriodOutcomes(begins="2026-11-21", succeeded=1, failed=2),
    ]
    ended = OutcomesAnswer(workflow_id="", by=by, periods=periods)
    picture = ElementTree.fromstring(outcomes(ended))
    assert span(ended) == f"the last 2 {by}s"
    assert picture.findtext(f"{SVG}desc") == f"4 succeeded and 2 did not, most of them {worst} 2026-11-21 (2)."
    assert [each.findtext(f"{SVG}title") for each in picture.iter(f"{SVG}g")] == [
        f"{said}2026-11-14: 3 succeeded, 0 did not",
        f"{said}2026-11-21: 1 succeeded, 2 did not",
    ]
