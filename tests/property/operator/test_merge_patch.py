"""The merge patch of two statuses does what it says, by the algorithm of RFC 7386."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formulary_operator.kube.patching import merge_patch

_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
_MAPS = st.dictionaries(st.text(max_size=2), _VALUES, max_size=4)


def applied(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


def bare(value: Any) -> Any:
    """A map without its nulls, as an API server keeps what it is sent in a patch."""
    if isinstance(value, dict):
        return {name: bare(inner) for name, inner in value.items() if inner is not None}
    return value


@given(_MAPS, _MAPS)
def test_applied_it_makes_what_was_wanted_of_what_was_there(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    current = bare(current)
    made = applied(current, merge_patch(current, wanted))
    assert {name: made.get(name) for name in wanted} == {name: bare(value) for name, value in wanted.items()}
    assert {name: made[name] for name in made.keys() - wanted.keys()} == {
        name: current[name] for name in current.keys() - wanted.keys()
    }


@given(_MAPS, _MAPS)
def test_applied_twice_there_is_nothing_left_to_patch(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    current = bare(current)
    made = applied(current, merge_patch(current, wanted))
    assert merge_patch(made, wanted) == {}
