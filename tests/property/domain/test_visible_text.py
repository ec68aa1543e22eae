"""Which characters hide text, whatever the text, and what is shown in their place."""

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formulary_catalog.domain.visible import MARK, all_visible, first_hidden, visible

HIDING = (
    "\x00\x07\x1b\x7f\x85\x9b\xad\u034f\u061c\u115f\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2064\u2066"
    "\u2069\u206a\u3164\ufeff\ufff9\U0001d173\U000e0001\U000e0041\U000e007f\U000e0100\u2800\uffa0\u1160\u06dd\U000110bd"
)
TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from([*HIDING, *"\r\n\u200c\u200d\ufe0f1"]))
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@given(TEXTS)
@example("\u2764\ufe0f\u200b\u200d\U0001f525")
@example("\r\u200b\n")
@example("\U0001f525\u200d\u2800")
def test_what_is_shown_is_shown_the_same_again_and_is_as_long(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert visible(shown) == shown
    assert all(one == other or other == MARK for one, other in zip(text, shown, strict=True))


@given(TEXTS, st.sampled_from(HIDING), TEXTS)
def test_a_character_that_hides_never_comes_through_whatever_is_around_it(before: str, hiding: str, after: str) -> None:
    shown = visible(before + hiding + after)
    assert shown[len(before)] == MARK
    assert not set(shown) & set(HIDING)


@given(TEXTS)
def test_no_control_no_format_character_and_no_separator_of_lines_is_left(text: str) -> None:
    rest = visible(text).replace("\r\n", "\n")
    unseen = [each for each in rest if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")]
    assert not set(unseen) - {*"\n\t\u200c\u200d"}  # joiners stay where something needs them


@given(VALUES)
def test_a_value_is_shown_as_it_is_exactly_where_nothing_is_found_in_it(value: Any) -> None:
    assert (all_visible(value) == value) is (first_hidden(value, field="spec") is None)
    assert first_hidden(all_visible(value), field="spec") is None


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines\tand\r\nthree",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a non-joiner
        "\u0915\u094d\u200d\u0937",  # Devanagari, with a joiner
        "\U0001f469\U0001f3fd\u200d\U0001f4bb",  # a woman at a computer, with a colour of skin
        "\u2764\ufe0f\u200d\U0001f525",  # a heart on fire
        "\U0001f3f3\ufe0f\u200d\U0001f308",  # a flag of many colours
        "\U0001f642\u200d\u2194\ufe0f",  # a shaken head
        "1\ufe0f\u20e3 \u26a0\ufe0f \xa9\ufe0f \u203c\ufe0f",  # a key, a warning, signs
        "caf\xe9 \u4e2d\u6587 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    ],
)
def test_what_scripts_and_emoji_need_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kube\u200dctl", f"kube{MARK}ctl"),
        ("kube\u200cctl", f"kube{MARK}ctl"),
        ("\u200dstart", f"{MARK}start"),
        ("\U0001f525\u200d now", f"\U0001f525{MARK} now"),
        ("\u0645\u200c\u200c", f"\u0645\u200c{MARK}"),
        ("a\ufe0f\u200d\U0001f525", f"a{MARK}{MARK}\U0001f525"),
        ("1\ufe0f", f"1{MARK}"),
        ("\u26a0\ufe0f\ufe0f\ufe0e", f"\u26a0\ufe0f{MARK}{MARK}"),
        ("over\rwritten", f"over{MARK}written"),
        ("\U0001f3f4\U000e0067\U000e007f", f"\U0001f3f4{MARK}{MARK}"),
    ],
)
def test_the_same_characters_are_marked_where_nothing_needs_them(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_found_names_field_code_point_and_place() -> None:
    found = first_hidden({"steps": [{"name": "a"}, {"command": "rm \u202etxt"}]}, field="spec")
    assert found is not None
    assert (found.field, str(found)) == ("spec.steps.1.command", "U+202E (RIGHT-TO-LEFT OVERRIDE) at character 4")
    key = first_hidden({"te\x1bam": 1}, field="spec.labels")
    assert key is not None
    assert (key.field, str(key)) == (f"spec.labels.te{MARK}am", "U+001B (a control character) at character 3")
