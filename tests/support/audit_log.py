"""The audit log of an API server: what was asked of it, by whom, and what it answered."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that the API server has answered, from its audit log; `at` is RFC 3339 and when it was received."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    at: str


def answered_request(line: str) -> Request:
    """The request of a line of the log."""
    event = json.loads(line)
    target = event.get("objectRef", {})
    return Request(
        user=event["user"].get("username", ""),
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=All" in event["requestURI"],
        at=event["requestReceivedTimestamp"],
    )
