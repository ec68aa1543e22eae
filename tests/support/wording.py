"""Whether a query repeats what it should find: runs of three words that two texts share."""

from formulary_catalog.domain.text import words


def runs_of_three(text: str) -> set[tuple[str, ...]]:
    """All runs of three words, in any case."""
    found = [word.casefold() for word in words(text)]
    return set(zip(found, found[1:], found[2:], strict=False))
