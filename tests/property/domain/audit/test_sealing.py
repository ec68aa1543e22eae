"""Sealing what an incident demands: nothing is lost, and digests are equal where, and only where, the labels are."""

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.audit.sealing import KeyedDigest, seal, unseal
from formulary_catalog.domain.incidents import RequestContext, constraints_of

texts = st.text(max_size=8)
labels = st.dictionaries(texts, st.lists(texts, min_size=1, max_size=3, unique=True).map(tuple), max_size=3)
keys = st.frozensets(texts, max_size=3)
incidents = st.builds(
    RequestContext,
    namespace=st.just("shop"),
    name=texts,
    remediation_id=texts,
    environment=texts,
    priority=texts,
    cluster=texts,
    target_namespace=texts,
    custom_labels=labels,
    strict_keys=keys,
    detected_labels=st.dictionaries(texts, texts, max_size=3),
)
DIGEST = KeyedDigest(b"k" * 32)


def _sets(given: Any) -> dict[str, frozenset[str]]:
    return {key: frozenset(values) for key, values in given.items()}


@given(incident=incidents, strict=keys)
def test_what_was_sealed_demands_the_same_again(incident: RequestContext, strict: frozenset[str]) -> None:
    sealed = seal(incident, strict_keys=strict)
    assert sealed is not None
    again = unseal(sealed.content)
    assert constraints_of(again, strict_keys=frozenset()) == constraints_of(incident, strict_keys=strict)
    assert (sealed.namespace, again.target_namespace) == ("shop", incident.target_namespace)
    assert sealed.content.isascii()
    assert "\0" not in sealed.content


@given(incident=incidents, asked=labels, strict=keys)
def test_labels_of_the_caller_never_displace_those_of_the_incident(
    incident: RequestContext, asked: dict[str, tuple[str, ...]], strict: frozenset[str]
) -> None:
    sealed = seal(incident, strict_keys=strict, custom_labels=asked)
    assert sealed is not None
    assert _sets(unseal(sealed.content).custom_labels) == _sets({**asked, **incident.custom_labels})


@given(one=labels, other=labels)
def test_digests_are_equal_where_the_labels_are(
    one: dict[str, tuple[str, ...]], other: dict[str, tuple[str, ...]]
) -> None:
    same = DIGEST.of_labels(_sets(one)) == DIGEST.of_labels(_sets(other))
    assert same == (_sets(one) == _sets(other))


@given(incident=incidents, seed=st.integers())
def test_the_order_in_which_labels_come_does_not_matter(incident: RequestContext, seed: int) -> None:
    shuffled = list(incident.custom_labels.items())
    random.Random(seed).shuffle(shuffled)
    reversed_values = {key: tuple(reversed(values)) for key, values in shuffled}
    other = replace(incident, custom_labels=reversed_values)
    assert seal(incident, strict_keys=frozenset()) == seal(other, strict_keys=frozenset())


def test_another_key_makes_another_digest_and_neither_shows_the_labels() -> None:
    given = {"team": frozenset({"payments"})}
    digests = {KeyedDigest(key).of_labels(given) for key in (b"a" * 32, b"b" * 32)}
    assert len(digests) == 2
    assert not any("payments" in digest or "team" in digest for digest in digests)
    sealed = seal(None, strict_keys=frozenset(), custom_labels={"team": ("payments",)})
    assert "payments" not in repr(sealed)


def test_nothing_is_sealed_where_nothing_is_demanded() -> None:
    assert seal(None, strict_keys=frozenset({"team"})) is None
