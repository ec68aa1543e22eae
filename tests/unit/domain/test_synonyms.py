"""The data of synonyms.yaml keeps to its own rules."""

from collections import Counter

from formulary_catalog.domain.search.query import CANONICAL_SIGNAL_TYPES
from formulary_catalog.domain.search.synonyms import mentions, synonyms
from formulary_catalog.domain.text import words

EVERYDAY = {
    "pod",
    "pods",
    "restart",
    "limit",
    "failed",
    "error",
    "errors",
    "high",
    "down",
    "full",
    "new",
    "old",
    "time",
}
"""Words that say little in a query about Kubernetes: by themselves they must not set off a concept."""


def test_every_concept_is_there_once_and_every_form_once_in_it() -> None:
    names = Counter(concept.concept for concept in synonyms().concepts)
    assert [name for name, count in names.items() if count > 1] == []
    for concept in synonyms().concepts:
        forms = Counter(form.casefold() for form in concept.said)
        assert [form for form, count in forms.items() if count > 1] == [], concept.concept
        assert len(set(concept.words)) == len(concept.words), concept.concept


def test_every_form_holds_a_word_and_every_concept_has_words_to_search_by() -> None:
    for concept in synonyms().concepts:
        assert all(words(form) for form in (concept.concept, *concept.said, *concept.words)), concept.concept
        assert 1 <= len(concept.words) <= 4, concept.concept


def test_no_everyday_word_sets_off_a_concept() -> None:
    assert {word: mentions(word) for word in EVERYDAY if mentions(word)} == {}


def test_every_canonical_signal_type_is_recognised() -> None:
    assert [signal for signal in CANONICAL_SIGNAL_TYPES if not mentions(signal)] == []


def test_a_mention_tells_the_words_that_speak_of_it() -> None:
    phrases = {mention.concept.concept: mention.phrase for mention in mentions("the node cannot, image pull back off")}
    assert phrases == {"CrashLoopBackOff": "back off", "ImagePullBackOff": "imag pull back off", "Node": "nod"}


def test_the_vocabulary_holds_plain_words_that_are_long_enough_to_recognise() -> None:
    vocabulary = synonyms().vocabulary
    assert len(set(vocabulary)) == len(vocabulary)
    assert [word for word in vocabulary if len(word) < 5 or not word.isalpha() or word != word.casefold()] == []
