"""A notice in the form that its receiver understands: a CloudEvent, or a message for Slack, Teams or Mattermost.

All of them are made of the same title, facts and link. Texts of others are never markup: no name in a message mentions
people, formats text or links somewhere.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from formulary_catalog.domain.console_address import incident_link, waiting_link
from formulary_catalog.domain.moments import moment
from formulary_catalog.domain.notifications.notices import EXPIRED, Event, Notice
from formulary_catalog.domain.notifications.receivers import Format
from formulary_catalog.domain.text import split_camel_case

_OPEN = "Open in the console"
_CARD = "application/vnd.microsoft.card.adaptive"
_ENDED = {EXPIRED: "was not approved in time", "timed_out": "timed out", "refused": "was refused"}
Quote = Callable[[str], str]


def message_of(notice: Notice, *, format: Format, at: datetime, console_url: str) -> tuple[str, bytes]:
    """Content type and body of a notice that was due `at` that time; without `console_url` it has no link."""
    if format is Format.CLOUDEVENTS:
        return "application/cloudevents+json", _json(_cloud_event(notice, at=at, console_url=console_url))
    make = {Format.SLACK: _slack, Format.TEAMS: _teams, Format.MATTERMOST: _mattermost}[format]
    return "application/json", _json(make(notice, link_of(notice, console_url=console_url)))


def link_of(notice: Notice, *, console_url: str) -> str:
    """The page on which a person decides, or reads what happened; empty where the console's address is not known."""
    if notice.event.asks:
        return waiting_link(console_url, notice.subject)
    return incident_link(console_url, notice.trace_id)


def title_of_notice(notice: Notice, *, quote: Quote = str) -> str:
    """What happened, in one line; `quote` makes a text of others plain text."""
    if not notice.is_of_run:
        where = f"in namespace {quote(notice.namespace)}" if notice.namespace else "everywhere"
        return f"Runs are halted {where} by {quote(notice.decided_by)}"
    what = quote(notice.workflow) + (f" on {quote(notice.target)}" if notice.target else "")
    match notice.event:
        case Event.WAITING:
            return f"{what} waits for an approval"
        case Event.REMINDER:
            return f"{what} still waits for an approval, until {notice.waits_until}"
        case Event.DECIDED:
            return f"{what} was {notice.state} by {quote(notice.decided_by)}"
        case Event.HALTED:
            return f"{what} was halted"
        case Event.RELAPSED:
            return f"{what} helped for a while, and the problem is back"
        case Event.FAILED:
            return f"{what} {_ENDED.get(notice.state, 'failed')}"


def facts_of(notice: Notice) -> list[tuple[str, str]]:
    """What a person wants to know at a glance, by label."""
    facts = [
        ("Namespace", notice.namespace),
        ("Version", notice.version),
        ("Risk", notice.risk if notice.event.asks else ""),
        ("Requested by", notice.requested_by),
        ("Waits until", notice.waits_until),
        ("Reason", _words(notice.reason) if notice.event is Event.FAILED else ""),
        ("Run", notice.subject if notice.is_of_run else ""),
    ]
    return [(label, value) for label, value in facts if value]


def _cloud_event(notice: Notice, *, at: datetime, console_url: str) -> dict[str, Any]:
    data = notice.model_dump(mode="json", exclude_defaults=True, exclude={"id", "event", "subject"})
    link = link_of(notice, console_url=console_url)
    return {
        "specversion": "1.0",
        "id": notice.id,
        "source": console_url or "/formulary",
        "type": f"dev.formulary.{'run' if notice.is_of_run else 'halt'}.{notice.event}",
        "subject": notice.subject,
        "time": moment(at),
        "datacontenttype": "application/json",
        "data": {**data, "title": title_of_notice(notice), **({"link": link} if link else {})},
    }


def _slack(notice: Notice, link: str) -> dict[str, Any]:
    def plain(text: str) -> dict[str, Any]:
        return {"type": "plain_text", "text": text, "emoji": False}

    title = title_of_notice(notice)
    fields = [plain(f"{label}\n{value}") for label, value in facts_of(notice)]
    blocks: list[dict[str, Any]] = [{"type": "section", "text": plain(title)}]
    blocks += [{"type": "section", "fields": fields}] if fields else []
    if link:
        mark = {"type": "mrkdwn", "text": f"<{_escaped(link)}|{_OPEN}>", "verbatim": True}
        blocks.append({"type": "section", "text": mark})
    return {"text": _escaped(title), "blocks": blocks}


def _teams(notice: Notice, link: str) -> dict[str, Any]:
    def line(text: str, **style: str) -> dict[str, Any]:
        # Unlike text blocks and sets of facts, runs of text know no Markdown.
        return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}

    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            line(title_of_notice(notice), weight="Bolder"),
            *(line(f"{label}: {value}") for label, value in facts_of(notice)),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": _OPEN, "url": link}] if link else [],
    }
    return {"type": "message", "attachments": [{"contentType": _CARD, "content": card}]}


def _mattermost(notice: Notice, link: str) -> dict[str, Any]:
    fields = [{"short": True, "title": label, "value": _code(value)} for label, value in facts_of(notice)]
    opening = {"title": _OPEN, "title_link": link} if link else {}
    attachment = {"fallback": title_of_notice(notice, quote=_code), **opening, "fields": fields}
    return {"text": title_of_notice(notice, quote=_code), "attachments": [attachment]}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """Code names nobody and is no Markdown."""
    return f"`{text.replace('`', chr(39))}`"


def _words(reason: str) -> str:
    return " ".join(split_camel_case(reason)).lower()


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
