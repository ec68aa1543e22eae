"""Texts of others are hostile: as titles, queries, reasons and names of files they stay texts."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.workflows.visible import visible
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.browser import Window
from support.console import SHARED, Console
from support.console_pages import injected, seen_by
from support.filling import fill
from support.hostile import HOSTILE
from support.runnable import runnable

EACH = list(enumerate(HOSTILE))
INCIDENT = "rr-hostile"


def attacking(number: int, text: str) -> dict[str, Any]:
    """A workflow that says this wherever it may say anything."""
    return runnable(
        f"hostile-{number:02}",
        title=text,
        what=text,
        description={"what": text, "whenToUse": text, "whenNotToUse": text, "preconditions": text},
        keywords=[text[:100]],
        prerequisites=[text],
        riskLevel="high",
        maintainers=[{"name": text, "email": "a@example.org"}],
        steps=[{"name": text, "description": text, "command": text}],
        rollbackSteps=[{"name": text, "description": text, "command": text}],
        parameters=[{"name": "SAY", "type": "string", "required": True, "description": text, "default": text}],
    )


@pytest.fixture(scope="module", autouse=True)
async def _attacked(console: Console) -> None:
    async with Database.opened(console.dsn, role=Role.WRITER, deadline=30) as writing:
        documents = [attacking(number, text) for number, text in EACH]
        await fill(CatalogWriter(writing), documents, namespace=SHARED)
        await ContextWriter(writing).save(
            RequestContext(
                namespace="shop",
                name="hostile",
                remediation_id=INCIDENT,
                environment="production",
                signal_name=HOSTILE[0],
                target_namespace="shop",
                target_kind="Deployment",
                target_name=HOSTILE[12][:200],
                custom_labels={HOSTILE[34]: (HOSTILE[36],)},
            )
        )


@pytest.fixture(scope="module")
async def opened(console: Console, browser: Browser) -> AsyncIterator[Window]:
    """One window in which all of it is read, so that what is left behind somewhere is seen as well."""
    async with seen_by("lead", console=console, browser=browser) as window:
        yield window


async def shows(page: Page, text: str) -> bool:
    """Whether the page shows a text as it was written, with marks for what hides."""
    return _words(visible(text)) in _words(await page.inner_text("main"))


def _words(text: str) -> str:
    return "".join(text.split()).casefold()
