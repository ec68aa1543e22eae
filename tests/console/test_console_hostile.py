"""Texts of others are hostile: as titles, queries, reasons and names of files they stay texts.

All of them are in the catalog and on the pages that list it. Where a page shows one at a time, the first tier gives
each text one of the places in turn, and the long tests give it every place.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import yaml
from playwright.async_api import Browser, FilePayload, Page

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.text import one_line
from formulary_catalog.domain.visible import visible
from formulary_catalog.operations.arguments.reading import MAX_PAGE
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browser import Window
from support.console import SHARED, Agent, Console
from support.console_pages import PAGES, injected, seen_by
from support.filling import fill
from support.hostile import HOSTILE
from support.manifest import contract
from support.runnable import runnable

INCIDENT = "rr-hostile"
_CUT = 100
_PLACES = 6


def each_text(*, place: int) -> pytest.MarkDecorator:
    """All texts by their numbers: those that another place has in the first tier are long."""
    numbers = [
        number if number % _PLACES == place else pytest.param(number, marks=pytest.mark.long)
        for number in range(len(HOSTILE))
    ]
    return pytest.mark.parametrize("number", numbers)


def some_texts(*, place: int) -> pytest.MarkDecorator:
    """The texts that this place has in the first tier; all of them are long."""
    return pytest.mark.parametrize(
        "texts", [HOSTILE[place::_PLACES], pytest.param(HOSTILE, marks=pytest.mark.long)], ids=["some", "all"]
    )


def attacking(number: int, text: str) -> dict[str, Any]:
    """A workflow that says this wherever it may say anything."""
    return runnable(
        name_of(number),
        title=text,
        description={"what": text, "whenToUse": text, "whenNotToUse": text, "preconditions": text},
        keywords=[text],
        prerequisites=[text],
        riskLevel="high",
        estimatedDuration=text,
        maintainers=[{"name": text, "email": "a@example.org"}],
        steps=[{"name": text, "description": text, "command": text}],
        rollbackSteps=[{"name": text, "description": text, "command": text}],
        parameters=[{"name": "SAY", "type": "string", "required": True, "description": text}],
    )


def name_of(number: int) -> str:
    """The name of the workflow that says the text with this number."""
    return f"hostile-{number:02}"


@pytest.fixture(scope="module", autouse=True)
async def _attacked(console: Console) -> None:
    async with Database.opened(console.dsn, role=Role.WRITER, deadline=30) as writing:
        await fill(CatalogWriter(writing), map(attacking, range(len(HOSTILE)), HOSTILE), namespace=SHARED)
        await ContextWriter(writing).save(
            RequestContext(
                namespace="shop",
                name="hostile",
                remediation_id=INCIDENT,
                environment="production",
                severity=HOSTILE[11],
                signal_name=HOSTILE[0],
                target_namespace="shop",
                target_api_version="apps/v1",
                target_kind="Deployment",
                target_name="checkout",
                custom_labels={text: (text,) for text in HOSTILE[:20]},
                detected_labels={"gitOpsTool": HOSTILE[33]},
            )
        )
        rules = [
            {"id": text[:253], "effect": "DENY", "match": {"callers": ["nobody"]}, "rationale": text}
            for text in HOSTILE
        ]
        contracts = ContractWriter(writing, shared_namespace=SHARED)
        await contracts.save({"rules": rules}, namespace="shop", name="hostile", uid="hostile")


@pytest.fixture(scope="module")
async def opened(console: Console, browser: Browser) -> AsyncIterator[Window]:
    """One window in which all of it is read, so that what one page leaves behind is seen on another."""
    async with seen_by("lead", console=console, browser=browser) as window:
        yield window


async def is_inert(opened: Window) -> None:
    """Nothing has become of any text but a text."""
    assert await injected(opened.page) == []
    assert (opened.seen.violations, opened.seen.dialogs, opened.seen.foreign) == ([], [], [])


async def shows(page: Page, text: str, *, within: str = "main") -> bool:
    """Whether the page shows a text as it was written, with marks for what hides; a long one may be cut."""
    return _words(visible(text))[:_CUT] in _words(await page.locator(within).text_content() or "")


def _words(text: str) -> str:
    return "".join(text.split())


@each_text(place=0)
async def test_a_workflow_is_shown_as_it_was_written(opened: Window, number: int) -> None:
    page = await opened.open(f"/console/catalog/{SHARED}/{name_of(number)}")
    assert _words(await page.locator("h1").text_content() or "") == _words(visible(HOSTILE[number]))
    assert await shows(page, HOSTILE[number])
    await is_inert(opened)


@each_text(place=1)
async def test_a_query_is_shown_as_it_was_typed(opened: Window, number: int) -> None:
    text = HOSTILE[number]
    await opened.page.goto(f"{opened.seen.origin}/console/search?query={quote(text)}&workflow={quote(text)}")
    assert await opened.page.locator("[name=query]").input_value() == visible(text)
    await is_inert(opened)
    await opened.page.goto(f"{opened.seen.origin}/console/catalog?text={quote(text)}&namespace={quote(text)}")
    await is_inert(opened)


@some_texts(place=5)
async def test_reasons_are_shown_as_they_were_given(console: Console, opened: Window, texts: Sequence[str]) -> None:
    page = opened.page
    runs = [await asked_for(console.agent, text) for text in texts]
    await opened.open(f"/console/waiting?limit={MAX_PAGE}")
    await is_inert(opened)
    assert [run for run in runs if not await page.locator(f"#reason-{run}").count()] == []
    async with httpx2.AsyncClient(base_url=console.url, headers={"Authorization": "Bearer lead"}) as http:
        for run, text in zip(runs, texts, strict=True):
            decision = {"decision": "Reject", "reason": text}
            (await http.post(f"/api/v1/invocations/{run}/approval", json=decision)).raise_for_status()
    await opened.open(f"/console/incidents/{INCIDENT}")
    await is_inert(opened)
    missing = set(texts)
    while missing:
        missing -= {text for text in missing if await shows(page, text)}
        later = page.locator("a[rel=next]")
        if not await later.count():
            break
        async with page.expect_event("load"):
            await later.click()
        await is_inert(opened)
    assert missing == set()


async def asked_for(agent: Agent, text: str) -> str:
    """A run of the hostile workflow for the hostile incident, after a hostile search and a hostile choice."""
    # What hides something cannot be run at all.
    runs = HOSTILE.index(text) if visible(text) == text else 0
    workflow = f"{SHARED}/{name_of(runs)}"
    search_id = await agent.search(INCIDENT, text)
    await agent.select(INCIDENT, workflow, search_id=search_id, reasoning=text)
    run = await agent.invoke(INCIDENT, workflow, {"SAY": HOSTILE[runs]}, search_id=search_id)
    return str(run["invocation_id"])


@pytest.mark.parametrize(
    "some",
    [HOSTILE[:20], *(pytest.param(each, marks=pytest.mark.long) for each in (HOSTILE[20:40], HOSTILE[40:]))],
    ids=["first", "second", "third"],
)
async def test_alerts_of_a_file_may_say_anything(opened: Window, some: Sequence[str]) -> None:
    alerts = [
        {"alert": text, "expr": "up == 0", "labels": {"severity": text}, "annotations": {"summary": text}}
        for text in some
    ]
    await upload(opened, "/console/coverage", {"groups": [{"name": some[0], "rules": alerts}]})
    assert [
        text for text in some if not await shows(opened.page, one_line(text), within="[aria-labelledby=signals]")
    ] == []


@some_texts(place=2)
async def test_a_file_of_alerts_may_have_any_name(opened: Window, texts: Sequence[str]) -> None:
    for name in texts:
        await upload(opened, "/console/coverage", "no manifest", name=name)


@some_texts(place=3)
async def test_a_file_of_rules_may_have_any_name(opened: Window, texts: Sequence[str]) -> None:
    for name in texts:
        await upload(opened, "/console/rules", "no manifest", name=name)


@pytest.mark.smoke
async def test_rules_of_a_file_may_say_anything(opened: Window) -> None:
    document = contract("uploaded")
    document["spec"]["rules"] = [{"id": text[:_CUT], "effect": "DENY", "rationale": text} for text in HOSTILE]
    await upload(opened, "/console/rules", document)
    assert await shows(
        opened.page, "which cannot be seen or changes how the text reads; remove it", within="[role=alert]"
    )
    honest = [rule for rule in document["spec"]["rules"] if visible(rule["id"]) == rule["id"]]
    document["spec"]["rules"] = honest
    await upload(opened, "/console/rules", document)
    rules = "[aria-labelledby=rules-tried]"
    assert [rule["id"] for rule in honest if not await shows(opened.page, rule["id"], within=rules)] == []
    assert len(honest) > 50


async def upload(opened: Window, path: str, document: Any, *, name: str = HOSTILE[0]) -> None:
    """Send a file with a hostile name off, as a person does."""
    page = await opened.open(path)
    content = yaml.safe_dump(document).encode()
    field = page.locator("input[type=file]").first
    await field.set_input_files(FilePayload(name=name, mimeType="text/yaml", buffer=content))
    async with page.expect_event("load"):
        await page.locator("form").filter(has=field).locator("button").last.click()
    await is_inert(opened)


async def test_no_page_is_misled_by_what_it_lists(opened: Window) -> None:
    for page in PAGES:
        await opened.open(page.url)
        await is_inert(opened)


@some_texts(place=4)
async def test_no_page_is_misled_by_its_address(opened: Window, texts: Sequence[str]) -> None:
    for text in texts:
        for path in ("incidents", "catalog", "waiting"):
            await opened.page.goto(f"{opened.seen.origin}/console/{path}/{quote(text, safe='')}")
            await is_inert(opened)


async def test_halts_are_shown_on_a_page_as_their_reasons_were_written(console: Console, opened: Window) -> None:
    async with Database.opened(console.dsn, role=Role.WRITER, deadline=30) as writing:
        contracts = ContractWriter(writing, shared_namespace=SHARED)
        for number, text in enumerate(HOSTILE):
            rules = [{"id": "stop", "effect": "HALT", "rationale": text}]
            await contracts.save({"rules": rules}, namespace=SHARED, name=f"stop-{number}", uid=f"stop-{number}")
        shown = ""
        async with asyncio.timeout(60):  # halts are remembered for some seconds
            while not shown:
                page = await opened.open("/console/rules")
                shown = _words(await page.locator("#halts").text_content() or "")
        await is_inert(opened)
        for number in range(len(HOSTILE)):
            await contracts.remove(namespace=SHARED, name=f"stop-{number}")
    assert [text for text in HOSTILE if _words(visible(text))[:_CUT] not in shown] == []
