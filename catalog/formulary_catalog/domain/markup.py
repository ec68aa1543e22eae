"""The plain text of what was copied: without the colours of a terminal, Markdown, and the escapes of a string of JSON.

`domain.search.pasted` calls it before it reads what a program printed. No word is lost.
"""

import re

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ENTITIES = {"&gt;": ">", "&lt;": "<", "&amp;": "&"}
"""How Slack writes what it must not take for a mark."""
_ESCAPED_KEY, _ESCAPED_BREAK = re.compile(r'\\"\w+\\"\s*:'), re.compile(r"\\n(?=[A-Z\d\s]|$)")
"""A key, and the end of a line, of what is in a string of JSON. A path such as `C:\\new` has neither."""
_LEAST_BREAKS = 2
_MARKS = re.compile(
    r"""
      ^[ \t]*(?:>[ \t]?)+                              # a quotation
    | ^[ \t]*(?:```|~~~)\w*[ \t]*(?:\n|\Z)             # a fence
    | ^[ \t]*[-*•][ \t]+(?=\*|[A-Z]\w*[a-z][A-Z]\w*)   # a point of a list that begins with a key or a name
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
    if _ESCAPED_KEY.search(plain) or ("\n" not in plain and len(_ESCAPED_BREAK.findall(plain)) >= _LEAST_BREAKS):
        plain = plain.replace('\\"', '"').replace("\\n", "\n")
    plain = _BOLD.sub(r"\2", _CODE.sub(r"\2", _MARKS.sub("", plain)))
    return _ROW.sub(lambda row: row[0].replace("|", "  ").strip(), plain)
