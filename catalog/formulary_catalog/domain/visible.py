"""Characters that nobody sees, or that turn the writing direction: text could hide behind them from who reads it.

Writers of manifests are refused them. What an earlier release stored is read with a mark in the place of each.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MARK = "\ufffd"
"""What is shown for such a character: one for one, so that no text becomes empty or longer, and no words are joined."""
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Controls, format characters, which include marks that turn the writing direction, separators of lines, paragraphs."""
_SEEN_CONTROLS = "\t\n"
_BLANK = re.compile(
    "["
    "\u2800\u115f\u1160\u3164\uffa0\U00013441\U00013442\U00016fe4\U0001d159"  # blank letters, signs and fillers
    # What Unicode calls default ignorable beside format characters: variation selectors spell whole messages.
    "\u034f\u17b4\u17b5\u180b-\u180f\u2065\ufe00-\ufe0f\ufff0-\ufff8\U000e0000-\U000e0fff"
    "]"
)
"""What is drawn as nothing, or as a space, though its category does not say so."""
_ZERO_WIDTH_JOINER = "\u200d"
_JOINERS = ("\u200c", _ZERO_WIDTH_JOINER)
_EMOJI_STYLES = ("\ufe0e", "\ufe0f")
_KEYCAP = "\u20e3"
_FIRST_ARROW = "\u2190"  # mathematical and modifier symbols from here on may be emoji
_EMOJI_PUNCTUATION = "\u203c\u2049\u2139\u3030"
# First words of the names that Unicode gives to letters and signs of scripts that are spelt with joiners.
_JOINING_SCRIPTS = frozenset(
    "ARABIC SYRIAC MANDAIC NKO MONGOLIAN PHAGS-PA DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA "
    "MALAYALAM SINHALA TIBETAN MYANMAR KHMER BALINESE JAVANESE".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Such a character: the field that holds it, steps separated by dots, and where in its text, from 1."""

    field: str
    character: str
    position: int

    def __str__(self) -> str:
        name = unicodedata.name(self.character, "a control character")
        return f"U+{ord(self.character):04X} ({name}) at character {self.position}"

    @property
    def problem(self) -> str:
        """What is wrong, and what to do."""
        return f"contains {self}, which cannot be seen or changes how the text reads; remove it"


def visible(text: str) -> str:
    """The text with `MARK` for each character that hides something.

    A carriage return may end a line, a joiner may stand where a script or an emoji needs it, and a variation selector
    behind an emoji.
    """
    if text.isascii() and text.isprintable():
        return text
    if not any(map(_hides, set(text))):
        return text
    shown: list[str] = []
    for position, character in enumerate(text):
        before = shown[-1] if shown else ""
        after = text[position + 1 : position + 2]
        hides = _hides(character) and not _is_needed(character, before=before, after=after)
        shown.append(MARK if hides else character)
    return "".join(shown)


def all_visible(value: Any) -> Any:
    """A value of JSON with all its texts `visible`, the names of members included."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(name)): all_visible(member) for name, member in value.items()}
    return [all_visible(member) for member in value] if isinstance(value, list | tuple) else value


def first_hidden(value: Any, *, field: str) -> Hidden | None:
    """The first character in a value of JSON that hides something; `field` is what the value is called."""
    return next(_hidden(value, field=field), None)


def _hidden(value: Any, *, field: str) -> Iterator[Hidden]:
    if isinstance(value, str):
        shown = visible(value)
        if shown != value:
            at = next(at for at, (one, other) in enumerate(zip(value, shown, strict=True)) if one != other)
            yield Hidden(field=field, character=value[at], position=at + 1)
    elif isinstance(value, Mapping):
        for name, member in value.items():
            inner = f"{field}.{visible(str(name))}"
            yield from _hidden(name, field=inner)
            yield from _hidden(member, field=inner)
    elif isinstance(value, list | tuple):
        for number, member in enumerate(value):
            yield from _hidden(member, field=f"{field}.{number}")


def _hides(character: str) -> bool:
    """Whether nobody sees the character, or it changes how others are read; `_is_needed` knows the exceptions."""
    if unicodedata.category(character) in _UNSEEN_CATEGORIES:
        return character not in _SEEN_CONTROLS
    return _BLANK.match(character) is not None


def _is_needed(character: str, *, before: str, after: str) -> bool:
    """Whether the character does its job between its neighbours; `before` is as it is shown."""
    if character == "\r":
        return after == "\n"
    if character in _JOINERS and _is_of_joining_script(before):
        return True
    if character == _ZERO_WIDTH_JOINER:
        return (_is_emoji(before) or before in _EMOJI_STYLES) and _is_emoji(after)
    if character in _EMOJI_STYLES:
        is_key = before != "" and before in "0123456789#*" and after == _KEYCAP
        return is_key or _is_emoji(before) or (before != "" and before in _EMOJI_PUNCTUATION)
    return False


def _is_of_joining_script(character: str) -> bool:
    if not character or unicodedata.category(character)[0] not in "LM":
        return False
    return unicodedata.name(character, "").partition(" ")[0] in _JOINING_SCRIPTS


def _is_emoji(character: str) -> bool:
    if not character or character == MARK or _hides(character):  # some of which are symbols too
        return False
    category = unicodedata.category(character)
    return category == "So" or (category in ("Sm", "Sk") and character >= _FIRST_ARROW)
