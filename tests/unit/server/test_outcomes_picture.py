"""The picture of how runs ended, day by day."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.reading import DayOutcomes
from formulary_catalog.server.console.pictures.outcomes import outcomes

SVG = "{http://www.w3.org/2000/svg}"
COUNTS = st.integers(0, 10_000)


@given(st.lists(st.builds(DayOutcomes, day=st.text(), succeeded=COUNTS, failed=COUNTS), max_size=40))
def test_any_days_make_well_formed_xml_with_bars_inside_the_picture(days: list[DayOutcomes]) -> None:
    picture = ElementTree.fromstring(outcomes(days))
    height = float(picture.get("height", 0))
    bars = list(picture.iter(f"{SVG}rect"))
    assert len(bars) == sum(bool(day.succeeded) + bool(day.failed) for day in days)
    for bar in bars:
        top, bottom = float(bar.get("y", -1)), float(bar.get("y", -1)) + float(bar.get("height", -1))
        assert 0 <= top <= bottom <= height


def test_it_says_in_words_what_it_shows() -> None:
    days = [
        DayOutcomes(day="2026-11-21", succeeded=3, failed=0),
        DayOutcomes(day="2026-11-22", succeeded=1, failed=2),
    ]
    picture = ElementTree.fromstring(outcomes(days))
    assert picture.findtext(f"{SVG}desc") == "4 succeeded and 2 did not, most of them on 2026-11-22 (2)."
    assert [each.findtext(f"{SVG}title") for each in picture.iter(f"{SVG}g")] == [
        "2026-11-21: 3 succeeded, 0 did not",
        "2026-11-22: 1 succeeded, 2 did not",
    ]
