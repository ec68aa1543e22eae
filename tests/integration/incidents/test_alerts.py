"""Alerts of Alertmanager, PagerDuty and other systems as incidents, sent to a real server over a real PostgreSQL."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.loading.targets import ManifestTargets
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import answer_of, call
from support.alerts import TOKEN, alert, body
from support.commands import formulary
from support.databases import migrated_database
from support.manifest import text
from support.pages import page_of
from support.runnable import runnable
from support.services import open_parts
from support.serving import load, serving

SEARCH, QUERY = "search_workflow_catalog", {"query": "oom restart raise", "top_k": 10}
SHOP, PAGER, JSON, OPEN = "shop/alerts", "shop/pager", "shop/json", "shop/open"
PRESET = {"type": "alertmanager", "namespaces": ["shop"]}
AUTH = {"secretRef": {"name": "alerts"}}


def _object(kind: str, name: str, *, api_version: str = "v1", **members: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    metadata |= {key: members.pop(key) for key in ("namespace", "labels") if key in members}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members}


def _source(name: str, spec: dict[str, Any], *, namespace: str = "shop") -> dict[str, Any]:
    return _object("IncidentSource", name, api_version="formulary.dev/v1alpha1", namespace=namespace, spec=spec)


def _documents() -> list[dict[str, Any]]:
    named = {"namespace": {"path": "$.where"}, "kind": {"value": "Deployment"}, "name": {"path": "$['what-is']"}}
    generic = {
        "type": "webhook",
        "namespaces": ["shop"],
        "auth": AUTH,
        "alerts": "$.alerts[*]",
        "target": named,
        "signalName": {"path": "$.name"},
        "status": {"path": "$.state"},
    }
    return [
        runnable("oom-restart", customLabels={"restarts": "yes"}),
        runnable("oom-raise", customLabels={"restarts": "no"}),
        _object(
            "Namespace",
            "shop",
            labels={"environment": "production", "constraint.formulary.dev/restarts": "no"},
        ),
        _object("Namespace", "bare"),
        _object("Namespace", "team-b", labels={"environment": "production"}),
        *(_object("Deployment", "web", api_version="apps/v1", namespace=each) for each in ("shop", "bare", "team-b")),
        _object("Secret", "alerts", namespace="shop", stringData={"token": TOKEN}),
        _object("Secret", "alerts", namespace="bare", stringData={"token": TOKEN}),
        _source("alerts", {**PRESET, "auth": AUTH, "context": {"environment": {"label": "env"}}}),
        _source(
            "alerts",
            {**PRESET, "namespaces": ["bare"], "auth": AUTH, "context": {"environment": {"label": "env"}}},
            namespace="bare",
        ),
        _source("open", PRESET),
        _source("json", generic),
        _source("pager", {"type": "pagerduty", "namespaces": ["shop"], "auth": AUTH}),
        _source("foreign", {**PRESET, "namespaces": ["team-b"], "auth": AUTH}),
    ]


KEYS = InputKeys.generate()


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with migrated_database(postgres) as created:
        yield created


@pytest.fixture(scope="module")
async def parts(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    directory = tmp_path_factory.mktemp("manifests")
    (directory / "all.yaml").write_text(text(*_documents()), encoding="utf-8")
    targets = ManifestTargets(default_namespace="formulary")
    foreign = "may not speak for namespace team-b"
    await load([directory], dsn=dsn, embedder=None, targets=targets, keys=InputKeys.load(KEYS), refused=foreign)
    async with open_parts(dsn, policy=ContextPolicy.REQUIRED, targets=targets) as opened:
        yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "input.key"
    keys.write_text(KEYS, encoding="ascii")
    async with serving(parts, request_context="required", input_key_file=keys) as address:
        yield address


async def send(
    url: str, message: Any, *, to: str = SHOP, token: str = TOKEN, **headers: str
) -> tuple[int, dict[str, Any]]:
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    given = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        sent = await http.post(f"/api/v1/incidents/{to}", content=content, headers=given)
    return sent.status_code, sent.json()


async def _offered(url: str, incident: str) -> set[str]:
    answer = answer_of(await call(url, SEARCH, QUERY, headers={"X-Remediation-Id": incident}))
    return {hit["workflow_id"] for hit in answer["workflows"]}


async def _rows(dsn: str, statement: str, *arguments: object) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(statement, *arguments))
    finally:
        await connection.close()


async def _episodes(dsn: str, fingerprint: str) -> list[Any]:
    return await _rows(dsn, "select * from formulary.alert_episode where fingerprint = $1 order by number", fingerprint)


async def test_an_agent_with_the_id_of_an_alert_is_offered_what_its_target_allows(url: str) -> None:
    status, answer = await send(url, body(alert("c0ffee01")))

    assert (status, answer["begun"], answer["incidents"]) == (200, 1, ["al-c0ffee01"])
    assert await _offered(url, "al-c0ffee01") == {"oom-raise"}
    named = await call(url, SEARCH, QUERY, meta={"kubernaut.ai/remediation-id": "al-c0ffee01"})
    assert [hit["workflow_id"] for hit in answer_of(named)["workflows"]] == ["oom-raise"]


async def test_repeated_alerts_are_one_incident_and_a_refired_one_is_a_new_episode(url: str, dsn: str) -> None:
    fired, later = alert("c0ffee02"), "2026-11-29T02:00:00Z"
    changes = []
    for each in (
        fired,
        fired,
        alert("c0ffee02", status="resolved"),
        alert("c0ffee02", status="resolved"),
        alert("c0ffee02", starts=later),
        alert("c0ffee02", status="resolved"),
    ):
        _, answer = await send(url, body(each))
        changes.append(next(name for name in ("begun", "repeated", "ended", "ignored") if answer[name]))

    # What is late, such as the end of an episode before, changes nothing.
    assert changes == ["begun", "repeated", "ended", "ignored", "begun", "ignored"]
    rows = await _rows(dsn, "select * from formulary.alert where fingerprint = 'c0ffee02'")
    episodes = await _episodes(dsn, "c0ffee02")
    assert [(row["firing"], row["episode"], row["messages"]) for row in rows] == [(True, 2, 4)]
    assert [row["ended_at"] is None for row in episodes] == [False, True]


async def test_an_alert_fired_again_with_its_first_start_is_a_new_episode_after_the_first(url: str, dsn: str) -> None:
    await send(url, body(alert("c0ffee03")))
    await send(url, body(alert("c0ffee03", status="resolved")))
    _, answer = await send(url, body(alert("c0ffee03")))

    assert answer["begun"] == 1
    first, second = await _episodes(dsn, "c0ffee03")
    assert first["ended_at"] <= second["began_at"]
    assert (await send(url, body(alert("c0ffee03", status="resolved"))))[1]["ended"] == 1


async def test_an_episode_ended_when_the_sender_says_and_not_when_the_message_came(url: str, dsn: str) -> None:
    long_ago = "2026-01-01T00:00:00Z"
    ends = {"c0ffee14": "2026-01-01T00:07:00Z", "c0ffee15": "2025-01-01T00:00:00Z", "c0ffee16": "9999-01-01T00:00:00Z"}
    await send(url, body(*(alert(each, starts=long_ago) for each in ends)))
    await send(
        url, body(*({**alert(each, status="resolved", starts=long_ago), "endsAt": at} for each, at in ends.items()))
    )

    [said], [before_it_began], [never] = [await _episodes(dsn, each) for each in ends]
    assert said["ended_at"] - said["began_at"] == timedelta(minutes=7)
    assert before_it_began["ended_at"] == before_it_began["began_at"]
    assert never["ended_at"] <= datetime.now(UTC)


async def test_a_start_in_the_future_does_not_make_all_that_follows_late(url: str) -> None:
    await send(url, body(alert("c0ffee17", starts="9999-01-01T00:00:00Z")))
    _, ended = await send(url, body(alert("c0ffee17", status="resolved", starts="9999-01-01T00:00:00Z")))
    later = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    _, begun = await send(url, body(alert("c0ffee17", starts=later)))

    assert (ended["ended"], begun["begun"]) == (1, 1)


@pytest.mark.parametrize(
    ("to", "token"),
    [
        (SHOP, "wrong-token-of-some-length"),
        (SHOP, ""),
        (SHOP, TOKEN.upper()),
        ("shop/nothing", TOKEN),
        ("team-b/alerts", TOKEN),
        ("shop/foreign", TOKEN),
        (PAGER, TOKEN),
    ],
)
async def test_without_the_secret_of_its_source_a_message_changes_nothing(
    url: str, dsn: str, to: str, token: str
) -> None:
    status, answer = await send(url, body(alert("f0f0f0f0")), to=to, token=token)

    assert status == 401
    assert "needs the secret that its spec.auth.secretRef names" in answer["error"]["message"]
    assert not await _rows(dsn, "select from formulary.alert where fingerprint = 'f0f0f0f0'")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"alerts": "many"}, "alerts is not a list of objects"),
        ({}, "alerts is not a list of objects"),
        (b"{", "the body is not JSON"),
        (body({"status": "firing", "labels": {"a": 1}, "fingerprint": "f0"}), "labels is not a map of texts"),
        (body({**alert("f1"), "status": "gone"}), "status is neither firing nor resolved"),
        (body(alert("f2", namespace="team-b")), "names shop; send it to a source that speaks for its target"),
        (body(alert("f3", namespace="")), "target_namespace is missing"),
        (body(alert("f4", deployment="", namespace="")), "or map what it does send in spec.target"),
        (body(alert("f5", deployment="../../etc")), "is no name of an object"),
        (body(alert("f6", alertname="")), "alertname is missing; have the sender add it, or map what"),
        (body(alert("f7", **{f"label{number}": "x" for number in range(10_000)})), "it has 10004 labels"),
        (body(alert("f8", node="worker-1", deployment="")), "is in no namespace"),
        (body(*[alert("f9")] * 1001), "send at most 1000 at once"),
    ],
)
async def test_a_forged_body_changes_nothing_and_is_answered_clearly(
    url: str, dsn: str, message: Any, said: str
) -> None:
    before = await _rows(dsn, "select fingerprint from formulary.alert order by 1")
    status, answer = await send(url, message)

    assert status == 400
    assert said in answer["error"]["message"]
    assert await _rows(dsn, "select fingerprint from formulary.alert order by 1") == before


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_body_of_ten_megabytes_is_refused(url: str, dsn: str, in_pieces: bool) -> None:
    async def pieces(content: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(content), 100_000):
            yield content[start : start + 100_000]

    content = json.dumps(body(alert("f10", pad="x" * 10_000_000))).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        sent = await http.post(
            f"/api/v1/incidents/{SHOP}", content=pieces(content) if in_pieces else content, headers=headers
        )

    assert sent.status_code == 413
    assert "send fewer alerts at once" in sent.json()["error"]["message"]
    assert not await _rows(dsn, "select from formulary.alert where fingerprint = 'f10'")


async def test_of_a_group_what_cannot_be_mapped_is_named_and_the_rest_is_stored(url: str, dsn: str) -> None:
    status, answer = await send(url, body(alert("c0ffee04"), alert("c0ffee05", namespace="team-b")))

    assert (status, answer["begun"], [each["fingerprint"] for each in answer["refused"]]) == (200, 1, ["c0ffee05"])
    problem = await _rows(
        dsn, "select problem from formulary.incident_source where (namespace, name) = ('shop', 'alerts')"
    )
    assert "1 of 2: alert c0ffee05: its target team-b/Deployment/web" in problem[0]["problem"]


async def test_labels_of_an_alert_never_change_what_its_namespace_demands(url: str) -> None:
    await send(url, body(alert("c0ffee06", env="development", restarts="yes")))
    answer = answer_of(
        await call(url, SEARCH, {"query": "oom restart raise"}, headers={"X-Remediation-Id": "al-c0ffee06"})
    )

    assert [hit["workflow_id"] for hit in answer["workflows"]] == ["oom-raise"]
    assert any("the alert gives another environment than the labels of its target" in note for note in answer["notes"])


async def test_people_read_what_would_be_offered_for_an_alert_without_an_agent(url: str) -> None:
    incident = "al-c0ffee12"
    await send(url, body(alert("c0ffee12")))
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        answer = (await http.get(f"/api/v1/incidents/{incident}")).json()
        listed = (await http.get("/api/v1/incidents", params={"limit": 100})).json()["incidents"]
        page = (await http.get(f"/console/incidents/{incident}")).text
        unknown = await http.get("/console/incidents/al-0ff0ff0f")
    shown = (await formulary("incident", "show", incident, "--url", url)).out

    assert (answer["target"], answer["state"], answer["environment"]) == ("shop/Deployment/web", "firing", "production")
    assert answer["custom_labels"] == {"restarts": ["no"]}
    assert answer["query"] == "KubePodCrashLooping critical oom restart raise"
    assert [hit["workflow_id"] for hit in answer["offer"]["workflows"]] == ["oom-raise"]
    assert [each["ended"] for each in answer["alert"]["episodes"]] == [""]
    assert [each["state"] for each in listed if each["remediation_id"] == incident] == ["firing"]
    assert "What would be offered" in page
    assert "oom-raise" in page
    assert "oom-restart" not in page
    assert unknown.status_code == 404
    assert "oom-raise" in shown


async def test_the_first_page_counts_an_alert_while_it_fires_and_leads_to_it(url: str) -> None:
    async def firing() -> int:
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            page = page_of((await http.get("/console/overview")).text)
        (said,) = [each.words for each in page.all("span") if each.words.startswith("alerts that fire")]
        return int(said.removeprefix("alerts that fire: ").partition(";")[0])

    async def listed() -> tuple[bool, bool]:
        """Whether it is on the page that the number leads to, and whether REST lists it."""
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            page = page_of((await http.get("/console/incidents?of=open")).text)
            answer = (await http.get("/api/v1/incidents", params={"open": "true", "limit": 200})).json()
        links = [each.attributes["href"] for each in page.all("a")]
        ids = [each["remediation_id"] for each in answer["incidents"]]
        return "/console/incidents/al-c0ffee14" in links, "al-c0ffee14" in ids

    before = await firing()
    await send(url, body(alert("c0ffee14")))
    during, shown = await firing(), await listed()
    await send(url, body(alert("c0ffee14", status="resolved")))

    assert (during, await firing()) == (before + 1, before)
    assert (shown, await listed()) == ((True, True), (False, False))


async def test_looking_at_an_alert_is_no_search_for_it(url: str) -> None:
    await send(url, body(alert("c0ffee13")))
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        for _ in range(2):
            await http.get("/api/v1/incidents/al-c0ffee13")
        assert (await http.get("/api/v1/traces/al-c0ffee13")).status_code == 404


async def test_what_the_namespace_leaves_open_is_taken_from_the_alert_where_its_source_says_so(url: str) -> None:
    await send(url, body(alert("c0ffee07", namespace="bare", env="production")), to="bare/alerts")
    await send(url, body(alert("c0ffee08", namespace="bare")), to="bare/alerts")

    assert await _offered(url, "al-c0ffee07") == {"oom-raise", "oom-restart"}
    with pytest.raises(AssertionError, match="has no label"):
        await _offered(url, "al-c0ffee08")


async def test_two_sources_with_one_fingerprint_and_different_targets_fail_closed(url: str) -> None:
    await send(url, body(alert("c0ffee09")))
    await send(url, body(alert("c0ffee09", namespace="bare", env="production")), to="bare/alerts")

    with pytest.raises(AssertionError, match="belongs to 2 incidents"):
        await _offered(url, "al-c0ffee09")


async def test_any_json_is_mapped_by_paths(url: str, dsn: str) -> None:
    fired = {"alerts": [{"name": "Disk full", "where": "shop", "what-is": "web", "state": "open"}]}
    over = {"alerts": [{**fired["alerts"][0], "state": "OK"}]}
    began, ended = await send(url, fired, to=JSON), await send(url, over, to=JSON)

    assert (began[1]["begun"], ended[1]["ended"]) == (1, 1)
    assert began[1]["incidents"] == ended[1]["incidents"]


async def test_a_message_of_pagerduty_counts_with_its_signature_alone(url: str) -> None:
    event = {"event_type": "incident.triggered", "occurred_at": "2026-11-29T01:00:00Z"}
    message = json.dumps({"event": {**event, "data": {"id": "PGR0VU2", "title": "Web is down", "urgency": "high"}}})
    signature = hmac.new(TOKEN.encode(), message.encode(), hashlib.sha256).hexdigest()
    forged = await send(url, message.encode(), to=PAGER, **{"X-PagerDuty-Signature": f"v1={'0' * 64}"})
    unread = await send(url, b"{", to=PAGER, **{"X-PagerDuty-Signature": f"v1={'0' * 64}"})
    signed = await send(url, message.encode(), to=PAGER, **{"X-PagerDuty-Signature": f"v1=00,v1={signature}"})

    assert (forged[0], unread[0]) == (401, 401)
    assert (signed[0], signed[1]["incidents"]) == (200, ["al-PGR0VU2"])
    assert await _offered(url, "al-PGR0VU2") == {"oom-raise"}


async def test_on_loopback_a_source_without_a_secret_takes_alerts(url: str) -> None:
    assert (await send(url, body(alert("c0ffee10")), to=OPEN, token=""))[0] == 200


async def test_elsewhere_it_takes_none(parts: CatalogParts) -> None:
    async with serving(parts, host="0.0.0.0") as url:
        assert (await send(url, body(alert("c0ffee11")), to=OPEN, token=""))[0] == 401


async def test_what_a_message_ends_makes_room_for_what_it_begins(
    url: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = "select count(*) as count from formulary.alert where (source_namespace, source_name) = ('bare', 'alerts')"
    await send(url, body(alert("c0ffee20", namespace="bare")), to="bare/alerts")
    monkeypatch.setattr("formulary_catalog.store.alerts.MOST_KEPT", (await _rows(dsn, kept))[0]["count"])
    full = await send(url, body(alert("c0ffee21", namespace="bare")), to="bare/alerts")
    over, new = alert("c0ffee20", status="resolved", namespace="bare"), alert("c0ffee21", namespace="bare")
    _, answer = await send(url, body(new, over), to="bare/alerts")

    assert full[0] == 503
    assert "resolve alerts, or send fewer to this source" in full[1]["error"]["message"]
    assert (answer["begun"], answer["ended"]) == (1, 1)
    assert not await _rows(dsn, "select from formulary.alert where fingerprint = 'c0ffee20'")


async def test_many_messages_at_once_are_one_incident_each_and_none_is_lost(url: str, dsn: str) -> None:
    async def until_stored(message: Any) -> None:
        while (sent := (await send(url, message))[0]) != 200:  # as Alertmanager does
            assert sent == 503

    messages = [body(*(alert(f"b{number:03}") for number in (each, each + 1))) for each in range(60)]
    await asyncio.gather(*map(until_stored, messages))

    rows = await _rows(
        dsn, "select count(*) as count, max(episode) as most from formulary.alert where fingerprint ~ '^b'"
    )
    assert (rows[0]["count"], rows[0]["most"]) == (61, 1)
