"""The query grammar: `<signal_type> <severity> [keywords]`, or natural language (DESIGN section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from formulary_catalog.domain.labels import WILDCARD
from formulary_catalog.domain.synonyms import with_names
from formulary_catalog.domain.text import with_split_words

CANONICAL_SIGNAL_TYPES = (
    "OOMKilled",
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "Evicted",
    "NodeNotReady",
    "PodPending",
    "FailedScheduling",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedMount",
)
SEVERITIES = ("critical", "high", "medium", "low", "warning", "info")
MAX_QUERY_LENGTH = 4000
_TRAILING_PUNCTUATION = ":,;"


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query taken apart: the labels inferred from its first words (empty when none) and the text to rank by."""

    signal_type: str
    severity: str
    text: str


def first_word(query: str) -> str:
    """The word that may name a signal type; empty where none can, as for the bullet of a pasted list."""
    head = query.split(maxsplit=1)
    word = head[0].rstrip(_TRAILING_PUNCTUATION) if head else ""
    return "" if word == WILDCARD else word


def is_canonical(signal_type: str) -> bool:
    """Whether the word is one of the canonical signal types, compared case-sensitively."""
    return signal_type in CANONICAL_SIGNAL_TYPES


def parse_query(query: str, *, first_word_is_signal: bool) -> ParsedQuery:
    """Take a query apart once it is known whether its first word counts as a signal type.

    A severity in second place is left out of the text to rank by: it belongs in the filter and harms the embedding.
    """
    parts = query.split()
    if not first_word_is_signal:
        return ParsedQuery(signal_type="", severity="", text=_readable(parts))
    second = parts[1].rstrip(_TRAILING_PUNCTUATION).casefold() if len(parts) > 1 else ""
    severity = second if second in SEVERITIES else ""
    ranked = [parts[0], *parts[2 if severity else 1 :]]
    return ParsedQuery(signal_type=first_word(query), severity=severity, text=_readable(ranked))


def _readable(parts: Sequence[str]) -> str:
    return with_split_words(with_names(" ".join(parts)))
