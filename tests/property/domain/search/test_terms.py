"""What a query is searched by."""

import math
from importlib import resources

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.search.spelling import corrected, distance
from formulary_catalog.domain.search.synonyms import folded, mentions, synonyms
from formulary_catalog.domain.search.terms import MAX_TERMS, NEVER_SEEN, query_terms, rare_words, rarity
from formulary_catalog.domain.text import words

letters = st.text("abcdefg", max_size=7)
said = st.sampled_from([form for concept in synonyms().concepts for form in concept.said])


def _words(query: str) -> list[str]:
    return [term.word for term in query_terms(query)]


def _origins(query: str) -> dict[str, str]:
    return {term.word: term.origin for term in query_terms(query)}


def _concepts(text: str) -> list[str]:
    return [mention.concept.concept for mention in mentions(text)]


def test_the_words_of_a_query_come_first_and_compound_ones_with_their_parts() -> None:
    assert _words("zebra KubeZebraGrazing zebra") == ["zebra", "kubezebragrazing", "kube", "grazing"]


def test_forms_of_a_word_that_differ_in_their_ending_have_one_origin() -> None:
    origins = _origins("zebras zebra counted counting")
    assert origins["zebras"] == origins["zebra"] != origins["counted"] == origins["counting"]


def test_what_is_said_is_searched_by_the_words_of_its_concept_too() -> None:
    assert set(_words("exit code 137")) >= {"exit", "code", "137", "oomkilled", "memory", "memory limit"}


def test_alert_names_are_recognised_as_written_and_in_parts() -> None:
    assert "CrashLoopBackOff" in _concepts("KubePodCrashLooping")
    assert "CrashLoopBackOff" in _concepts("kubepodcrashlooping")
    assert "CrashLoopBackOff" in _concepts("kube pod crash looping")


def test_a_synonym_of_one_word_stands_for_the_same_part_of_the_query_as_that_word() -> None:
    origins = _origins("zebra oom")
    assert origins["oomkilled"] == origins["oom"] != origins["zebra"]


def test_a_synonym_of_a_phrase_is_a_part_of_its_own() -> None:
    origins = _origins("connection refused")
    assert origins["dependency"] == origins["upstream"]
    assert origins["dependency"] not in {origins["connection"], origins["refused"]}


def test_words_between_those_of_a_phrase_break_it() -> None:
    assert "DependencyDown" not in _concepts("connection was refused")


@pytest.mark.parametrize("vague", ["broken", "problems", "something", "Weird", "issues"])
def test_a_word_that_says_only_that_something_is_wrong_tells_nothing(vague: str) -> None:
    assert rarity(vague) == 0
    assert rarity(f"{vague} etcd") == rarity("etcd") > 0
    assert rarity("issued") > 0


def test_every_term_comes_once() -> None:
    found = _words("OOMKilled oom out of memory memory limit exit code 137 oomkilled")
    assert len(found) == len(set(found))


def test_a_misspelt_word_is_searched_as_written_and_as_meant() -> None:
    origins = _origins("certifciate")
    assert origins["certificate"] == origins["certifciate"]
    assert "tls" in origins  # what was meant is recognised as well


def test_no_query_has_too_many_terms() -> None:
    everything = " ".join(form for concept in synonyms().concepts for form in concept.said)
    assert len(query_terms(everything)) == MAX_TERMS


@given(text=st.text(max_size=200))
def test_any_text_has_terms_that_are_distinct_and_hold_a_word(text: str) -> None:
    terms = query_terms(text)
    assert len({term.word for term in terms}) == len(terms)
    assert all(words(term.word) and term.origin for term in terms)
    assert query_terms(text) == terms


@given(form=said, before=st.sampled_from(["", "zebra "]), after=st.sampled_from(["", " zebra"]))
def test_whatever_is_listed_is_recognised(form: str, before: str, after: str) -> None:
    concepts = {mention.concept for mention in mentions(f"{before}{form}{after}")}
    assert any(form in concept.said for concept in concepts)


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("Pods", "pod"),
        ("crashes", "crash"),
        ("crashing", "crash"),
        ("evicted", "evict"),
        ("dropped", "drop"),
        ("expires", "expir"),
        ("expire", "expir"),
        ("process", "process"),
        ("dns", "dns"),
        ("used", "used"),
        ("full", "full"),
        ("GAS", "gas"),
    ],
)
def test_endings_are_folded_and_short_words_kept(word: str, stem: str) -> None:
    assert folded(word) == stem


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("memroy", "memory"),  # two letters changed places
        ("memry", "memory"),  # one is missing
        ("memorry", "memory"),  # one too many
        ("mamory", "memory"),  # one is wrong
        ("certfciate", "certificate"),  # two mistakes in a long word
        ("deploymnet", "deployment"),
    ],
)
def test_mistakes_are_put_right(misspelt: str, meant: str) -> None:
    assert corrected(misspelt) == meant


@pytest.mark.parametrize(
    "word",
    [
        "memory",  # right
        "memories",  # another form, or near enough to none
        "nodes",  # one letter from inodes, but a word of the data
        "zebra",  # like no other
        "mmroy",  # two mistakes in a short word
        "disc",  # too short to tell
        "memor1",  # an identifier
        "",
    ],
)
def test_what_is_known_or_like_no_other_word_stays(word: str) -> None:
    assert corrected(word) is None


@given(one=letters, other=letters)
def test_distance_is_a_symmetric_count_of_mistakes(one: str, other: str) -> None:
    counted = distance(one, other)
    assert counted == distance(other, one)
    assert abs(len(one) - len(other)) <= counted <= max(len(one), len(other))
    assert (counted == 0) == (one == other)


def test_distance_counts_a_swap_once_and_each_other_mistake() -> None:
    assert distance("ab", "ba") == 1
    assert distance("memory", "memroy") == 1
    assert distance("ca", "abc") == 3
    assert distance("", "abc") == 3


def test_a_word_longer_than_any_known_is_not_taken_for_one() -> None:
    """What could be meant by thousands of letters would take all memory to spell out."""
    assert corrected("qz" * 2000) is None
    assert [term.word for term in query_terms("記憶" * 2000)] == ["記憶" * 341]  # the longest that can be indexed


def test_the_rarity_of_a_word_follows_from_how_many_texts_hold_it() -> None:
    source = resources.files("formulary_catalog.domain.search").joinpath("word_frequencies.yaml").read_text()
    counted = yaml.safe_load(source)
    texts, held_by = counted["texts"], {stem: n for n, stems in counted["held_by"].items() for stem in stems.split()}

    for word in ("pod", "restart", "istio"):
        holding = int(held_by[folded(word)])
        assert rarity(word) == pytest.approx(math.log(1 + (texts - holding + 0.5) / (holding + 0.5)))
    assert rarity("zzqx") == NEVER_SEEN == pytest.approx(math.log(1 + (texts + 0.5) / 0.5))


def test_codes_and_names_of_products_are_rare_words() -> None:
    assert rare_words(query_terms("zzqx pod istio")) == ["zzqx"]
