"""The sweep: what is missing from a complete list goes, unless too much is missing at once."""

from hypothesis import given
from hypothesis import strategies as st

from formulary_operator.core.sweep import ALWAYS_REMOVED, sweep

KEYS = st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 300).map(str)), max_size=200)


@given(stored=KEYS, seen=KEYS, fraction=st.floats(min_value=0, max_value=1))
def test_only_what_is_stored_and_not_seen_is_removed_and_never_more_than_allowed(
    stored: set[tuple[str, str]], seen: set[tuple[str, str]], fraction: float
) -> None:
    found = sweep(stored, seen=seen, max_fraction=fraction)
    missing = stored - seen
    assert found.orphans in (missing, frozenset())
    assert found.refused == (0 if found.orphans == missing else len(missing))
    assert len(found.orphans) <= max(ALWAYS_REMOVED, fraction * len(stored))


def test_a_small_catalog_may_vanish_whole() -> None:
    stored = {("team", str(number)) for number in range(ALWAYS_REMOVED)}
    assert sweep(stored, seen=(), max_fraction=0.3).orphans == stored


def test_a_large_catalog_that_vanishes_is_not_believed_unless_that_is_allowed() -> None:
    stored = {("team", str(number)) for number in range(100)}
    doubted = sweep(stored, seen=(), max_fraction=0.3)
    assert (doubted.orphans, doubted.refused) == (frozenset(), 100)
    assert sweep(stored, seen=(), max_fraction=1).orphans == stored
