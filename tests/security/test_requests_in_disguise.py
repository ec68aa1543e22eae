"""Requests that pretend to be something else: of a page of another site, with another method, with a second `_meta`."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from formulary_catalog.edges.http.middleware import POSTED
from formulary_catalog.operations.json_text import META_KEY
from support.operator_process import Daemon, server
from support.process import FORMULARY

PATHS = sorted({*POSTED, "/api/v1/invocations/inv_1/approval"})
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", None]
"""What a page may send to any site without asking it first; a Blob goes without a type."""


@pytest.fixture(scope="module")
def daemon(dsn: str) -> Iterator[Daemon]:
    with server(dsn=dsn) as running:
        running.start().wait_ready()
        yield running


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", PATHS)
def test_another_method_than_post_is_not_allowed(daemon: Daemon, path: str, method: str) -> None:
    answer = httpx2.request(method, daemon.url + path)

    assert (answer.status_code, answer.headers.get("Allow")) == (405, "POST")
    assert method == "HEAD" or "POST" in answer.text


@pytest.mark.parametrize("content_type", SIMPLE)
@pytest.mark.parametrize("path", PATHS)
def test_what_a_page_may_send_without_asking_is_refused(daemon: Daemon, path: str, content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = httpx2.post(daemon.url + path, content=json.dumps(PING), headers=headers)

    assert answer.status_code in ({400, 415} if path == "/mcp" else {415})
    assert "application/json" in answer.text or "Content-Type" in answer.text


@pytest.mark.parametrize("origin", ["null", "https://evil.example", "http://localhost.evil.example", "file://"])
@pytest.mark.parametrize("path", PATHS)
def test_pages_of_other_sites_are_refused(daemon: Daemon, path: str, origin: str) -> None:
    assert httpx2.post(daemon.url + path, json=PING, headers={"Origin": origin}).status_code == 403


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_is_taken(daemon: Daemon, content_type: str) -> None:
    answer = httpx2.post(
        f"{daemon.url}/api/v1/workflows/search", content='{"query": "x"}', headers={"Content-Type": content_type}
    )

    assert answer.status_code == 200


def test_over_stdio_an_incident_cannot_be_lost_behind_a_second_meta(dsn: str) -> None:
    call = {"name": "search_workflow_catalog", "arguments": {"query": "OOMKilled"}}
    params = json.dumps(call).removesuffix("}") + f', "_meta": {{"{META_KEY}": "rr-1"}}, "_meta": {{}}}}'
    twice = f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'

    (refused, pong) = talk(dsn, twice, json.dumps({"jsonrpc": "2.0", "id": 8, "method": "ping"}))

    assert (refused["id"], refused["error"]["code"]) == (7, -32600)
    assert "has a member twice" in refused["error"]["message"]
    assert (pong["id"], pong["result"]) == (8, {})


def talk(dsn: str, *lines: str) -> list[dict[str, Any]]:
    """What `formulary stdio` answers to these messages, one after the other."""
    with subprocess.Popen(
        [FORMULARY, "stdio", "--database-url", dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for line in lines:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        process.wait(60)
    return answers
