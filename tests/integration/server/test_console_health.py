"""The health page of the console: what `/readyz` and `/metrics` say, in words (DESIGN sections 12 and 14)."""

from formulary_catalog import __version__
from formulary_catalog.edges.app import create_app
from formulary_catalog.edges.calls.readiness import Readiness
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.resyncs import ResyncWriter
from formulary_catalog.store.runs.executors import ExecutorWriter
from formulary_catalog.store.runs.halting import HaltWriter
from formulary_catalog.store.workflows.sweeps import SweepRefusals
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import KnownCallers, Rights
from support.filling import fill
from support.manifest import workflow
from support.serving import listening, serving
from support.visiting import Page, visiting

HEALTH, NOW, REST = "/console/health", "/console/health/now", "/api/v1/health"


def shown_by(page: Page) -> str:
    return next(str(given["value"]) for _, given in page.elements if given.get("name") == "shown")


async def test_it_says_what_readiness_says_and_changes_only_with_it(
    parts: CatalogParts, workflows: CatalogWriter, writing: Database
) -> None:
    await fill(workflows, [workflow("restart"), workflow("scale")])
    async with serving(parts) as url, visiting(url) as visitor:
        report = (await visitor.client.get("/readyz")).json()
        page = await visitor.get(HEALTH)
        for said in (report["status"], report["model"], __version__, "rank by meaning and words", "Active 2 versions"):
            assert said.casefold() in page.text.casefold()
        assert "no operator" in page.text
        assert "No resync recorded yet." in page.text
        assert "No cluster-wide halt is in force" in page.text
        assert "This server reads no targets" in page.text
        same = await visitor.client.get(NOW, params={"shown": shown_by(page)})
        assert [given.get("id") for tag, given in Page(same).elements if "hx-swap-oob" in given] == ["halts", "as-of"]
        assert "As of" in Page(same).text
        await ExecutorWriter(writing).announce(name="here", engines=["job", "tekton"])
        changed = await visitor.client.get(NOW, params={"shown": shown_by(page)})
        assert "with engines: job, tekton" in Page(changed).text
        assert "<h1>" not in changed.text


async def test_a_halt_is_on_every_page_with_the_way_out(parts: CatalogParts, writing: Database) -> None:
    halts = HaltWriter(writing)
    async with serving(parts) as url, visiting(url) as visitor:
        await halts.halt(namespace="", reason="fire <b>drill</b>", by="ada")
        for path in ("/console/waiting", HEALTH, "/console/no/page"):
            page = await visitor.get(path)
            assert "HALT runs are halted everywhere" in page.text
            assert "fire <b>drill</b>" in page.text
            assert '<a id="halt-1" href="/console/rules/halts">How to lift it</a>' in page.source
        assert "`formulary resume`" in (await visitor.get(HEALTH)).text


async def test_it_answers_while_the_database_is_away_or_the_catalog_loads(parts: CatalogParts) -> None:
    app = create_app(
        parts,
        settings=Settings(),
        readiness=Readiness(catalog_loaded=False, database_problem="no connection to the database"),
    )
    async with listening(app) as url, visiting(url) as visitor:
        page = await visitor.get(HEALTH)
        assert (page.status, "No connection to the database." in page.text) == (200, True)
        assert "It answers no calls yet" in page.text
        answer = await visitor.client.get(REST)
        assert (answer.status_code, answer.json()["readiness"]["status"]) == (200, "starting")
        assert (await visitor.get("/console/waiting")).status == 503


async def test_what_the_page_says_is_read_over_rest(
    parts: CatalogParts, workflows: CatalogWriter, writing: Database
) -> None:
    await fill(workflows, [workflow("restart"), workflow("scale")])
    async with serving(parts) as url, visiting(url) as visitor:
        ready = (await visitor.client.get("/readyz")).json()
        before = await visitor.client.get(REST)
        answer = before.json()
        assert {name: value for name, value in answer["readiness"].items() if value is not None} == ready
        assert answer["workflows"] == {"Active": 2}
        assert answer["execution"] == {"state": "none", "engines": []}
        assert [each["lane"] for each in answer["lanes"]] == ["catalog", "runs", "protocol"]
        page = await visitor.get(HEALTH)
        assert all(number in page.text for number in answer["versions"].values())
        assert answer["versions"]["formulary"] == __version__
        tagged = {"If-None-Match": before.headers["etag"]}
        assert (await visitor.client.get(REST, headers=tagged)).status_code == 304
        await ExecutorWriter(writing).announce(name="here", engines=["tekton", "job"])
        changed = await visitor.client.get(REST, headers=tagged)
        assert changed.json()["execution"] == {"state": "ok", "engines": ["job", "tekton"]}
        assert (await visitor.client.get(REST, params={"verbose": "1"})).status_code == 400


async def test_the_last_resync_is_shown_with_what_it_did_not_remove(parts: CatalogParts, writing: Database) -> None:
    resyncs, sweeps = ResyncWriter(writing), SweepRefusals(writing)
    async with serving(parts) as url, visiting(url) as visitor:
        assert (await visitor.client.get(REST)).json()["resyncs"] == []
        await resyncs.note("a/one", listed=7, differed=0, refused=None, every_seconds=300)
        refused = await sweeps.keep(
            "b/two", missing=[("shop", f"w-{number}", "uid") for number in range(40)], served=50
        )
        await resyncs.note("b/two", listed=10, differed=3, refused=refused, every_seconds=300)
        one, two = (await visitor.client.get(REST)).json()["resyncs"]
        assert (one["operator"], one["listed"], one["differed"], one["overdue"]) == ("a/one", 7, 0, False)
        assert one["refused_sweep"] is None
        sweep = two["refused_sweep"]
        assert (two["differed"], sweep["missing"], sweep["served"]) == (3, 40, 50)
        assert sweep["next_step"].endswith(f"`formulary-operator sweep --allow {refused.id}`")
        page = await visitor.get(HEALTH)
        for said in ("in step", "7 objects listed", "sweep refused", "3 differed and were queued", "40 of 50 served"):
            assert said in page.text
        assert f"formulary-operator sweep --allow {refused.id}" in page.text
        assert "w-1" not in page.source

        await resyncs.note("b/two", listed=10, differed=0, refused=None, every_seconds=300)
        assert "sweep" not in (await visitor.get(HEALTH)).text
        await writing.execute("update resync set finished_at = now() - interval '12 minutes' where operator = 'a/one'")
        assert [each["overdue"] for each in (await visitor.client.get(REST)).json()["resyncs"]] == [True, False]
        late = (await visitor.get(HEALTH)).text
        assert "overdue" in late
        assert "operators of older releases record none" in late
        await resyncs.note("b/two", listed=10, differed=0, refused=None, every_seconds=300)
        assert [each["operator"] for each in (await visitor.client.get(REST)).json()["resyncs"]] == ["b/two"]


async def test_a_resync_that_found_the_same_moves_nothing_but_its_time(parts: CatalogParts, writing: Database) -> None:
    resyncs = ResyncWriter(writing)
    async with serving(parts) as url, visiting(url) as visitor:
        await resyncs.note("a/one", listed=7, differed=0, refused=None, every_seconds=300)
        await writing.execute("update resync set finished_at = now() - interval '4 minutes'")
        page = await visitor.get(HEALTH)
        assert "4 minutes ago" in page.text
        await resyncs.note("a/one", listed=7, differed=0, refused=None, every_seconds=300)
        (resync,) = (await visitor.client.get(REST)).json()["resyncs"]
        same = Page(await visitor.client.get(NOW, params={"shown": shown_by(page)}))
        moved = [given["id"] for _, given in same.elements if "hx-swap-oob" in given]
        assert moved == ["halts", "as-of", "compared-1"]
        assert "compared-1" in [given.get("id") for _, given in page.elements]
        _, *times = [given["datetime"] for tag, given in same.elements if tag == "time"]
        assert [str(each).replace("+00:00", "Z") for each in times] == [resync["finished_at"]]
        await resyncs.note("a/one", listed=8, differed=0, refused=None, every_seconds=300)
        changed = Page(await visitor.client.get(NOW, params={"shown": shown_by(page)}))
        assert "8 objects listed" in changed.text


async def test_health_is_for_who_is_let_in_and_for_all_of_them(parts: CatalogParts) -> None:
    async with serving(parts, authenticator=KnownCallers(nobody=Rights())) as url, visiting(url) as visitor:
        assert (await visitor.client.get(REST)).status_code == 401
        answer = await visitor.client.get(REST, headers={"Authorization": "Bearer nobody"})
        assert (answer.status_code, answer.json()["readiness"]["database"]) == (200, "ok")
