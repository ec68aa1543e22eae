"""The card on which a person decides, from the alert to the commands, on the first page and on that of the incident."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from formulary_catalog.domain.runs.card import filled_steps
from support.incident_console import HOSTILE, World, served
from support.pages import Element, page_of

SHOWN = HOSTILE.replace("\u202e", "\ufffd")


@pytest.fixture(scope="module")
async def world(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with served(dsn, directory=tmp_path_factory.mktemp("keys")) as world:
        yield world


def the_card(page: str) -> Element:
    return page_of(page).one("article")


async def test_a_person_reads_alert_reasoning_rule_and_decided_risk_of_a_run_on_one_card(world: World) -> None:
    before = the_card(await world.page("/waiting", by="sre"))
    assert "Because no selection with reasoning is recorded" in before.words, "no search had returned what was chosen"
    headers = {"Authorization": "Bearer agent", "X-Remediation-Id": "rr-shop"}
    asked = {"query": "restart it, risky", "top_k": 10}
    found = (await world.client.post("/api/v1/workflows/search", json=asked, headers=headers)).json()
    chosen = {"workflow_id": "risky", "search_id": found["search_id"], "reasoning": HOSTILE, "confidence": 0.9}
    assert (await world.client.post("/api/v1/selections", json=chosen, headers=headers)).json()["supported"]
    card = the_card(await world.page("/waiting", by="sre"))
    assert "high" in [each.words for each in card.all("span")]
    for said in (
        "Risky",
        f"Alert {SHOWN} critical",
        "shop-apps/Deployment/web in staging",
        "Undo: back",
        f"Because {SHOWN} agent, confidence 0.9",
        "the workflow declares the risk level high",
        "By default, because the workflow's risk level is high",
        "What exactly runs",
    ):
        assert said in card.words, card.words


async def test_reasoning_is_shown_as_that_of_who_recorded_it_and_not_of_who_asks_for_the_run(world: World) -> None:
    headers = {"Authorization": "Bearer auditor", "X-Remediation-Id": "rr-shop"}
    asked = {"query": "restart it, risky", "top_k": 10}
    found = (await world.client.post("/api/v1/workflows/search", json=asked, headers=headers)).json()
    chosen = {"workflow_id": "risky", "search_id": found["search_id"], "reasoning": "trust me", "confidence": 0.4}
    assert (await world.client.post("/api/v1/selections", json=chosen, headers=headers)).json()["supported"]
    card = the_card(await world.page("/waiting", by="sre"))
    assert "Because trust me auditor, confidence 0.4" in card.words
    assert "by agent, expires" in card.words


async def test_who_may_read_the_run_and_not_its_incident_decides_without_alert_and_reasoning(world: World) -> None:
    card = the_card(await world.page("/waiting", by="oncall"))
    assert "Alert not shown: you may not read the incident" in card.words
    assert "Because not shown: you may not read the incident" in card.words
    assert SHOWN not in card.words
    headers = {"Authorization": "Bearer oncall"}
    (waiting,) = (await world.client.get("/api/v1/approvals", headers=headers)).json()["approvals"]
    assert (waiting["choice"], waiting["may_approve"], waiting["risk"]) == (None, True, "high")


async def test_a_person_decides_on_the_page_of_the_incident_and_gets_a_link_to_the_run(world: World) -> None:
    page = page_of(await world.page("/incidents/rr-shop", by="sre"))
    run = page.one("article").attributes["id"]
    (form,) = page.all("form", lambda each: str(each.attributes.get("action", "")).endswith(run))
    assert [each.attributes["value"] for each in form.all("button")] == ["Approve", "Reject"]
    decided = page_of(await world.page("/waiting", by="sre", decided=run, decision="Reject", trace="rr-shop"))
    links = {each.words: each.attributes["href"] for each in decided.all("a")}
    assert links["Follow the run"] == "/console/incidents/rr-shop#story"
    assert not page_of(await world.page("/incidents/rr-bank", by="banker")).all("article")


async def test_the_number_that_waits_is_in_the_navigation_and_in_the_tab_for_who_may_read_it(world: World) -> None:
    for person, said in (("sre", "(1) "), ("banker", "")):
        page = page_of(await world.page("/health", by=person))
        assert page.one("title").words == f"{said}Health · Formulary"
        assert page.one("span", id="waits").words == said.strip()


async def test_who_may_read_nothing_is_not_told_that_nothing_waits(world: World) -> None:
    page = page_of(await world.page("/waiting", by="nobody")).words
    assert "Nothing waits" not in page
    assert "You may not get workflowinvocations.formulary.dev in any namespace" in page


async def test_a_dry_run_is_no_end_of_an_incident_and_a_refused_run_is_called_refused(world: World, dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    try:
        for change, said in (
            ("phase = 'Succeeded', dry_run = true", "dry run only"),
            ("phase = 'Failed', dry_run = false, started_at = null", "refused"),
        ):
            await owner.execute(f"update formulary.invocation set {change} where remediation_id = 'rr-shop'")
            page = page_of(await world.page("/incidents", by="sre", remediation_id="rr-shop"))
            assert [each.words for each in page.one("table").all("span")] == [said]
    finally:
        await owner.close()


def test_commands_are_shown_with_the_inputs_in_their_places() -> None:
    content = {
        "parameters": {"NAMESPACE": "shop", "REPLICAS": 3, "TOKEN": "(hidden)"},
        "steps": [{"name": "go", "command": 'kubectl -n "${NAMESPACE}" scale --replicas=$REPLICAS $TOKEN ${HOME:-x}'}],
    }
    (step,) = filled_steps(content)
    assert step.command == 'kubectl -n "shop" scale --replicas=3 (hidden) ${HOME:-x}'
    assert filled_steps({}) == []
