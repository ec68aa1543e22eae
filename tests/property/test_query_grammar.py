"""The query grammar: signal type, severity, keywords, or natural language."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.query import (
    CANONICAL_SIGNAL_TYPES,
    SEVERITIES,
    ParsedQuery,
    first_word,
    is_canonical,
    parse_query,
)

queries = st.text(max_size=60)


@given(
    signal=st.sampled_from(CANONICAL_SIGNAL_TYPES),
    severity=st.sampled_from(SEVERITIES),
    colon=st.sampled_from(["", ":", ","]),
    rest=st.sampled_from(["", "memory grows", "exit code 137"]),
)
def test_a_signal_and_a_severity_in_front_become_labels(signal: str, severity: str, colon: str, rest: str) -> None:
    query = f"  {signal}{colon}\t{severity.upper()}{colon} {rest}"
    assert is_canonical(first_word(query))
    parsed = parse_query(query, first_word_is_signal=True)
    assert (parsed.signal_type, parsed.severity) == (signal, severity)
    assert severity not in parsed.text.split()
    assert parsed.text.startswith(f"{signal}{colon} {rest}".strip())


def test_canonical_signal_types_are_compared_with_their_case() -> None:
    assert is_canonical("OOMKilled")
    assert not is_canonical("oomkilled")
    assert not is_canonical("")


@pytest.mark.parametrize("second", ["memory", "criticality", "p0"])
def test_a_second_word_that_is_no_severity_stays_in_the_text(second: str) -> None:
    parsed = parse_query(f"OOMKilled {second} critical", first_word_is_signal=True)
    assert parsed == ParsedQuery("OOMKilled", "", f"OOMKilled {second} critical OOM Killed")


@given(query=queries)
def test_natural_language_infers_nothing_and_keeps_every_word(query: str) -> None:
    parsed = parse_query(query, first_word_is_signal=False)
    assert (parsed.signal_type, parsed.severity) == ("", "")
    assert parsed.text.casefold().startswith(" ".join(query.split()).casefold())


@given(signal=st.sampled_from(CANONICAL_SIGNAL_TYPES), in_case=st.sampled_from([str.lower, str.upper, str.capitalize]))
def test_a_name_in_another_case_infers_nothing_and_is_ranked_by_as_the_name(
    signal: str, in_case: Callable[[str], str]
) -> None:
    assert not is_canonical(in_case(signal)) or signal == "Evicted"
    parsed = parse_query(f"the pod: {in_case(signal)}, since 3", first_word_is_signal=False)
    named = parse_query(f"the pod: {signal}, since 3", first_word_is_signal=False)
    assert parsed.signal_type == ""
    assert parsed.text == (named.text if signal != "Evicted" else f"the pod: {in_case(signal)}, since 3")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("kubehpamaxedout", "KubeHpaMaxedOut Kube Hpa Maxed Out"),
        ("ImagePullBackoff", "ImagePullBackOff Image Pull Back Off"),
        ("CRASH_LOOP_BACK_OFF", "CrashLoopBackOff Crash Loop Back Off"),
        ("backoff, setup and cleanup of a statefulset", "backoff, setup and cleanup of a statefulset"),
        ("notoomkilled oomkilleds", "notoomkilled oomkilleds"),
    ],
)
def test_names_of_the_synonyms_are_restored_and_other_words_kept(query: str, text: str) -> None:
    assert parse_query(query, first_word_is_signal=False).text == text


@given(query=queries)
def test_the_first_word_has_no_space_and_no_trailing_punctuation(query: str) -> None:
    word = first_word(query)
    assert not word or word == word.strip()
    assert not word.endswith((":", ",", ";"))
    assert query.split()[:1] == [] or query.split()[0].startswith(word)


def test_the_bullet_of_a_list_names_no_signal() -> None:
    assert first_word("* OOMKilled critical") == ""


def test_an_empty_query_has_no_first_word() -> None:
    assert first_word(" \n") == ""
    assert parse_query("", first_word_is_signal=False) == ParsedQuery("", "", "")
