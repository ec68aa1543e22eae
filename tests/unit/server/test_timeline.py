"""The timeline of an incident: one picture for any events, which says in words what is to be seen."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.audit.passages import KINDS
from formulary_catalog.domain.audit.stages import Stage, stage_of
from formulary_catalog.domain.audit.wording import Tone
from formulary_catalog.server.console.pictures.timeline import MOST_MARKS, Moment, timeline

SVG = "{http://www.w3.org/2000/svg}"
BEGAN = datetime(2026, 11, 22, 23, 58, 1, tzinfo=UTC)
HOSTILE = '</title><script>alert(1)</script>" onload="x\x00\x1b[31m\u202e\ud800'


def moment(seconds: float, stage: Stage, *, tone: Tone = Tone.PLAIN, title: str = "searched", seq: int = 1) -> Moment:
    return Moment(seq=seq, at=BEGAN + timedelta(seconds=seconds), stage=stage, tone=tone, title=title)


def drawn(*moments: Moment, title: str = "What happened") -> ElementTree.Element:
    return ElementTree.fromstring(timeline(moments, title=title))


def marks(picture: ElementTree.Element) -> list[str]:
    return [group.findtext(f"{SVG}title") or "" for group in picture.iter(f"{SVG}g")]


def test_it_names_itself_and_says_in_words_what_it_shows() -> None:
    picture = drawn(moment(0, Stage.SEARCH), moment(180, Stage.APPROVAL, tone=Tone.GOOD), title="Incident rr-1")
    assert picture.get("role") == "img"
    title, description = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert picture.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text == "Incident rr-1"
    assert description.text == "2 events in 3 min 0 s: Search, Approval. The list below says the same."
    assert "+3 min 0 s" in "".join(picture.itertext())


def test_events_that_are_alike_and_follow_each_other_are_one_mark() -> None:
    picture = drawn(
        *(moment(second, Stage.SEARCH, title=f"search {second}") for second in range(3)),
        moment(9, Stage.CHOICE),
        moment(10, Stage.SEARCH),
    )
    assert [mark.partition(": ")[2] for mark in marks(picture)] == ["search 0 and 2 more", "searched", "searched"]


def test_what_went_wrong_differs_by_more_than_its_colour() -> None:
    picture = drawn(moment(0, Stage.RUN, tone=Tone.GOOD), moment(1, Stage.RUN, tone=Tone.BAD))
    good, bad = picture.iter(f"{SVG}g")
    assert (good.get("class"), bad.get("class")) == ("good", "bad")
    assert [child.tag for child in good] != [child.tag for child in bad]


def test_a_long_story_is_cut_and_says_so() -> None:
    stages = (Stage.SEARCH, Stage.CHOICE)
    picture = drawn(*(moment(number, stages[number % 2]) for number in range(MOST_MARKS + 7)))
    assert len(marks(picture)) == MOST_MARKS
    assert "The last 7 are not drawn." in (picture.findtext(f"{SVG}desc") or "")


def test_an_empty_story_is_a_picture_too() -> None:
    assert drawn().findtext(f"{SVG}desc") == "Nothing is recorded."


@given(
    st.lists(
        st.builds(
            Moment,
            seq=st.integers(),
            at=st.datetimes(timezones=st.just(UTC)),
            stage=st.sampled_from(Stage),
            tone=st.sampled_from(Tone),
            title=st.text() | st.just(HOSTILE),
        ),
        max_size=12,
    ),
    st.text() | st.just(HOSTILE),
)
def test_any_events_make_well_formed_xml_without_anything_that_runs(moments: list[Moment], title: str) -> None:
    picture = drawn(*moments, title=title)
    elements = list(picture.iter())
    assert {element.tag.removeprefix(SVG) for element in elements} <= {
        *("svg", "title", "desc", "text", "line", "polyline", "g", "circle", "rect")
    }
    assert not [name for element in elements for name in element.attrib if name.startswith("on") or name == "style"]
    places = [float(circle.get("cx", 0)) for circle in picture.iter(f"{SVG}circle")]
    assert places == sorted(places)


def test_every_kind_of_event_has_a_part_of_the_story() -> None:
    parts = {kind: stage_of(kind) for kind in KINDS}
    assert {part for kind, part in parts.items() if kind.startswith("read.")} == {Stage.READING}
    assert parts["invocation.decided"] is parts["governance.verdict"] is Stage.DECISION
    assert parts["invocation.finished"] is parts["halt.begun"] is Stage.RUN
    assert set(parts.values()) == set(Stage)
