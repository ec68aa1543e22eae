"""The watch where the API server refuses it, for a moment or for good."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from formulary_operator.api.names import WORKFLOWS
from formulary_operator.watch import handlers, kopf_watch
from formulary_operator.watch.kopf_watch import Watcher
from formulary_operator.watch.queue import ObjectKey
from support.kube_clients import api_server, kubeconfig_of

SECONDS = 30
KEY = ObjectKey(WORKFLOWS.plural, "shop", "restart")
_GROUP, _VERSION = WORKFLOWS.api_version.split("/")


def _served(plural: str, kind: str, *, namespaced: bool) -> dict[str, Any]:
    verbs = ["list", "watch"]
    return {"name": plural, "kind": kind, "singularName": "", "namespaced": namespaced, "verbs": verbs}


_DISCOVERED: dict[str, dict[str, Any]] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [_served("namespaces", "Namespace", namespaced=False)]},
    "/apis": {
        "groups": [{"name": _GROUP, "versions": [{"version": _VERSION}], "preferredVersion": {"version": _VERSION}}]
    },
    f"/apis/{WORKFLOWS.api_version}": {"resources": [_served(WORKFLOWS.plural, WORKFLOWS.kind, namespaced=True)]},
}


class ApiServer:
    """Answers watches with these statuses in turn, and from then on with the last; 200 with an object that is there."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.stream_ends = asyncio.Event()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path in _DISCOVERED:
            return web.json_response(_DISCOVERED[request.path])
        if "watch" not in request.query:
            return web.json_response({"items": [], "metadata": {"resourceVersion": "1"}})
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if status != 200:
            return web.json_response({"kind": "Status", "code": status, "message": "no"}, status=status)
        stream = web.StreamResponse()
        await stream.prepare(request)
        metadata = {"namespace": KEY.namespace, "name": KEY.name, "uid": "1", "resourceVersion": "2"}
        seen = {"apiVersion": WORKFLOWS.api_version, "kind": WORKFLOWS.kind, "metadata": metadata, "spec": {}}
        await stream.write(json.dumps({"type": "ADDED", "object": seen}).encode() + b"\n")
        await self.stream_ends.wait()
        return stream


@asynccontextmanager
async def watching(
    server: ApiServer, changed: "asyncio.Queue[ObjectKey]", *, home: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator["asyncio.Task[None]"]:
    """A watch on this API server, with its token."""
    async with api_server(server.answer) as url:
        (home / "kubeconfig").write_text(yaml.safe_dump(kubeconfig_of(url, user={"token": "t0ken"})))
        monkeypatch.setenv("KUBECONFIG", str(home / "kubeconfig"))
        watcher = Watcher(
            kinds=[WORKFLOWS],
            namespaces=["shop"],
            changed=lambda key, _: changed.put_nowait(key),
            relisted=lambda: None,
        )
        task = asyncio.create_task(watcher.watch())
        try:
            yield task
        finally:
            server.stream_ends.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that finds out soon."""
    monkeypatch.setattr(handlers, "LOGIN_PAUSES", (0.01,) * 3)
    monkeypatch.setattr(kopf_watch, "_SUPERVISION_SECONDS", 0.1)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("refusals", [[401], [401, 401, 503, 401]], ids=["once", "again and again"])
async def test_it_goes_on_where_a_good_token_is_refused_for_a_moment(
    refusals: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, changed = ApiServer(*refusals, 200), asyncio.Queue[ObjectKey]()

    async with watching(server, changed, home=tmp_path, monkeypatch=monkeypatch), asyncio.timeout(SECONDS):
        assert await changed.get() == KEY


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("status", "says"), [(401, "Ran out of valid credentials"), (404, "no")])
async def test_it_ends_where_it_is_refused_for_good_and_says_so_without_a_traceback(
    status: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, changed = ApiServer(200, status), asyncio.Queue[ObjectKey]()

    async with watching(server, changed, home=tmp_path, monkeypatch=monkeypatch) as task, asyncio.timeout(SECONDS):
        await changed.get()
        server.stream_ends.set()
        await task

    assert any(says in record.getMessage() for record in caplog.records)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert "Traceback" not in caplog.text
