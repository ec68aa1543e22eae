"""Texts: how they are cut, and the words that embedder, lexical index and exclusion rule see.

One place for words, because documents and queries must be treated alike (`docs/search.md`).
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

MAX_LABEL_LENGTH = 253
_WORD = re.compile(r"\w+")
_NAMED = r"(?<![\w'\"`./-]){}(?![\w'\"`/-])"
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_USERINFO = re.compile(r"^([^/?#]*//)?[^/?#]*@")
_FIELD_BOUNDARY = " | "  # no word contains a bar, so no phrase reaches across fields
_ELLIPSIS = "…"
_SENTENCE_BOUNDARY = re.compile(
    r"""
      (?<=[.!?])(?<!\b[eE]\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bcf\.)(?<!\bca\.)(?<!\betc\.)\s+(?=[^\sa-z])
    | (?<=[.!?][)"'`])\s+(?=[^\sa-z])
    | (?<=;)\s+(?=(?:not|nor|never|if|when|where)\b)
    | (?<=[。\uff01\uff1f\uff1b])
    | (?:^|\n)[^\S\n]*(?:[-*]|\d+[.)])(?=\s|\Z)[^\S\n]*   # a point of a list
    """,
    re.VERBOSE,
)
_LONGEST_WORD = 2046
"""Bytes. PostgreSQL indexes no longer word, and scripts without spaces make a sentence one word."""


def words(text: str) -> list[str]:
    """The words of a text as written, in order; punctuation separates."""
    return _WORD.findall(text)


def split_camel_case(word: str) -> list[str]:
    """`KubePodCrashLooping` as `[Kube, Pod, Crash, Looping]`; `OOMKilled` as `[OOM, Killed]`."""
    return _CAMEL_BOUNDARY.sub(" ", word).replace("_", " ").split()


def with_split_words(text: str) -> str:
    """The text followed by the split form of each compound word in it.

    Appended, not replaced: the tokenizer cannot read `KubePodCrashLooping`, but an exact hit on it is still worth most.
    """
    split = [" ".join(parts) for word in dict.fromkeys(words(text)) if len(parts := split_camel_case(word)) > 1]
    return " ".join([text, *split])


def searchable_words(text: str, *, limit: int) -> list[str]:
    """The distinct words of a query, lower case, compound words followed by their parts, at most `limit`.

    A word that is too long for the lexical index, which cannot hold it, is cut: the query still says something.
    """
    expanded = (_cut(part.casefold()) for word in words(text) for part in _forms(word))
    return list(dict.fromkeys(expanded))[:limit]


def renamed(message: str, names: Mapping[str, str]) -> str:
    """A message with other names for arguments; what is in quotes was given, and stays."""
    for name, spelling in names.items():
        message = re.sub(_NAMED.format(re.escape(name)), spelling.replace("\\", r"\\"), message)
    return message


def _forms(word: str) -> list[str]:
    # The lexical index holds no underscores: it would find the parts anywhere and call that the word.
    parts = split_camel_case(word)
    return parts if "_" in word else [word, *parts]


def _cut(word: str) -> str:
    return word.encode()[:_LONGEST_WORD].decode(errors="ignore")


def storable(text: str) -> bool:
    """Whether UTF-8 and PostgreSQL can hold the text: no NUL, no unpaired surrogate."""
    return _UNSTORABLE.search(text) is None


def one_line(text: str) -> str:
    """The text in one line, so that what somebody wrote cannot pose as more than a part of what is shown."""
    return " ".join(text.split())


def sentences(text: str) -> list[str]:
    """The sentences of a text, the lines of a list and the conditions that a semicolon parts, in order."""
    return [line for each in _SENTENCE_BOUNDARY.split(text) if (line := one_line(each))]


def cut_short(text: str, *, limit: int) -> str:
    """The text within `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _ELLIPSIS


def cut_at_word(text: str, *, limit: int) -> str:
    """The text within `limit` characters, cut at a word."""
    return text if len(text) <= limit else text[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + _ELLIPSIS


def shortened(text: str, *, limit: int) -> str:
    """The text in one line within `limit` characters, cut at a word."""
    return cut_at_word(one_line(text), limit=limit)


def all_storable(value: Any) -> bool:
    """Whether all texts in a value of JSON are `storable`, the names of its members included."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return all(storable(name) and all_storable(member) for name, member in value.items())
    return all(map(all_storable, value)) if isinstance(value, list | tuple) else True


def exclusion_text(fields: Iterable[str]) -> str:
    """The fields as lower-case words between single spaces, so that a whole word or phrase is a plain substring."""
    return " " + _FIELD_BOUNDARY.join(" ".join(words(field.casefold())) for field in fields) + " "


def exclusion_phrase(keyword: str) -> str:
    """A keyword in the form in which `exclusion_text` contains it; empty when it has no word at all."""
    found = words(keyword.casefold())
    return f" {' '.join(found)} " if found else ""


class WordPlace(IntEnum):
    """Where in a workflow a term of the query occurs, all words of it; of several places the most significant one."""

    NONE = 0
    SIGNAL = 1
    """A signal type that it declares."""
    WHAT = 2
    WHEN_TO_USE = 3
    NAME = 4
    """Its name, title, keywords or action type."""


PLACE_WEIGHTS = (0.0, 0.5, 1.0, 1.0, 1.4)
"""What it counts where a part of the query is found, by `WordPlace`: nowhere, signal type, what, when to use, name."""


def without_userinfo(url: str) -> str:
    """An address for people to see: without the user and the password in it."""
    return _USERINFO.sub(lambda found: found[1] or "", url)
