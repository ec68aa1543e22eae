"""The lines of what was copied, without its markup.

`reading` calls it first. Rows of HTML and Markdown tables become cells between tabs. JSON becomes lines `key: value` as
in YAML, and a line of a log in JSON one as logs of plain text have. No word of a plain text is lost.
"""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

SIGNAL = r"(?:[A-Z]\w*[a-z][A-Z]\w*|OOMKilled\b|Evicted\b)"
"""What the name of an alert or a canonical signal looks like."""
_COLOUR = re.compile(r"\x1b\[[\d;]*[mK]")
_TAGS = re.compile(r"</?(?:table|tr|t[dh]|br|p|div|html|b|strong|i|em|code|pre|ul|li)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(
    r"<(?P<closes>/?)(?P<tag>a|abbr|article|b|blockquote|body|br|button|caption|center|code|col|colgroup|dd|details|div"
    r"|dl|dt|em|font|footer|h[1-6]|head|header|hr|html|i|img|kbd|li|link|main|meta|nav|ol|p|pre|s|samp|script|section"
    r"|small|span|strong|style|sub|summary|sup|table|tbody|td|tfoot|th|thead|title|tr|tt|u|ul)(?![\w.-])[^<>]*>"
    r"|<!doctype\b[^<>]*>",
    re.IGNORECASE,
)
_ENDS_LINE = frozenset({"tr", "br", "p", "div", "li", "h1", "h2", "h3", "table", "pre"})
_TABLES, _CELLS = frozenset({"table", "tr"}), frozenset({"td", "th"})
_SILENT = frozenset({"style", "script", "title", "head"})
_ESCAPED_KEY = re.compile(r'\\"\w+\\"\s*:')
_ESCAPED_BREAK = re.compile(r"(?<!\\)\\n")
_JSON = re.compile(r'[{\[]\s*[{"]')
_MAX_DOCUMENTS, _MAX_DEPTH = 80, 40
_PRINTED = re.compile(r"[ ]{3}\S|^Labels:|\[FIRING", re.MULTILINE)
_FIRST = {"alertname": 0, "status": 1, "state": 1, "labels": 2, "annotations": 3}
"""Keys of an alert in the order in which notifications have them."""
_LOGGED = (
    ("ts", "time", "timestamp", "@timestamp"),
    ("level", "lvl"),
    ("msg", "message", "event"),
    ("error", "err", "exception"),
)
"""Keys of a line of a log. Only what has a time and a level is one."""
_COMMON = frozenset({"groupLabels", "commonLabels", "commonAnnotations"})
_MARKS = re.compile(
    rf"""
      ^[ \t]*(?:>(?![ \t]*[=\d])[ \t]?)+             # a quotation, no comparison
    | ^[ \t]*(?:```|~~~)(?:[a-z]\w*)?[ \t]*(?:\n|\Z)   # a fence
    | ^[ \t]*```(?=[^\s`a-z]) | (?<=[^\s`])```[ \t]*$   # one beside its text
    | ^[ \t]*[-*•][ \t]+(?=\*|{SIGNAL})               # a point of a list that begins with a key or a name
    | ^[ \t]*\|[-:|\x20]+\|[ \t]*(?:\n|\Z)             # the line below the head of a table
    """,
    re.VERBOSE | re.MULTILINE,
)
_CODE = re.compile(r"(?<!\w)(`{1,3})(?=\S)([^`\n]+)\1(?!\w)")
_BOLD = re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])")
_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)


def plain_lines(text: str) -> list[str]:
    """The lines of a text without its markup."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n")
    plain = _without_tags(plain) if _TAGS.search(plain) else re.sub(r"&(?:[gl]t|amp|quot|#39);", _entity, plain)
    if _ESCAPED_KEY.search(plain):
        plain = _ESCAPED_BREAK.sub("\n", plain.replace('\\"', '"'))
    plain = _BOLD.sub(r"\2", _CODE.sub(r"\2", _MARKS.sub("", plain)))
    plain = _ROW.sub(lambda row: "\t".join(cell.strip() for cell in row[1].split("|")), plain)
    return _with_json_as_lines(plain).splitlines()


def _entity(found: re.Match[str]) -> str:
    return html.unescape(found[0])


def _without_tags(text: str) -> str:
    """The text of HTML. What is no tag of it, such as `<none>`, is text. A parser of HTML takes time that grows with
    the square of what is left open, and fails on what is none."""
    text = _without_comments(text)
    tags = [*_TAG.finditer(text)]
    closed = {(found["tag"] or "").casefold(): found.start() for found in tags if found["closes"]}
    parts: list[str] = []
    tables = silent = end = 0
    for found in tags:
        data, end = text[end : found.start()], found.end()
        tag, closes = (found["tag"] or "").casefold(), bool(found["closes"])
        if not silent:
            parts.append(html.unescape(re.sub(r"\s+", " ", data) if tables else data))
        if tag in _TABLES:
            tables = max(0, tables + (-1 if closes else 1))
        elif tag in _SILENT and (closes or found.start() < closed.get(tag, -1)):
            silent = max(0, silent + (-1 if closes else 1))
        parts.append("\n" if tag in _ENDS_LINE else "\t" if closes and tag in _CELLS else "")
    parts.append(html.unescape(text[end:]))
    lines = "".join(parts).split("\n")
    return "\n".join(
        "\t".join(filter(None, map(str.strip, line.split("\t")))) if "\t" in line else line for line in lines
    )


def _without_comments(text: str) -> str:
    parts, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (last := text.find("-->", start)) >= 0:
        parts.append(text[end:start])
        end = last + len("-->")
    return "".join([*parts, text[end:]])


def _with_json_as_lines(text: str) -> str:
    """The text, documents of JSON in it as lines; one that was cut off stays as it is."""
    if (whole := _decoded(text.strip())) and isinstance(whole[0], str) and whole[1] == len(text.strip()):
        text = whole[0]
    parts, end = [], 0
    for number, start in enumerate(_JSON.finditer(text)):
        if number == _MAX_DOCUMENTS:
            break
        if start.start() >= end and (document := _decoded(text[start.start() :])):
            before = text[end : start.start()].rstrip(" \t")
            logged = _of_log(document[0])
            parts += [*([before] if before else []), *([logged] if logged else _lines(document[0], "", 0))]
            end = start.start() + document[1]
    return "\n".join([*parts, text[end:]]) if parts else text


def _decoded(text: str) -> tuple[Any, int] | None:
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return None


def _of_log(value: Any) -> str:
    """A line of a log that is written in JSON, its time, level, message and error; empty for what is none."""
    if not isinstance(value, dict):
        return ""
    time, level, message, error = (
        next((str(value[key]) for key in keys if isinstance(value.get(key), str | float | int)), "") for keys in _LOGGED
    )
    return " ".join(f"{time if ':' in time else ''} level={level} {message} {error}".split()) if time and level else ""


def _lines(value: Any, indent: str, depth: int) -> Iterator[str]:
    if depth == _MAX_DEPTH:
        return
    if isinstance(value, list):
        for each in value:
            first, *rest = [*_lines(each, f"{indent}  ", depth + 1)] or [""]
            yield from (f"{indent}- {first.strip()}", *rest)
    elif isinstance(value, dict):
        with_alerts = bool(value.get("alerts"))
        for key in sorted(value, key=lambda key: _FIRST.get(key, len(_FIRST))):
            member = value[key]
            if isinstance(member, dict | list):
                yield f"{indent}{key}:"
                yield from () if with_alerts and key in _COMMON else _lines(member, f"{indent}  ", depth + 1)
            elif isinstance(member, str) and "\n" in member and _PRINTED.search(member):
                yield from (f"{indent}{key}:", *member.splitlines())
            else:
                yield f"{indent}{key}: {' '.join(str(member).split())}"
    else:
        yield from (str(value).splitlines() or [""])
