"""How many mistakes a word may hold and still be recognised."""

import pytest

from formulary_catalog.domain.search.spelling import corrected, distance


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("restqarqt", "restart"),  # two mistakes in the shortest word that may hold so many
        ("defqragqmentation", "defragmentation"),  # two in the longest of the vocabulary
    ],
)
def test_a_long_word_may_hold_two_mistakes(misspelt: str, meant: str) -> None:
    assert corrected(misspelt) == meant


@pytest.mark.parametrize("word", ["memqoryq", "depqloyqmenqt"])
def test_a_short_word_with_two_mistakes_and_a_long_one_with_three_stay(word: str) -> None:
    assert corrected(word) is None


@pytest.mark.parametrize("misspelt", ["kubernetez", "kubernetesq", "qubernetes", "ubernetes"])
def test_the_mistake_may_be_in_the_first_letter_or_the_last(misspelt: str) -> None:
    assert corrected(misspelt) == "kubernetes"


def test_letters_too_many_are_counted_one_by_one() -> None:
    assert distance("aaa", "a") == 2
