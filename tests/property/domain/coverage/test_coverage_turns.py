"""Pages of alerts and signals while what is wanted changes."""

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.coverage.turns import LEADERS, Listed, place_of_name, turn_of
from formulary_catalog.domain.cursor import MAX_CURSOR_LENGTH, TwoLists, cursor, lists_of
from formulary_catalog.domain.workflows.labels import fold

NAMES = st.lists(st.text(min_size=1, max_size=12), max_size=40, unique_by=fold)
QUESTION = {"list": "coverage"}


@given(NAMES, st.data())
def test_each_is_listed_once_whatever_is_wanted_and_whatever_comes_and_goes(
    names: list[str], data: st.DataObject
) -> None:
    places = sorted({place_of_name(name) for name in names})
    assert len(places) == len(names)
    passing = [place_of_name(f"passing {number}") for number in range(3)]
    wanted = st.fixed_dictionaries(dict.fromkeys(places, st.integers(0, 3))).flatmap(
        lambda known: st.sets(st.sampled_from(passing)).map(lambda some: known | dict.fromkeys(some, 1))
    )
    listed, pages = Listed(), list[str]()
    while (turn := turn_of(data.draw(wanted), listed=listed)).places:
        number = data.draw(st.integers(1, 20))
        pages += turn.places[:number]
        text = cursor(TwoLists(*turn.after(number), *listed), question=QUESTION)
        assert len(text) <= MAX_CURSOR_LENGTH
        listed = Listed(*lists_of(text, question=QUESTION)[:2])
    assert sorted(place for place in pages if place not in passing) == places


@given(NAMES, st.data())
def test_the_first_page_begins_with_what_is_wanted_most(names: list[str], data: st.DataObject) -> None:
    demand = {place_of_name(name): data.draw(st.integers(0, 3)) for name in names}
    first = [demand[place] for place in turn_of(demand, listed=Listed()).places[:LEADERS]]
    asked_for = [number for number in sorted(demand.values(), reverse=True) if number][:LEADERS]
    assert first[: len(asked_for)] == asked_for


def test_cursors_of_the_longest_names_are_accepted() -> None:
    places = [place_of_name(f"{letter * 200}{number}") for letter in "a\U0001f600" for number in range(LEADERS)]
    full = turn_of(dict.fromkeys(places, 1), listed=Listed()).after(len(places))
    assert len(cursor(TwoLists(*full, *full), question=QUESTION)) <= MAX_CURSOR_LENGTH
