"""The plain text of what was copied: without the colours of a terminal, Markdown, and the escapes of a string of JSON.

`domain.search.pasted` calls it before it reads what a program printed. No word is lost.
"""

import json
import re

SIGNAL = r"(?:[A-Z]\w*[a-z][A-Z]\w*|OOMKilled\b|Evicted\b)"
"""What the name of an alert or a canonical signal looks like."""
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
_ENTITIES = {"&gt;": ">", "&lt;": "<", "&amp;": "&"}
"""How Slack writes what it must not take for a mark."""
_ESCAPED_KEY, _ESCAPED_BREAK = re.compile(r'\\"\w+\\"\s*:'), re.compile(r"(?<!\\)\\n")
"""A key, and the end of a line, of what is in a string of JSON."""
_MARKS = re.compile(
    rf"""
      ^[ \t]*(?:>(?![ \t]*[=\d])[ \t]?)+             # a quotation, no comparison
    | ^[ \t]*(?:```|~~~)(?:[a-z]\w*)?[ \t]*(?:\n|\Z)   # a fence
    | ^[ \t]*```(?=[^\s`a-z]) | (?<=[^\s`])```[ \t]*$   # one beside its text
    | ^[ \t]*[-*•][ \t]+(?=\*|{SIGNAL})               # a point of a list that begins with a key or a name
    | ^\|[-:|\x20]+\|[ \t]*(?:\n|\Z)                   # the line below the head of a table
    """,
    re.VERBOSE | re.MULTILINE,
)
_CODE = re.compile(r"(?<!\w)(`{1,3})(?=\S)([^`\n]+)\1(?!\w)")
_BOLD = re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])")
_ROW = re.compile(r"^\|.*\|[ \t]*$", re.MULTILINE)


def without_markup(text: str) -> str:
    """The text with its words and lines, and nothing around them."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n")
    for entity, character in _ENTITIES.items():
        plain = plain.replace(entity, character)
    if _ESCAPED_KEY.search(plain) or _is_json(plain):
        plain = _ESCAPED_BREAK.sub("\n", plain.replace('\\"', '"'))
    plain = _BOLD.sub(r"\2", _CODE.sub(r"\2", _MARKS.sub("", plain)))
    return _ROW.sub(lambda row: row[0].replace("|", "  ").strip(), plain)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
