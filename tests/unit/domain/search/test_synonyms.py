"""The data of synonyms.yaml keeps to its own rules."""

from collections import Counter, defaultdict

from formulary_catalog.domain.search.synonyms import folded, mentions, synonyms
from formulary_catalog.domain.text import words
from formulary_catalog.domain.workflows.labels import CANONICAL_SIGNAL_TYPES

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

IN_TWO = {
    "autoscaler": "of pods and of nodes",
    "bloat": "a process grows as the files of etcd do",
    "bouncing": "nodes come and go, or are to be bounced",
    "empty a machine": "what is asked for, and what a budget forbids",
    "empty a node": "the same",
    "empty the machine": "the same",
    "empty the node": "the same",
    "KubeDeploymentGenerationMismatch": "an alert of the generation and of what is stuck with it",
    "KubePodNotReady": "it fires for pods that wait and for those that run",
    "KubeStatefulSetGenerationMismatch": "as for deployments",
    "revert": "what is done, and to what",
    "scale out": "by hand or by itself",
}
"""Forms that two concepts share, and why. Any other one would add words of a problem that nobody spoke of."""


def test_every_concept_is_there_once_and_every_form_once_in_it() -> None:
    names = Counter(concept.concept for concept in synonyms().concepts)
    assert [name for name, count in names.items() if count > 1] == []
    for concept in synonyms().concepts:
        forms = Counter(form.casefold() for form in concept.said)
        assert [form for form, count in forms.items() if count > 1] == [], concept.concept
        assert len(set(concept.words)) == len(concept.words), concept.concept


def test_no_form_stands_in_two_concepts_without_a_reason() -> None:
    concepts: dict[str, set[str]] = defaultdict(set)
    for concept in synonyms().concepts:
        for form in (concept.concept, *concept.said):
            concepts[_folded(form)].add(concept.concept)
    shared = {form for form, names in concepts.items() if len(names) > 1}
    assert shared == {_folded(form) for form in IN_TWO}


def _folded(form: str) -> str:
    return " ".join(map(folded, words(form)))


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
