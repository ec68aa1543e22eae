"""Incidents in the console: the list, the story of one, its files, each as far as who looks may read it."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.audit.chain import OWN_TRACE
from formulary_catalog.domain.audit.export import directory_name
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from support.commands import Finished, answer_of, formulary
from support.incident_console import CLAIMED, EARLY, HOSTILE, LONG, LONG_EVENTS, VALUE, World, passages, served
from support.pages import page_of


@pytest.fixture(scope="module")
async def world(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with served(dsn, directory=tmp_path_factory.mktemp("keys")) as world:
        yield world


async def test_the_page_of_a_misspelt_incident_says_that_nothing_is_known_of_it(world: World) -> None:
    headers = {"Authorization": "Bearer agent", "X-Remediation-Id": "rr-shpo"}
    asked = await world.client.post("/api/v1/workflows/search", json={"query": "OOM"}, headers=headers)
    assert asked.status_code == 400
    said = "No incident of this name is known now"
    assert said in await world.page("/incidents/rr-shpo", by="auditor")
    assert said not in await world.page("/incidents/rr-shop", by="auditor")
    assert "rr-shpo" not in await world.page("/incidents", by="auditor"), "it is no incident"
    rows = page_of(await world.page("/incidents", by="auditor", of="all")).all("tr")
    marked = {row.all("th")[0].words.split()[0] for row in rows if "unknown incident" in row.words}
    assert marked == {"rr-shpo"}
    listed = await formulary("trace", "list", FORMULARY_URL=world.url, FORMULARY_TOKEN="auditor")
    assert [line.split()[-1] for line in listed.out.splitlines() if "unknown incident" in line] == ["rr-shpo"]


async def test_an_incident_that_was_asked_for_before_it_was_known_has_its_name_in_every_list(
    world: World, dsn: str
) -> None:
    body, early = {"query": "OOM"}, "rr-early"
    headers = {"Authorization": "Bearer agent", "X-Remediation-Id": early}
    assert (await world.client.post("/api/v1/workflows/search", json=body, headers=headers)).status_code == 400
    async with Database.opened(dsn, role=Role.WRITER, size=1) as writing:
        await ContextWriter(writing).save(EARLY)
    try:
        assert (await world.client.post("/api/v1/workflows/search", json=body, headers=headers)).status_code == 200
        page = await world.page("/incidents", by="early", remediation_id=early)
        assert "early/oom" in page
        assert "EarlySignal" in page
        assert "early-apps/Deployment/web" in page
        assert "unknown incident" not in page
        served = await formulary("trace", "list", "--json", FORMULARY_URL=world.url, FORMULARY_TOKEN="early")
        owned = await formulary("trace", "list", "--remediation-id", early, "--json", "--database-url", dsn)
        assert json.loads(served.out) == json.loads(owned.out)
        (trace,) = json.loads(served.out)["traces"]
        assert (trace["analysis"], trace["signal_name"], trace["caller"]) == ("early/oom", "EarlySignal", "agent")
        assert early not in await world.page("/incidents", by="sre")
    finally:
        async with Database.opened(dsn, role=Role.WRITER, size=1) as writing:
            await ContextWriter(writing).remove(namespace=EARLY.namespace, name=EARLY.name)


async def test_the_page_of_an_incident_that_nobody_asked_for_shows_what_would_be_offered(
    world: World, dsn: str
) -> None:
    unasked = replace(EARLY, name="unasked", remediation_id="rr-unasked")
    async with Database.opened(dsn, role=Role.WRITER, size=1) as writing:
        await ContextWriter(writing).save(unasked)
        try:
            page = await world.page("/incidents/rr-unasked", by="early")
            named = await world.client.get(
                "/console/incidents/early/unasked", headers={"Authorization": "Bearer early"}
            )
            foreign = await world.page("/incidents/rr-unasked", by="sre", status=404)
        finally:
            await ContextWriter(writing).remove(namespace=unasked.namespace, name=unasked.name)
    assert "There are no searches for this incident that you may read." in page
    assert (named.status_code, named.headers["location"]) == (303, "/console/incidents/rr-unasked")
    assert "What would be offered" in page
    assert "EarlySignal" not in foreign


async def test_the_page_of_an_incident_that_is_not_there_leads_to_those_that_are(world: World) -> None:
    page = page_of(await world.page("/incidents/rr-nope", by="sre", status=404))
    assert ("All incidents", "/console/incidents") in [(each.words, each.attributes["href"]) for each in page.all("a")]
    shown = await formulary("trace", "show", "rr-nope", FORMULARY_URL=world.url, FORMULARY_TOKEN="sre")
    assert "`formulary trace list` shows those that you may read" in shown.err


async def test_incidents_are_listed_for_who_may_use_them(world: World) -> None:
    async def listed(by: str, **query: Any) -> set[str]:
        page = await world.page("/incidents", by=by, **query)
        return set(re.findall(r'href="/console/incidents/([^"]+)"', page))

    own = {"rr-shop", CLAIMED, "rr%2Flong%20trace%3F"}
    assert await listed("sre") == own
    assert await listed("banker") == {"rr-bank"}
    assert await listed("auditor") >= own | {"rr-bank"}
    assert await listed("nobody") == set()
    assert await listed("sre", outcome="awaiting_approval") == {"rr-shop"}
    assert await listed("sre", outcome="none") == own - {"rr-shop"}
    assert await listed("auditor", namespace="bank", since="24h") == {"rr-bank"}
    assert await listed("sre", remediation_id=CLAIMED) == {CLAIMED}
    assert len(await listed("sre", limit="1")) == 1


async def test_the_list_says_what_each_is_about(world: World) -> None:
    page = await world.page("/incidents", by="sre", remediation_id="rr-shop")
    assert "shop-apps/Deployment/web" in page
    assert "critical" in page
    assert "awaiting approval" in page
    claimed = await world.page("/incidents", by="auditor", remediation_id=CLAIMED)
    assert "<small>low</small>" not in claimed


async def test_the_list_shows_how_runs_ended_as_far_as_they_may_be_read(world: World) -> None:
    ended = "the last 30 days: 1 succeeded and 0 did not."
    assert ended in await world.page("/incidents", by="sre")
    assert "How runs ended" not in await world.page("/incidents", by="banker")


async def test_a_workflow_shows_how_its_runs_ended_as_far_as_they_may_be_read(world: World) -> None:
    page = page_of(await world.page("/catalog/formulary/scale-out", by="sre"))
    assert "All versions, the last 13 weeks: 1 succeeded and 0 did not." in page.words
    (weeks,) = [each for each in page.all("div") if each.attributes.get("aria-label") == "Outcomes by week"]
    assert [each.words for each in weeks.one("tbody").all("td")] == ["1", "0"]
    for path, by in (("scale-out", "banker"), ("risky", "sre")):
        assert "the last 13 weeks" not in await world.page(f"/catalog/formulary/{path}", by=by)


async def test_outcomes_over_time_are_read_over_rest(world: World) -> None:
    async def read(caller: str, **asked: Any) -> Any:
        headers = {"Authorization": f"Bearer {caller}"}
        response = await world.client.get("/api/v1/outcomes", params=asked, headers=headers)
        return response.json() if response.status_code == 200 else response.status_code

    days, weeks = await read("sre"), await read("sre", days=90, by="week", workflow_id="scale-out")
    assert (len(days["periods"]), days["by"], days["workflow_id"]) == (30, "day", "")
    assert (len(weeks["periods"]), weeks["by"], weeks["workflow_id"]) == (13, "week", "formulary/scale-out")
    for each in (days, weeks):
        assert [period["succeeded"] for period in each["periods"]] == [0] * (len(each["periods"]) - 1) + [1]
    begins = [date.fromisoformat(period["begins"]) for period in weeks["periods"]]
    assert {(later - one).days for one, later in pairwise(begins)} == {7}
    assert sum(period["succeeded"] for period in (await read("sre", workflow_id="risky"))["periods"]) == 0
    assert sum(period["succeeded"] for period in (await read("banker", workflow_id="scale-out"))["periods"]) == 0
    assert await read("sre", workflow_id="bank/theirs") == 404


async def test_an_empty_list_says_what_to_do_next(world: World) -> None:
    assert "X-Remediation-Id" in await world.page("/incidents", by="nobody")
    assert "Remove a filter" in await world.page("/incidents", by="sre", outcome="halted")


async def test_pages_of_the_list_follow_each_other(world: World) -> None:
    seen: list[str] = []
    address = "/incidents?limit=1"
    while address:
        page = await world.page(address, by="sre")
        seen += re.findall(r'href="/console/incidents/([^"]+)"', page)
        further = re.search(r'rel="next"[^>]*href="/console([^"]+)"', page)
        address = further[1].replace("&amp;", "&") if further else ""
    assert len(seen) == len(set(seen)) == 3


async def test_the_story_is_that_of_the_command_event_for_event(world: World, dsn: str) -> None:
    page = await world.page("/incidents/rr-shop", by="sre")
    shown = passages(page)
    answer = (await world.client.get("/api/v1/traces/rr-shop", headers={"Authorization": "Bearer sre"})).json()
    assert [(seq, title) for seq, title, _ in shown] == [
        (each["seq"], _shown(each["title"])) for each in answer["story"]["passages"]
    ]
    assert [lines for _, _, lines in shown] == [list(_labelled(each["lines"])) for each in answer["story"]["passages"]]
    printed = (await formulary("trace", "show", "rr-shop", "--database-url", dsn)).out
    heads = [line[24:] for line in printed.splitlines() if line[8:11] == "  +"]
    assert [_words(title) for _, title, _ in shown] == [_words(head) for head in heads]
    said = " ".join(" ".join((title, *(part for line in lines for part in line))) for _, title, lines in shown)
    left_out = set(_words(printed.partition("\n\n")[2])) - set(_words(said))
    callers = {each["caller"] for each in answer["story"]["passages"]} - {""}
    assert all(f"</time> by {caller}" in page for caller in callers)
    assert {word for word in left_out if not word.isdigit()} <= {"by", "min", "s", *_words(" ".join(callers))}


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _labelled(lines: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    label = "message"
    for line in lines:
        label = line["label"] or label
        yield label, _shown(line["text"])


def _shown(text: str) -> str:
    return text.replace("\u202e", "\ufffd")


async def test_a_story_leads_to_its_searches_workflows_and_what_waits(world: World) -> None:
    page = page_of(await world.page("/incidents/rr-shop", by="sre"))
    links = [each.attributes["href"] for each in page.all("a")]
    assert f"/console/search?search_id={world.search_id}" in links
    assert any(link.startswith("/console/catalog/wf_ver_") for link in links)
    assert "/console/waiting" in links


async def test_an_intact_record_is_called_verified_and_a_broken_one_names_the_place(world: World, dsn: str) -> None:
    assert "an unbroken chain" in await world.page("/incidents/rr-bank", by="banker")
    owner = await asyncpg.connect(dsn)
    await owner.execute("alter table formulary.trace_event disable trigger user")
    body = await owner.fetchval("select body from formulary.trace_event where trace_id = 'rr-bank' and seq = 1")
    change = "update formulary.trace_event set body = $1 where trace_id = 'rr-bank' and seq = 1"
    await owner.execute(change, body.replace("OOM", "oom"))
    try:
        page = await world.page("/incidents/rr-bank", by="banker")
        headers = {"Authorization": "Bearer banker"}
        exported = (await world.client.get("/api/v1/traces/rr-bank/files", headers=headers)).json()
    finally:
        await owner.execute(change, body)
        await owner.execute("alter table formulary.trace_event enable trigger user")
        await owner.close()
    assert "an unbroken chain" not in page
    assert "edited, event 1" in page
    assert "Not as recorded:" in page
    assert exported["passed"] is False
    assert "edited" in exported["files"]["diff.json"]


@pytest.mark.parametrize("path", ["/incidents/{}", "/files/verdict.md?trace_id={}"])
async def test_a_foreign_trace_is_answered_as_one_that_does_not_exist(world: World, path: str) -> None:
    foreign = await world.page(path.format("rr-bank"), by="sre", status=404)
    unknown = await world.page(path.format("rr-none"), by="sre", status=404)
    assert foreign.replace("rr-bank", "ID") == unknown.replace("rr-none", "ID")


async def test_custom_labels_are_shown_to_who_may_read_constraints_alone(world: World) -> None:
    assert VALUE in await world.page("/incidents/rr-shop", by="sre")
    claimed = await world.page(f"/incidents/{CLAIMED}", by="sre")
    assert "bank/oom" in claimed
    assert "b4nk-secret" not in claimed
    assert "Constraints of the incident" not in claimed


async def test_the_files_are_those_of_the_command(world: World, dsn: str, tmp_path: Path) -> None:
    done = await formulary("trace", "export", "rr-shop", str(tmp_path), "--database-url", dsn)
    assert done.code == 0
    for file in (tmp_path / "rr-shop").iterdir():
        headers = {"Authorization": "Bearer sre"}
        served = await world.client.get(f"/console/files/{file.name}?trace_id=rr-shop", headers=headers)
        assert (served.status_code, served.content) == (200, file.read_bytes())
        assert served.headers["content-disposition"] == f'attachment; filename="rr-shop-{file.name}"'
        assert served.headers["x-content-type-options"] == "nosniff"
    assert (
        directory_name(LONG)
        in (
            await world.client.get(
                f"/console/files/verdict.md?{urlencode({'trace_id': LONG})}", headers={"Authorization": "Bearer sre"}
            )
        ).headers["content-disposition"]
    )
    await world.page("/files/secrets.txt?trace_id=rr-shop", by="sre", status=404)


async def test_the_files_are_read_over_rest_and_by_the_command_with_a_token(
    world: World, dsn: str, tmp_path: Path
) -> None:
    async def export(*arguments: str, **environment: str) -> Finished:
        return await formulary("trace", "export", *arguments, **environment)

    async def read(path: str, *, by: str) -> httpx2.Response:
        return await world.client.get(f"/api/v1/traces/{path}", headers={"Authorization": f"Bearer {by}"})

    as_sre = {"FORMULARY_URL": world.url, "FORMULARY_TOKEN": "sre"}
    own = await export("rr-shop", str(tmp_path / "own"), "--database-url", dsn)
    served = await export("rr-shop", str(tmp_path / "served"), **as_sre)
    assert (own.code, served.code, served.err) == (0, 0, answer_of(world.url))
    files = {file.name: file.read_text() for file in (tmp_path / "own" / "rr-shop").iterdir()}
    assert {file.name: file.read_text() for file in (tmp_path / "served" / "rr-shop").iterdir()} == files
    answer = (await read("rr-shop/files", by="sre")).json()
    assert answer == {"trace_id": "rr-shop", "passed": True, "files": files}
    assert (await export("rr-shop", "--jsonl", "-", **as_sre)).out == files["events.ndjson"]
    long = (await read(f"{quote(LONG, safe='')}/files", by="sre")).json()
    assert (long["trace_id"], len(long["files"]["events.ndjson"].splitlines())) == (LONG, LONG_EVENTS)

    foreign, unknown = await read("rr-bank/files", by="sre"), await read("rr-none/files", by="sre")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace("rr-bank", "ID") == unknown.text.replace("rr-none", "ID")
    refused = await export("rr-bank", str(tmp_path / "served"), **as_sre)
    assert (refused.code, (tmp_path / "served" / "rr-bank").exists()) == (1, False)
    everything = await export("--all", "--jsonl", "-", "--url", world.url)
    assert (everything.code, "--all reads a database" in everything.err) == (2, True)


async def test_a_long_story_is_shown_in_pages_and_verified_in_parts(world: World, dsn: str) -> None:
    seen: list[int] = []
    address = "/incidents/rr%2Flong%20trace%3F"
    while address:
        page = await world.page(address, by="sre")
        assert "an unbroken chain" in page
        seen += [seq for seq, _, _ in passages(page)]
        further = re.search(r'rel="next"[^>]*href="/console([^"]+)"', page)
        address = further[1].replace("&amp;", "&") if further else ""
    assert seen == list(range(1, LONG_EVENTS + 1))
    own = await formulary("trace", "show", LONG, "--database-url", dsn)
    served = await formulary("trace", "show", LONG, FORMULARY_URL=world.url, FORMULARY_TOKEN="sre")
    assert (served.code, served.out) == (0, own.out)


async def test_all_that_was_written_is_inert(world: World) -> None:
    for path in ("/incidents", "/incidents/rr-shop", f"/incidents/{CLAIMED}"):
        page = await world.page(path, by="sre")
        assert "<script>alert" not in page
        assert "<svg onload" not in page
        assert "\u202e" not in page


async def test_the_command_names_the_page_where_the_console_is_known(world: World, dsn: str) -> None:
    known = {"FORMULARY_CONSOLE_URL": "https://formulary.example/console/"}
    shown = await formulary("trace", "show", "rr-shop", "--database-url", dsn, **known)
    assert "https://formulary.example/console/incidents/rr-shop" in shown.out
    assert "console" not in (await formulary("trace", "show", "rr-shop", "--database-url", dsn)).out


async def test_a_workflow_whose_newest_run_could_not_pull_its_image_is_stale_for_who_may_read_that_run(
    world: World, dsn: str
) -> None:
    async def stale(by: str) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {by}"}
        answer = (await world.client.get("/api/v1/coverage/stale", headers=headers)).json()
        return {each["workflow_id"]: each["reason"] for each in answer["workflows"]}

    owner = await asyncpg.connect(dsn)
    try:
        change = "update formulary.invocation set phase = $1, reason = $2 where workflow_name = 'scale-out'"
        await owner.execute(change, "TimedOut", "ImageNotPulled")
        assert await stale("sre") == {"scale-out": "image-gone"}
        assert await stale("banker") == {}
        assert "could not pull the image" in await world.page("/coverage/stale", by="sre")
    finally:
        await owner.execute(change, "Succeeded", "Completed")
        await owner.close()
    assert await stale("sre") == {}


async def test_what_somebody_asked_for_no_incident_is_marked_in_the_list(world: World) -> None:
    headers = {"Authorization": "Bearer auditor"}
    await world.client.post("/api/v1/workflows/search", json={"query": f"disk full {HOSTILE}"}, headers=headers)
    rows = page_of(await world.page("/incidents", by="auditor", of="all")).all("tr")
    marked = {row.all("th")[0].words.split()[0] for row in rows if "no incident" in row.words}
    assert marked
    assert any("search: disk full" in row.words for row in rows)
    assert all(trace.startswith(OWN_TRACE) for trace in marked)
    assert not marked & {"rr-shop", "rr-bank", CLAIMED}


async def test_what_somebody_asked_for_no_incident_is_listed_only_on_request_unless_it_led_to_a_run(
    world: World, dsn: str
) -> None:
    headers = {"Authorization": "Bearer auditor"}

    async def listed(**query: Any) -> set[str]:
        page = await world.page("/incidents", by="auditor", limit=200, **query)
        return set(re.findall(r'href="/console/incidents/([^"]+)"', page))

    def trace(searched: httpx2.Response) -> str:
        return OWN_TRACE + UUID(searched.json()["search_id"]).hex

    asked, ran = [
        trace(await world.client.post("/api/v1/workflows/search", json={"query": "OOMKilled"}, headers=headers))
        for _ in range(2)
    ]
    owner = await asyncpg.connect(dsn)
    moved = "update formulary.invocation set trace_id = $2 where trace_id = $1 and workflow_name = 'scale-out'"
    await owner.execute(moved, "rr-shop", ran)
    try:
        shown, everything = await listed(), await listed(of="all")
        assert {"rr-shop", "rr-bank", ran} <= shown
        assert asked not in shown
        assert everything >= {*shown, asked}
        assert ran in await listed(outcome="completed")
        assert await listed(outcome="none") == shown - {ran, "rr-shop"}
        assert await listed(remediation_id=asked) == {asked}
        assert "Show them" in await world.page("/incidents", by="auditor")
        assert "Show them" not in await world.page("/incidents", by="auditor", of="all")
    finally:
        await owner.execute(moved, ran, "rr-shop")
        await owner.close()
