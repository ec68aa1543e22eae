"""Runs that wait, on the first page of the console: seen, approved and rejected as over REST (DESIGN section 14)."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from support import playing
from support.access import EVERYWHERE, KnownCallers, Rights
from support.rest_agent import rest_agent
from support.runnable import TARGET
from support.runs import KEY
from support.serving import serving
from support.visiting import Form, Page, Visitor, visiting

WAITING = "/console/waiting"
CONSOLE = "https://formulary.example"
REFRESHED = {"halts": "true", "as-of": "true"}
"""What every refresh brings."""
SECRET = "hunter2-of-the-run"
HOSTILE = "<script>alert(1)</script>\u202e\"'><img src=x onerror=alert(1)>"
SCRIPT = f"echo begin\n# {'long, ' * 40}kubectl delete namespace prod\necho end"
CONTENT = {
    "digest": "sha256:" + "a" * 64,
    "kind": "Job",
    "images": [f"registry.example/tools:1.0.0{HOSTILE}"],
    "serviceAccount": HOSTILE,
    "secrets": [HOSTILE],
    "configMaps": [],
    "parameters": {f"REPLICAS{HOSTILE}": 3, "SAY": HOSTILE, "TOKEN": "(hidden)", "LIST": [HOSTILE]},
    "steps": [{"name": HOSTILE, "command": HOSTILE}],
    "manifest": {"kind": "Job", "spec": {"backoffLimit": 0, "command": [HOSTILE], "args": [SCRIPT]}},
}
CALLERS = KnownCallers(
    agent=Rights(see={EVERYWHERE}, use={EVERYWHERE}, invoke={EVERYWHERE}),
    sre=Rights(see={EVERYWHERE}, use={EVERYWHERE}, read={TARGET}, approve={TARGET}),
    auditor=Rights(see={EVERYWHERE}, use={EVERYWHERE}, read={EVERYWHERE}),
    banker=Rights(see={"bank"}, use={"bank"}, read={"bank"}, approve={"bank"}),
)


@dataclass(frozen=True)
class World:
    """A server with an operator that never ends a run, and the database as its owner."""

    url: str
    runs: RunWriter
    database: asyncpg.Connection

    async def wait_for(self, remediation_id: str = "rr-production", *, workflow: str = "risky") -> str:
        """A run that waits for a person, with what it would run."""
        async with rest_agent(self.url) as agent:
            run = await agent.invoke(remediation_id, workflow, {"REPLICAS": 3, "TOKEN": SECRET})
        assert run["state"] == "awaiting_approval", run
        await self.runs.begin(run["invocation_id"], content=CONTENT)
        return str(run["invocation_id"])

    async def approve(self, run: str, *, by: str, decision: str, reason: str) -> None:
        body: dict[str, Any] = {"decision": decision, "reason": reason, "digest": CONTENT["digest"]}
        await self._call(by, "POST", f"/api/v1/invocations/{run}/approval", **body)

    async def run(self, run: str) -> dict[str, Any]:
        return dict(await self._call("agent", "GET", f"/api/v1/invocations/{run}"))

    async def state_of(self, run: str) -> str:
        return str((await self.run(run))["state"])

    async def until(self, run: str, state: str) -> None:
        async with asyncio.timeout(20):
            while await self.state_of(run) != state:  # noqa: ASYNC110  # the server is another process to a client
                await asyncio.sleep(0.05)

    async def reads(self) -> int:
        """How often somebody read what waits, by the trail."""
        return int(
            await self.database.fetchval("select count(*) from formulary.trace_event where kind = 'read.approvals'")
        )

    async def events_of(self, run: str) -> list[dict[str, Any]]:
        """What the trail says of a run, without what differs between any two runs."""
        events = await self.database.fetch(
            "select kind, caller, body from formulary.trace_event where body like $1 order by seq", f"%{run}%"
        )
        return [{**event, "body": sorted(json.loads(event["body"]))} for event in events]

    async def _call(self, by: str, method: str, path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {by}"}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=50) as client:
            answer = await client.request(method, path, json=body or None)
        answer.raise_for_status()
        return answer.json()


@pytest.fixture
async def world(dsn: str, parts: CatalogParts, tmp_path: Path) -> AsyncIterator[World]:
    keys = tmp_path / "input.key"
    keys.write_text(KEY)
    database = await asyncpg.connect(dsn)
    async with (
        serving(parts, authenticator=CALLERS, input_key_file=keys, console_url=CONSOLE) as url,
        playing.operator(dsn, ends=lambda _: None) as runs,
    ):
        yield World(url, runs, database)
    await database.execute("update formulary.invocation set phase = 'Cancelled' where phase <> 'Cancelled'")
    await database.close()


def deciding(page: Page, run: str) -> Form:
    return page.form(f"{WAITING}/{run}")


async def test_where_nothing_waits_the_page_says_so_and_what_comes_next(world: World) -> None:
    async with visiting(world.url, bearer="auditor") as visitor:
        page = await visitor.get(WAITING)
    assert "Nothing waits for a person. A run that needs an approval appears here by itself." in page.text
    assert "get workflowinvocations.formulary.dev" in page.text


async def test_a_run_is_shown_with_what_a_person_judges_and_nothing_of_it_is_markup(world: World) -> None:
    run = await world.wait_for()
    async with visiting(world.url, bearer="sre") as visitor:
        page = await visitor.get(WAITING)
    for expected in (
        "1 run waits",
        "formulary/risky",
        "the workflow declares the risk level high",
        f"{TARGET}/Deployment/web",
        "by agent",
        "rr-production",
        str(CONTENT["digest"]),
        "registry.example/tools:1.0.0",
        "(hidden)",
        "backoffLimit: 0",
        "<script>alert(1)</script>\ufffd",
    ):
        assert expected in page.text
    assert "\n".join(f"    {line}" for line in SCRIPT.split("\n")) in page.source, "a script reads as it runs"
    assert not [given for tag, given in page.elements if tag == "img" or (tag == "script" and "src" not in given)]
    assert SECRET not in page.source
    assert ("article", {"id": run, "class": "card", "aria-labelledby": f"title-{run}"}) in page.elements
    times = [given for tag, given in page.elements if tag == "time"]
    assert len(times) == 3, "that of the page, since when it waits, until when"
    assert all(str(given["title"]).endswith(" UTC") for given in times)


async def test_what_the_agent_is_told_leads_a_person_to_the_run_on_the_page(world: World) -> None:
    others, run = await world.wait_for(), await world.wait_for()
    told = await world.run(run)
    (link,) = [note for note in told["notes"] if CONSOLE in note]
    path = link.removeprefix(f"a person decides at {CONSOLE}")
    assert told["approval_url"] == f"{CONSOLE}{path}"

    async with visiting(world.url, bearer="sre") as visitor:
        page = await visitor.get(path)
        assert str((await visitor.client.get(path)).url).endswith(f"{WAITING}?only={run}")
        gone = await visitor.get(f"{WAITING}/inv-{'0' * 20}")

    assert ("article", {"id": run, "class": "card", "aria-labelledby": f"title-{run}"}) in page.elements
    assert [given["href"] for tag, given in page.elements if tag == "a" and run in str(given["href"])] == [
        f"{WAITING}/{run}"
    ]
    assert others not in page.source
    assert "does not wait for a person" in gone.text


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("production", "the environment is production"),
        ("PRODUCTION", "the environment is PRODUCTION"),
        ("prod-eu", "the environment is prod-eu, which counts as production"),
        ("Unknown", "the environment is Unknown, which counts as production"),
    ],
)
async def test_an_environment_is_said_to_count_as_production_unless_its_name_says_so_already(
    world: World, dsn: str, environment: str, said: str
) -> None:
    incident = RequestContext(
        namespace="shop",
        name=environment.lower(),
        remediation_id=f"rr-in-{environment}",
        environment=environment,
        target_namespace=TARGET,
        target_kind="Deployment",
        target_name="web",
    )
    async with Database.opened(dsn, role=Role.WRITER, size=1) as writing:
        await ContextWriter(writing).save(incident)
    run = await world.wait_for(incident.remediation_id, workflow="scale-out")
    async with visiting(world.url, bearer="sre") as visitor:
        page = await visitor.get(WAITING)
        (waiting,) = (await visitor.client.get("/api/v1/approvals")).json()["approvals"]
    assert (waiting["invocation_id"], waiting["why"]) == (run, [f"by default, because {said}"])
    assert said in page.text
    assert page.text.count("counts as production") == said.count("counts as production")


async def test_others_see_nothing_of_it_and_who_may_not_approve_sees_which_right_is_missing(world: World) -> None:
    run = await world.wait_for()
    async with visiting(world.url, bearer="banker") as visitor:
        assert run not in (await visitor.get(WAITING)).source
    async with visiting(world.url, bearer="auditor") as visitor:
        page = await visitor.get(WAITING)
        form = deciding(page, run)
        assert form.buttons == []
        assert f"the right to create invocationapprovals.formulary.dev in namespace {TARGET}" in page.text
        refused = await visitor.submit(form, button="Approve", reason="mine")
        assert (refused.status, "create invocationapprovals.formulary.dev" in refused.text) == (403, True)
    async with visiting(world.url, bearer="banker") as visitor:
        token = (await visitor.get("/console/sign-in")).forms[0].fields["csrf_token"]
        form = Form(f"{WAITING}/{run}", {"csrf_token": token, "digest": str(CONTENT["digest"])})
        foreign = await visitor.submit(form, button="Approve")
        unknown = await visitor.submit(Form(f"{WAITING}/inv-{'0' * 20}", form.fields), button="Approve")
        assert foreign.status == unknown.status
    assert await world.state_of(run) == "awaiting_approval"


@pytest.mark.parametrize(("decision", "becomes"), [("Approve", "running"), ("Reject", "failed")])
async def test_a_decision_by_form_is_that_of_rest_event_for_event(world: World, decision: str, becomes: str) -> None:
    by_rest, by_form = await world.wait_for(), await world.wait_for()
    await world.approve(by_rest, by="sre", decision=decision, reason="checked <b>it</b>")
    async with visiting(world.url, bearer="sre") as visitor:
        form = deciding(await visitor.get(WAITING), by_form)
        done = await visitor.submit(form, button=decision, reason="checked <b>it</b>")
    word = "Approval" if decision == "Approve" else "Rejection"
    assert (done.status, f"{word} of {by_form} is recorded" in done.text) == (200, True)
    for run in (by_rest, by_form):
        await world.until(run, becomes)
    events = await world.events_of(by_form)
    assert events == await world.events_of(by_rest)
    assert any(event["caller"] == "sre" for event in events)


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"digest": "sha256:" + "b" * 64}, 400, "is not that of the content"),
        ({"digest": ""}, 400, "what would run was not shown; load the page again"),
        ({"decision": "Maybe"}, 400, "decision"),
        ({"reason": "x" * 5000}, 400, "reason"),
        ({"surprise": "<i>"}, 400, "surprise"),
    ],
)
async def test_what_rest_refuses_the_form_refuses_in_words(
    world: World, fields: dict[str, str], status: int, words: str
) -> None:
    run = await world.wait_for()
    async with visiting(world.url, bearer="sre") as visitor:
        form = deciding(await visitor.get(WAITING), run)
        filled = Form(form.action, {**form.fields, "decision": "Approve", "reason": "fine", **fields})
        refused = await visitor.submit(filled)
    assert (refused.status, words in refused.text.casefold(), "<i>" in refused.source) == (status, True, False)
    assert await world.state_of(run) == "awaiting_approval"


async def test_a_run_that_is_decided_already_is_not_decided_again(world: World) -> None:
    run = await world.wait_for()
    async with visiting(world.url, bearer="sre") as visitor:
        form = deciding(await visitor.get(WAITING), run)
        await world.approve(run, by="sre", decision="Approve", reason="first")
        await world.until(run, "running")
        late = await visitor.submit(form, button="Reject", reason="second")
    assert (late.status, "nothing is left to decide" in late.text) == (400, True)


async def test_an_open_page_gets_what_is_new_alone_and_reading_it_again_is_no_event(world: World) -> None:
    first = await world.wait_for()
    async with visiting(world.url, bearer="sre") as visitor:
        shown = await _shown(visitor)
        before = await world.reads()
        same = await _changes(visitor, shown)
        assert _swaps(same) == {**REFRESHED, f"left-{first}": "true"}
        assert await world.reads() == before
        second = await world.wait_for()
        more = await _changes(visitor, shown)
        assert _swaps(more) == {
            **REFRESHED,
            "count": "true",
            "waits": "true",
            "further": "true",
            f"left-{first}": "true",
            "": "beforeend:#runs",
        }
        assert ("article", {"id": second, "class": "card", "aria-labelledby": f"title-{second}"}) in more.elements
        assert "2 runs wait" in more.text
        assert await world.reads() == before + 1
        await world.runs.begin(first, content={**CONTENT, "digest": "sha256:" + "c" * 64})
        changed = await _changes(visitor, [*shown, *_states(more)])
        assert _swaps(changed) == {**REFRESHED, first: "true", f"left-{second}": "true"}
        await world.approve(second, by="sre", decision="Reject", reason="no")
        await world.until(second, "failed")
        fewer = await _changes(visitor, [*_states(changed), *_states(more)])
        assert _swaps(fewer) == {
            **REFRESHED,
            "count": "true",
            "waits": "true",
            "further": "true",
            second: "delete",
            f"left-{first}": "true",
        }


async def test_an_open_page_on_which_nothing_waits_leaves_no_events(world: World) -> None:
    async with visiting(world.url, bearer="banker") as visitor:
        before = await world.reads()
        page = await _changes(visitor, [])
        assert (page.status, _swaps(page), await world.reads()) == (200, REFRESHED, before)


async def _shown(visitor: Visitor) -> list[str]:
    return _states(await visitor.get(WAITING))


def _states(page: Page) -> list[str]:
    return [str(given["value"]) for _, given in page.elements if given.get("name") == "shown"]


async def _changes(visitor: Visitor, shown: list[str]) -> Page:
    known: dict[str, Any] = {"shown": shown, "total": len({state.partition(".")[0] for state in shown})}
    answer = await visitor.client.get(f"{WAITING}/changes", params=known, headers={"HX-Request": "true"})
    return Page(answer)


def _swaps(page: Page) -> dict[str, str]:
    """Where htmx puts the parts of an answer."""
    return {given.get("id") or "": str(given["hx-swap-oob"]) for _, given in page.elements if "hx-swap-oob" in given}
