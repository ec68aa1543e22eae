"""Counts how many texts about operating Kubernetes hold each word, and writes `domain/word_frequencies.yaml`.

`make calibrate` runs it first. The texts are the workflows in this repository and the judged queries to tune on; the
queries that are held back are never counted. A word in one text only is not written: it counts as unseen.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from formulary_catalog.domain.search.synonyms import folded
from formulary_catalog.domain.text import split_camel_case, words
from quality_judgements import CATALOGS, read_entries, read_judgements

TARGET = Path(__file__).parents[1] / "catalog" / "formulary_catalog" / "domain" / "search" / "word_frequencies.yaml"
_WIDTH = 116


def texts() -> Iterator[str]:
    """All that is counted."""
    for catalog in CATALOGS:
        yield from (" ".join(entry.lexical_texts.values()) for entry in read_entries(catalog.workflows))
        yield from (each.query for each in read_judgements(catalog.judgements) if each.part == "tune")


def stems(text: str) -> frozenset[str]:
    """The distinct words of a text and their pieces, without their endings."""
    return frozenset(folded(part) for word in words(text) for part in (word, *split_camel_case(word)))


def written(counted: Counter[str], *, total: int) -> str:
    """The data as YAML: the stems by how many texts hold them."""
    by_count: dict[int, list[str]] = {}
    for stem, count in sorted(counted.items()):
        if count > 1:
            by_count.setdefault(count, []).append(stem)
    lines = [
        "# How many of so many texts about operating Kubernetes hold each word, without its ending.",
        "# Written by scripts/word_frequencies.py.",
        f"texts: {total}",
        "held_by:",
    ]
    for count, held in sorted(by_count.items(), reverse=True):
        lines += [f"  {count}: >-", *(f"    {line}" for line in _wrapped(held))]
    return "\n".join(lines) + "\n"


def _wrapped(stems: list[str]) -> list[str]:
    lines = [""]
    for stem in stems:
        if len(lines[-1]) + len(stem) > _WIDTH - 4:
            lines.append("")
        lines[-1] = f"{lines[-1]} {stem}".strip()
    return lines


def main() -> None:
    """Count and write."""
    counted: Counter[str] = Counter()
    total = 0
    for text in texts():
        counted.update(stems(text))
        total += 1
    TARGET.write_text(written(counted, total=total), encoding="utf-8")
    print(f"{TARGET.name}: {total} texts")


if __name__ == "__main__":
    main()
