"""The health page of the console: what `/readyz` and `/metrics` say, in words (DESIGN sections 12 and 14)."""

from formulary_catalog import __version__
from formulary_catalog.metrics import Metrics
from formulary_catalog.search.service import CatalogService
from formulary_catalog.server.app import create_app
from formulary_catalog.server.calls.readiness import Readiness
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.halting import HaltWriter
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.filling import fill
from support.manifest import workflow
from support.serving import listening, serving
from support.visiting import Page, visiting

HEALTH, NOW = "/console/health", "/console/health/now"


def shown_by(page: Page) -> str:
    return next(str(given["value"]) for _, given in page.elements if given.get("name") == "shown")


async def test_it_says_what_readiness_says_and_changes_only_with_it(
    service: CatalogService, workflows: CatalogWriter, writing: Database
) -> None:
    await fill(workflows, [workflow("restart"), workflow("scale")])
    async with serving(service) as url, visiting(url) as visitor:
        report = (await visitor.client.get("/readyz")).json()
        page = await visitor.get(HEALTH)
        for said in (report["status"], report["model"], __version__, "rank by meaning and words", "Active 2 versions"):
            assert said.casefold() in page.text.casefold()
        assert "no operator" in page.text
        assert "No halt holds everywhere" in page.text
        same = await visitor.client.get(NOW, params={"shown": shown_by(page)})
        assert (same.status_code, same.content) == (204, b"")
        await RunWriter(writing, shared_namespace="formulary").announce(name="here", engines=["job", "tekton"])
        changed = await visitor.client.get(NOW, params={"shown": shown_by(page)})
        assert "with engines: job, tekton" in Page(changed).text
        assert "<h1>" not in changed.text


async def test_a_halt_is_on_every_page_with_the_way_out(service: CatalogService, writing: Database) -> None:
    halts = HaltWriter(writing)
    async with serving(service) as url, visiting(url) as visitor:
        await halts.halt(namespace="", reason="fire <b>drill</b>", by="ada")
        for path in ("/console/waiting", HEALTH, "/console/no/page"):
            page = await visitor.get(path)
            assert "HALT runs are halted everywhere" in page.text
            assert "fire <b>drill</b>" in page.text
            assert '<a href="/console/rules/halts">Lift it, or see how</a>' in page.source
        assert "`formulary resume`" in (await visitor.get(HEALTH)).text


async def test_it_answers_while_the_database_is_away_or_the_catalog_loads(service: CatalogService) -> None:
    app = create_app(
        service=service,
        settings=Settings(),
        readiness=Readiness(catalog_loaded=False, database_problem="no connection to the database"),
        metrics=Metrics(),
    )
    async with listening(app) as url, visiting(url) as visitor:
        page = await visitor.get(HEALTH)
        assert (page.status, "No connection to the database." in page.text) == (200, True)
        assert "It answers no calls yet" in page.text
        assert (await visitor.get("/console/waiting")).status == 503
