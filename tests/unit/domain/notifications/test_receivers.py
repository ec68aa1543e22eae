"""Receivers of notifications as the setting names them, what is sent to them, and how it is signed."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from formulary_catalog.domain.notifications.formats import message_of
from formulary_catalog.domain.notifications.notices import Event, Notice
from formulary_catalog.domain.notifications.receivers import Format, signature_headers
from formulary_operator.settings import OperatorSettings

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WAITING = Notice(
    id="inv-1.waiting",
    event=Event.WAITING,
    subject="inv-1",
    trace_id="rr-1",
    namespace="shop",
    workflow="formulary/restart",
    version="1.0.0",
    target="shop/Deployment/checkout",
    risk="high",
    state="awaiting_approval",
    reason="AwaitingApproval",
    requested_by="agent",
    waits_until="2026-11-21T12:00:00Z",
)
LINK = "https://formulary.example/console/waiting/inv-1"
TITLE = "formulary/restart on shop/Deployment/checkout waits for an approval"


def sent(format: Format) -> dict[str, object]:
    said = message_of(WAITING, format=format, at=NOON, console_url="https://formulary.example")
    document: dict[str, object] = json.loads(said[1])
    return document


def test_a_webhook_gets_a_cloud_event() -> None:
    assert sent(Format.CLOUDEVENTS) == {
        "specversion": "1.0",
        "id": "inv-1.waiting",
        "source": "https://formulary.example",
        "type": "dev.formulary.run.waiting",
        "subject": "inv-1",
        "time": "2026-11-20T12:00:00Z",
        "datacontenttype": "application/json",
        "data": {
            "trace_id": "rr-1",
            "namespace": "shop",
            "workflow": "formulary/restart",
            "version": "1.0.0",
            "target": "shop/Deployment/checkout",
            "risk": "high",
            "state": "awaiting_approval",
            "reason": "AwaitingApproval",
            "requested_by": "agent",
            "waits_until": "2026-11-21T12:00:00Z",
            "title": TITLE,
            "link": LINK,
        },
    }


@pytest.mark.parametrize("format", [Format.SLACK, Format.TEAMS, Format.MATTERMOST])
def test_a_chat_gets_title_risk_and_link(format: Format) -> None:
    said = json.dumps(sent(format)).replace("`", "")
    assert all(part in said for part in (TITLE, "high", "agent", "2026-11-21T12:00:00Z", LINK))


@pytest.mark.parametrize(("key", "secret"), [("s3cret", b"s3cret"), ("whsec_AAEC", b"\0\1\2")])
def test_a_signature_is_that_of_standard_webhooks(key: str, secret: bytes) -> None:
    headers = signature_headers(key, id="inv-1.waiting", timestamp=1700000000, body=b"{}")
    expected = hmac.new(secret, b"inv-1.waiting.1700000000.{}", hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("inv-1.waiting", "1700000000")


def test_receivers_are_read_from_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"name": "oncall", "format": "slack", "secretDir": "/etc/hook", "events": ["waiting"]}
    monkeypatch.setenv("FORMULARY_NOTIFICATIONS", json.dumps([named]))
    (receiver,) = OperatorSettings().notifications
    assert (receiver.name, receiver.format, receiver.events) == ("oncall", Format.SLACK, (Event.WAITING,))


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("{", "invalid json"),
        ('[{"name": "a"}]', "neither url nor secretdir"),
        ('[{"name": "a", "url": "file:///etc/s3cret"}]', "is no address"),
        ('[{"name": "a", "url": "http://s3cret/", "event": []}]', "0: event"),
        ('[{"name": "a", "url": "http://s3cret/"}, {"name": "a", "url": "http://b/"}]', "twice"),
    ],
)
def test_a_wrong_receiver_is_refused_without_its_address(
    monkeypatch: pytest.MonkeyPatch, setting: str, problem: str
) -> None:
    monkeypatch.setenv("FORMULARY_NOTIFICATIONS", setting)
    with pytest.raises(ValidationError) as refused:
        OperatorSettings()
    message = refused.value.errors(include_url=False)[0]["msg"].lower()
    assert problem in message
    assert "s3cret" not in message


def test_the_chart_takes_the_formats_and_events_that_there_are() -> None:
    schema = json.loads((Path(__file__).parents[4] / "charts" / "formulary" / "values.schema.json").read_text())
    fields = schema["properties"]["notifications"]["items"]["properties"]
    assert fields["format"]["enum"] == list(Format)
    assert fields["events"]["items"]["enum"] == list(Event)
