"""Words: what the embedder, the lexical index and the exclusion rule see."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.text import (
    all_storable,
    cut_at_word,
    cut_short,
    exclusion_phrase,
    exclusion_text,
    one_line,
    renamed,
    searchable_words,
    shortened,
    split_camel_case,
    storable,
    with_split_words,
    without_userinfo,
    words,
)

texts = st.text(max_size=40)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("KubePodCrashLooping", ["Kube", "Pod", "Crash", "Looping"]),
        ("OOMKilled", ["OOM", "Killed"]),
        ("CrashLoopBackOff", ["Crash", "Loop", "Back", "Off"]),
        ("etcdDatabaseHighFragmentationRatio", ["etcd", "Database", "High", "Fragmentation", "Ratio"]),
        ("snake_case", ["snake", "case"]),
        ("plain", ["plain"]),
        ("IPv4", ["I", "Pv4"]),
    ],
)
def test_compound_words_are_split_at_their_capitals(word: str, parts: list[str]) -> None:
    assert split_camel_case(word) == parts


def test_the_split_form_is_appended_and_the_original_kept() -> None:
    assert with_split_words("KubePodCrashLooping on a node") == "KubePodCrashLooping on a node Kube Pod Crash Looping"
    assert with_split_words("OOMKilled twice OOMKilled") == "OOMKilled twice OOMKilled OOM Killed"
    assert with_split_words("nothing compound") == "nothing compound"


@given(text=texts)
def test_splitting_loses_no_character_of_the_text(text: str) -> None:
    assert with_split_words(text).startswith(text)


def test_query_words_are_distinct_lower_case_and_bounded() -> None:
    assert searchable_words("OOMKilled: killed, OOMKilled!", limit=10) == ["oomkilled", "oom", "killed"]
    assert searchable_words("one two three", limit=2) == ["one", "two"]
    assert searchable_words("nf_conntrack __ _a", limit=10) == ["nf", "conntrack", "a"]  # the index has no underscores
    assert searchable_words("… !? --", limit=10) == []
    assert searchable_words("a" + "容" * 3000, limit=10) == ["a" + "容" * 681]  # 2,044 bytes, and no part of another


@given(text=texts, limit=st.integers(0, 5))
def test_query_words_hold_no_punctuation_and_stay_within_the_limit(text: str, limit: int) -> None:
    found = searchable_words(text, limit=limit)
    assert len(found) == len(set(found)) <= limit
    assert all(word and not set(word) & set(" ,;.:!?-\n") for word in found)


@pytest.mark.parametrize("keyword", ["restart", "RESTART", "Restart-Pod", "restart pod", "  restart  pod!", "STRASSE"])
def test_a_whole_word_or_phrase_is_excluded_whatever_its_case_and_punctuation(keyword: str) -> None:
    assert exclusion_phrase(keyword) in exclusion_text(["Will restart/pod", "Straße"])


@pytest.mark.parametrize("keyword", ["start", "restarts", "pod straße", "restart node", "will pod"])
def test_part_of_a_word_or_of_two_fields_is_not_excluded(keyword: str) -> None:
    assert exclusion_phrase(keyword) not in exclusion_text(["Will restart pod", "Straße"])


@given(fields=st.lists(texts, min_size=1, max_size=4), data=st.data())
def test_every_word_of_every_field_excludes(fields: list[str], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(fields))
    found = words(field.casefold())
    start = data.draw(st.integers(0, len(found)))
    phrase = exclusion_phrase(" ".join(found[start : start + 2]))
    assert phrase in exclusion_text(fields)
    assert bool(phrase) == bool(found[start:])


@given(keyword=st.text(alphabet=".,;:|!?/\\'\" \n\t-+%*()[]{}"))
def test_a_keyword_without_a_word_excludes_nothing(keyword: str) -> None:
    assert exclusion_phrase(keyword) == ""


@pytest.mark.parametrize("character", ["\0", *map(chr, (0xD800, 0xDABC, 0xDFFF))])
@pytest.mark.parametrize("inside", [lambda text: text, lambda text: {text: 1}, lambda text: {"a": [1, ({"b": text},)]}])
def test_what_the_database_cannot_hold_is_found_wherever_it_is(character: str, inside: Callable[[str], object]) -> None:
    assert not storable(f"a{character}b")
    assert not all_storable(inside(f"a{character}b"))


@pytest.mark.parametrize("value", ["", "a\n\ud7ff\ue000\U0001f600", {"a": [None, 1.5, True, ["b"]]}, 7, None])
def test_all_else_can_be_stored(value: object) -> None:
    assert all_storable(value)
    assert not isinstance(value, str) or storable(value)


def test_a_text_of_several_lines_is_told_in_one() -> None:
    assert one_line("\n ready\r\n\tor  not ") == "ready or not"


@pytest.mark.parametrize(
    ("limit", "cut", "at_word"),
    [
        (17, "disk,; is XX full", "disk,; is XX full"),
        (16, "disk,; is XX fu…", "disk,; is XX…"),
        (14, "disk,; is XX…", "disk,; is XX…"),
        (13, "disk,; is XX…", "disk,; is…"),
        (8, "disk,;…", "disk…"),
        (6, "disk,…", "disk…"),
    ],
)
def test_a_text_that_is_too_long_is_cut_and_shows_it(limit: int, cut: str, at_word: str) -> None:
    text = "disk,; is XX full"

    assert cut_short(text, limit=limit) == cut
    assert cut_at_word(text, limit=limit) == shortened(f" {text}\n", limit=limit) == at_word


def test_a_message_names_arguments_as_the_caller_wrote_them_and_leaves_what_is_in_quotes() -> None:
    message = "query: 'query' and my-query are no query. top_k is"

    assert (
        renamed(message, {"query": r"--\q", "top_k": "--top-k"})
        == r"--\q: 'query' and my-query are no --\q. --top-k is"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://user:secret@host/db?role=a@b", "postgresql://host/db?role=a@b"),
        ("user:secret@host", "host"),
        ("//user@host", "//host"),
        ("https://host/a@b", "https://host/a@b"),
    ],
)
def test_an_address_is_shown_without_its_user_and_password(url: str, shown: str) -> None:
    assert without_userinfo(url) == shown
