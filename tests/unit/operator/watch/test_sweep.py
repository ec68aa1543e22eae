"""The sweep: what is missing from a complete list goes, unless too much is missing at once."""

from hypothesis import given
from hypothesis import strategies as st

from formulary_operator.watch.drift import ALWAYS_REMOVED, sweep

KEYS = st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 300).map(str)), max_size=200)
MANY = {("team", str(number), f"uid-{number}") for number in range(100)}


@given(stored=KEYS, seen=KEYS, fraction=st.floats(min_value=0, max_value=1))
def test_only_what_is_stored_and_not_seen_is_removed_and_never_more_than_allowed(
    stored: set[tuple[str, str]], seen: set[tuple[str, str]], fraction: float
) -> None:
    found = sweep([(*key, "uid") for key in stored], seen=seen, max_fraction=fraction)
    missing = stored - seen
    assert found.orphans in (missing, frozenset())
    assert found.refused == (frozenset() if found.orphans == missing else {(*key, "uid") for key in missing})
    assert len(found.orphans) <= max(ALWAYS_REMOVED, fraction * len(stored))


def test_a_small_catalog_may_vanish_whole() -> None:
    stored = {each for each in MANY if int(each[1]) < ALWAYS_REMOVED}
    assert len(sweep(stored, seen=(), max_fraction=0.3).orphans) == ALWAYS_REMOVED


def test_a_large_catalog_that_vanishes_is_not_believed_unless_that_is_allowed() -> None:
    doubted = sweep(MANY, seen=(), max_fraction=0.3)
    assert doubted.orphans == frozenset()
    assert doubted.refused == MANY
    assert len(sweep(MANY, seen=(), max_fraction=1).orphans) == 100


def test_an_allowance_is_for_those_objects_alone_and_for_what_is_left_of_them() -> None:
    assert len(sweep(MANY, seen=(), max_fraction=0.3, allowed=MANY).orphans) == 100
    rest = {each for each in MANY if int(each[1]) < 50}
    assert len(sweep(rest, seen=(), max_fraction=0.3, allowed=MANY).orphans) == 50
    more = MANY | {("team", "one-more", "uid")}
    assert sweep(more, seen=(), max_fraction=0.3, allowed=MANY).refused == more
    made_again = {(*each[:2], "another-uid") for each in MANY}
    assert sweep(made_again, seen=(), max_fraction=0.3, allowed=MANY).refused == made_again
