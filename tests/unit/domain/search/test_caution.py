"""When a workflow is warned of because its author says that it is not for what the query describes."""

import math
from typing import Any

import pytest

from formulary_catalog.domain.search.caution import (
    CAUTION_WEIGHT,
    Indications,
    QueryWords,
    caution,
    cautioned,
    indications,
)
from formulary_catalog.domain.search.fit import Part, Wanted
from formulary_catalog.domain.search.terms import query_terms
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from support import manifest

HEAP = "java.lang.OutOfMemoryError: Java heap space"
MANY = "quorum lost, etcd defragment webhook istio kafka postgres vault"
"""All its words tell something, and are about equally rare."""


def warning(query: str, when_not_to_use: str, *, name: str = "x", what: str = "x", when_to_use: str = "x") -> str:
    """What a workflow with these texts is warned of with."""
    document: dict[str, Any] = manifest.workflow(name)
    document["spec"]["description"] = {"what": what, "whenToUse": when_to_use, "whenNotToUse": when_not_to_use}
    terms = query_terms(query)
    said = QueryWords.of(query, wanted=Wanted.of(terms, usable=[True] * len(terms)), terms=terms)
    return caution(indications(RemediationWorkflow.model_validate(document)), said)


def test_the_words_of_the_query_that_speak_against_it_are_named_as_they_were_written() -> None:
    assert warning(HEAP, "Not for a java heap whose space is full.") == "its when_not_to_use speaks of: Java heap space"


def test_nothing_is_said_where_the_author_wrote_nothing_or_of_something_else() -> None:
    assert warning(HEAP, "") == ""
    assert warning(HEAP, "Not while the control plane is being upgraded.") == ""


def test_one_word_is_not_enough_however_telling_it_is() -> None:
    assert warning("kafka is down", "Not for kafka.") == ""
    assert warning("kafka certificate expired", "Not for kafka.") == ""
    assert warning("kafka certificate expired", "Not for kafka with an expired root.") != ""


def test_it_takes_three_tenths_of_what_is_telling_in_the_query() -> None:
    assert warning(MANY, "Not for quorum of istio.") == ""
    assert warning(MANY, "Not for quorum of istio and vault.") != ""


def test_three_tenths_to_the_bit_are_enough() -> None:
    terms = query_terms("quorum istio kafka vault")[:4]
    parts = tuple(Part(rarity, (number,)) for number, rarity in enumerate((3.0, 3.0, 7.0, 7.0)))
    against = Indications(against=(frozenset({"quorum", "istio"}),), in_favour=frozenset())
    query = QueryWords.of("quorum istio kafka vault", wanted=Wanted(parts, 20.0), terms=terms)
    assert caution(against, query) == "its when_not_to_use speaks of: quorum istio"


def test_the_words_have_to_be_in_one_clause() -> None:
    assert warning("istio quorum", "Not where istio hangs. The quorum is lost.") == ""
    assert warning("istio quorum", "Not where istio hangs; not if the quorum is lost.") == ""
    assert warning("istio quorum", "Not where istio hangs, e.g. The quorum is lost.") != ""


@pytest.mark.parametrize("query", ["nothing but kafka broker errors", "cannot reach the kafka broker"])
def test_a_query_in_which_something_is_denied_is_warned_of_too(query: str) -> None:
    assert warning(query, "Never when a kafka broker is gone.") != ""


def test_a_clause_that_has_enough_words_counts_beside_one_that_holds_a_rarer_word() -> None:
    assert warning("gitlab disk cpu", "Not for gitlab. Disk or cpu.").endswith("disk cpu")


def test_of_a_query_with_many_telling_words_a_clause_has_to_hold_three() -> None:
    assert warning("istio quorum lost webhook kafka", "Not for istio with kafka.") != ""
    assert warning("istio quorum lost webhook kafka etcd vault", "Not for quorum of istio.") == ""
    assert warning("istio quorum lost webhook kafka etcd vault", "Not for quorum of istio or kafka.") != ""


def test_six_telling_words_are_not_yet_many() -> None:
    terms = query_terms("quorum istio kafka vault etcd webhook")[:6]
    parts = tuple(Part(5.0, (number,)) for number in range(6))
    query = QueryWords.of("quorum istio kafka vault etcd webhook", wanted=Wanted(parts, 30.0), terms=terms)
    against = Indications(against=(frozenset({"quorum", "istio"}),), in_favour=frozenset())
    assert caution(against, query) == "its when_not_to_use speaks of: quorum istio"


def test_four_words_in_a_row_are_what_the_query_says_however_common_they_are() -> None:
    clause = "Never while the old node may still run the pod."
    query = f"{MANY} certificate ingress, old node may still run that pod"
    assert warning(query, clause) == "its when_not_to_use speaks of: old node may still"
    assert warning(query, clause, what="The old node may still run.") == ""
    assert warning(f"{MANY} certificate ingress, the old node may be back", clause) == ""


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("what to do when there is no quorum in etcd", "Never when there is no backup of the volume."),
        ("pods crash and it is not clear why, disk fine", "Not for Jobs, and it is not for DaemonSets."),
    ],
)
def test_a_row_of_words_that_any_text_has_is_no_clause(query: str, clause: str) -> None:
    assert warning(query, clause) == ""


def test_words_that_tell_nothing_do_not_count() -> None:
    assert warning("quorum of the etcd members is lost", "Not if the one of them is.") == ""


@pytest.mark.parametrize("text", ["name", "when_to_use", "what"])
def test_what_speaks_for_it_as_much_as_against_it_is_no_warning(text: str) -> None:
    against = "Not if the kafka consumers lag."
    assert warning("kafka consumer lag", against, **{text: "kafka-lag"}) != ""
    assert warning("kafka consumer lag", against, **{text: "kafka-consumer-lag"}) == ""


def test_what_a_text_for_it_says_is_not_so_does_not_speak_for_it() -> None:
    against = "Not if the log says OutOfMemoryError: java heap."
    assert not warning(HEAP, against, when_to_use="Its log says OutOfMemoryError, java heap.")
    assert warning(HEAP, against, when_to_use="Its log has no OutOfMemoryError for the java heap.")


@pytest.mark.parametrize("denied", ["not healthy", "without quorum", "no endpoints"])
def test_what_both_the_query_and_the_text_deny_speaks_for_it(denied: str) -> None:
    word = denied.split()[1]
    against = f"Not once istio is {word} again."
    assert not warning(f"istio {denied} on the node", against, when_to_use=f"Istio is {denied}.")
    assert warning(f"istio {word} on the node", against, when_to_use=f"It is {denied}.")


def test_the_words_of_the_query_count_in_their_forms_and_in_pieces_and_not_their_synonyms() -> None:
    assert warning("kafka consumer lags", "Not where a KafkaConsumer is idle.") != ""
    assert warning("certificate expired", "Not to renew tls.") == ""


def test_names_of_other_workflows_are_not_what_it_is_not_for() -> None:
    assert warning(HEAP, "Then take java-heap-space instead.") == ""
    assert warning(HEAP, "Then take formulary/fix-java-heap-space.") == ""
    assert warning(HEAP, "Not for java-heap without space.") != ""


def test_at_most_six_words_are_named() -> None:
    assert (
        warning(MANY, f"Not for {MANY}.") == "its when_not_to_use speaks of: quorum lost etcd defragment webhook istio"
    )


@pytest.mark.parametrize("confidence", [0.999, 0.9, 0.5, 0.1, 0.01])
def test_a_warning_takes_its_weight_from_the_log_odds(confidence: float) -> None:
    left = cautioned(confidence)
    lost = math.log(confidence / (1 - confidence)) - math.log(left / (1 - left))
    assert lost == pytest.approx(CAUTION_WEIGHT, abs=0.05)


def test_the_surest_and_the_least_sure_stay_a_share() -> None:
    assert (cautioned(1.0), cautioned(0.0)) == (0.9993, 0.0)
