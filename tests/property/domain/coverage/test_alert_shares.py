"""How namespaces share the room for alerts."""

from itertools import groupby, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.coverage.alerts import by_namespace, shared_room, shares

SIZES = st.dictionaries(st.tuples(st.sampled_from("abcd"), st.sampled_from("pqrst")), st.integers(0, 30), max_size=20)
ROOM = st.integers(0, 120)


@given(SIZES, ROOM)
def test_all_of_the_room_is_used_and_no_more(sizes: dict[tuple[str, str], int], room: int) -> None:
    kept = shared_room(sizes, room=room)
    assert kept.keys() == sizes.keys()
    assert all(0 <= kept[each] <= size for each, size in sizes.items())
    assert sum(kept.values()) == min(room, sum(sizes.values()))


@given(SIZES, ROOM)
def test_no_namespace_lacks_what_another_has_more_of(sizes: dict[tuple[str, str], int], room: int) -> None:
    wanted, given_ = by_namespace(sizes), by_namespace(shared_room(sizes, room=room))
    for namespace in wanted:
        if given_[namespace] < wanted[namespace]:
            assert all(given_[other] <= given_[namespace] + 1 for other in wanted)


@given(SIZES, ROOM, st.integers(0, 30))
def test_what_one_namespace_asks_for_beyond_its_share_takes_nothing_from_others(
    sizes: dict[tuple[str, str], int], room: int, more: int
) -> None:
    others = by_namespace(sizes)
    most = room + others.total()
    assert shares({**others, "e": most + more}, room=room) == shares({**others, "e": most}, room=room)


@given(SIZES, ROOM)
def test_in_a_namespace_the_first_objects_by_name_are_kept_whole(sizes: dict[tuple[str, str], int], room: int) -> None:
    kept = shared_room(sizes, room=room)
    for _, objects in groupby(sorted(sizes), key=lambda each: each[0]):
        for one, later in pairwise(objects):
            assert kept[one] == sizes[one] or kept[later] == 0


@given(SIZES, ROOM, st.randoms())
def test_the_order_in_which_objects_are_listed_makes_no_difference(
    sizes: dict[tuple[str, str], int], room: int, chance: Random
) -> None:
    shuffled = list(sizes.items())
    chance.shuffle(shuffled)
    assert shared_room(dict(shuffled), room=room) == shared_room(sizes, room=room)
