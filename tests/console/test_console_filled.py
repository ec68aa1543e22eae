"""Pages that a fresh catalog does not show: filled lists, a contract that was tried, two versions, and failures."""

from typing import Literal

import asyncpg
import pytest
from playwright.async_api import Page

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browser import Window
from support.console import SHARED, Console
from support.console_pages import Windows, each_in_a_look, each_look, findings, outline, overflow
from support.filling import fill
from support.manifest import contract, text, workflow

STALE, DUPLICATES = "/console/coverage/stale", "/console/coverage/duplicates"
VERSIONS = f"/console/catalog/{SHARED}/tidy-carts?against=1.0.0"
FILLED = {STALE: "Stale workflows", DUPLICATES: "Duplicates", VERSIONS: "Tidy the carts"}
TRIED = "Rules: check of a contract"
FAILURES = [
    ("lead", "/console/no/such/page", 404, "Not found"),
    ("lead", "/console/incidents/rr-unheard-of", 404, "Not found"),
    ("nobody", "/console/catalog", 403, "This is not allowed"),
    ("unknown", "/console/catalog", 503, "Not available now"),
]
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module", autouse=True)
async def _filled(console: Console, embedder: Embedder) -> None:
    said = {"title": "Tidy the carts", "what": "Removes carts that nobody came back for."}
    documents = [
        workflow("tidy-carts", **said),
        workflow("tidy-carts", version="1.1.0", riskLevel="low", **said),
        workflow("tidy-cart", **said),
    ]
    async with Database.opened(console.dsn, role=Role.WRITER, deadline=30) as writing:
        await fill(CatalogWriter(writing), documents, namespace=SHARED, embedder=embedder)
    owner = await asyncpg.connect(console.dsn)
    try:
        await owner.execute("update formulary.workflow_version set created_at = now() - interval '100 days'")
    finally:
        await owner.close()


async def has_no_barrier(opened: Window, *, heading: str) -> None:
    """Look at the page that is open. A failure is an error for the console of a browser, and for nothing else."""
    assert await opened.page.locator("h1").all_inner_texts() == [heading]
    assert await overflow(opened.page) <= 0, "the page scrolls sideways"
    assert await findings(opened.page) == []
    assert (opened.seen.violations, opened.seen.dialogs, opened.seen.foreign) == ([], [], [])


async def try_contract(opened: Window) -> Page:
    """Paste a contract and have it tried, as a person does."""
    page = await opened.open("/console/rules")
    await page.locator("#manifest").fill(text(contract("tried")))
    async with page.expect_event("load"):
        await page.get_by_role("button", name="Check it").click()
    return page


@each_in_a_look("path", [(path,) for path in FILLED])
async def test_a_filled_page_has_no_barrier(windows: Windows, path: str, scheme: Scheme, size: tuple[int, int]) -> None:
    opened = await windows.of("lead", size=size, color_scheme=scheme)
    page = await opened.open(path)
    assert await page.locator("tbody tr").count() > 0
    await has_no_barrier(opened, heading=FILLED[path])
    assert opened.seen.errors == []


@each_look
async def test_what_a_contract_would_have_changed_has_no_barrier(
    windows: Windows, scheme: Scheme, size: tuple[int, int]
) -> None:
    opened = await windows.of("lead", size=size, color_scheme=scheme)
    page = await try_contract(opened)
    assert await page.locator("tbody tr").count() > 0
    await has_no_barrier(opened, heading=TRIED)
    assert opened.seen.errors == []


@each_in_a_look("person, path, status, heading", FAILURES)
async def test_a_failure_is_a_page_without_barriers(
    windows: Windows,
    *,
    person: str,
    path: str,
    status: int,
    heading: str,
    scheme: Scheme,
    size: tuple[int, int],
) -> None:
    opened = await windows.of(person, size=size, color_scheme=scheme)
    answered = await opened.page.goto(f"{opened.seen.origin}{path}")
    assert answered is not None
    assert answered.status == status
    await has_no_barrier(opened, heading=heading)


@pytest.mark.parametrize("path", FILLED)
async def test_a_filled_page_says_the_same_without_javascript(windows: Windows, path: str) -> None:
    plain, opened = await windows.of("lead", scripts=False), await windows.of("lead")
    assert await outline(await plain.open(path)) == await outline(await opened.open(path))


async def test_a_contract_is_tried_without_javascript(windows: Windows) -> None:
    plain, opened = await windows.of("lead", scripts=False), await windows.of("lead")
    assert await outline(await try_contract(plain)) == await outline(await try_contract(opened))


@pytest.mark.parametrize(
    ("person", "path", "status", "heading"),
    [pytest.param(*case, marks=[pytest.mark.long] if number % 2 else []) for number, case in enumerate(FAILURES)],
)
async def test_a_failure_says_the_same_without_javascript(
    windows: Windows, *, person: str, path: str, status: int, heading: str
) -> None:
    opened = await windows.of(person, scripts=False)
    answered = await opened.page.goto(f"{opened.seen.origin}{path}")
    assert answered is not None
    assert answered.status == status
    assert await opened.page.locator("h1").all_inner_texts() == [heading]
