"""Where the terms of a query stand in the texts of workflows, held against the sets of words of each field."""

from collections.abc import Mapping, Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from formulary_catalog.domain.search.candidates import indexed_text, places
from formulary_catalog.domain.text import WordPlace

FIELDS = [place for place in WordPlace if place is not WordPlace.NONE]
texts = st.dictionaries(st.sampled_from(FIELDS), st.sets(st.sampled_from("abcd")))
terms = st.lists(st.sampled_from("abcde"), max_size=3)


@example(texts=[{WordPlace.WHAT: {"a"}, WordPlace.NAME: {"b"}}], terms=["ab"])
@example(texts=[{WordPlace.SIGNAL: {"a"}}], terms=["ae"])
@given(texts=st.lists(texts, max_size=5), terms=st.lists(terms, max_size=5))
def test_a_term_stands_in_the_most_telling_field_that_holds_all_of_it(
    texts: Sequence[Mapping[WordPlace, set[str]]], terms: Sequence[Sequence[str]]
) -> None:
    def place(term: Sequence[str], *, text: Mapping[WordPlace, set[str]]) -> WordPlace:
        return max((field for field, held in text.items() if term and set(term) <= held), default=WordPlace.NONE)

    indexed = [indexed_text(namespace="n", name="w", lexemes=text) for text in texts]
    assert all((text.namespace, text.name) == ("n", "w") for text in indexed)
    assert places(indexed, terms=terms) == [bytes(place(term, text=text) for term in terms) for text in texts]
