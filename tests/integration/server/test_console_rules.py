"""The pages of rules and halts: what is in force, what a contract would change, and the emergency stop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx2
import pytest

from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.loading.manifests import MAX_CHARACTERS
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.submission import InvocationStore
from support.access import EVERYWHERE, KnownCallers, Rights
from support.databases import migrated_database
from support.manifest import contract, text
from support.runs import HARMLESS, request
from support.services import open_parts
from support.serving import serving
from support.visiting import OWN_FORM, Form, Page, Visitor

RULES, HALTS = "/console/rules", "/console/rules/halts"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
CALLERS = KnownCallers(
    sre=Rights(read={"shop"}, contracts={"shop"}, halt={"shop"}, lift={"shop"}),
    platform=Rights(read={EVERYWHERE}, contracts={EVERYWHERE}, halt={EVERYWHERE}, lift={EVERYWHERE}),
    reader=Rights(read={"shop"}),
)
SPEC = {
    "rules": [
        {"id": "risky", "effect": "DENY", "match": {"riskLevels": ["high"]}, "rationale": HOSTILE},
        {"id": "unused", "effect": "ALLOW", "match": {"workflows": ["no-such"]}},
    ]
}


@pytest.fixture(scope="module")
async def parts(postgres: EmbeddedPostgres) -> AsyncIterator[CatalogParts]:
    async with migrated_database(postgres) as dsn:
        async with Database.opened(dsn, role=Role.WRITER, deadline=30) as writing:
            contracts = ContractWriter(writing, shared_namespace="formulary")
            await contracts.save(SPEC, namespace="shop", name="c", uid="u")
        async with Database.opened(dsn, role=Role.SERVER, deadline=30) as database:
            asking = InvocationStore(database, shared_namespace="formulary")
            for key, facts in (("a", HARMLESS), ("b", replace(HARMLESS, risk_level="high"))):
                await asking.submit(request(key=key, facts=facts))
        async with open_parts(dsn) as opened:
            yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, authenticator=CALLERS) as at:
        yield at


@asynccontextmanager
async def visiting(url: str, *, by: str) -> AsyncIterator[Visitor]:
    headers = {"Authorization": f"Bearer {by}"}
    async with httpx2.AsyncClient(base_url=url, timeout=50, headers=headers) as client:
        yield Visitor(client)


def form_with(page: Page, field: str) -> Form:
    return next(form for form in page.forms if field in form.fields)


def halting_everywhere(page: Page) -> Form:
    return next(form for form in page.forms if form.action == HALTS and "scope" not in form.fields)


def disabled(page: Page, tag: str = "button") -> int:
    return sum("disabled" in attributes for name, attributes in page.elements if name == tag)


async def test_rules_are_shown_with_how_often_they_counted(url: str) -> None:
    async with visiting(url, by="sre") as sre:
        page = await sre.get(RULES)
    assert page.status == 200
    assert "shop/c" in page.text
    assert "risky DENY riskLevels: high" in page.text
    assert f"{HOSTILE} 1 1" in page.text
    assert "unused ALLOW workflows: no-such never 0" in page.text
    assert "<script>alert" not in page.source
    async with visiting(url, by="reader") as reader:
        empty = await reader.get(RULES)
    assert "No contracts that you can see." in empty.text
    assert "get governancecontracts.formulary.dev" in empty.text


async def test_a_pasted_contract_is_tried_without_a_script(url: str) -> None:
    document = contract("c", effect="ALLOW")
    document["metadata"]["namespace"] = "shop"
    async with visiting(url, by="sre") as sre:
        form = (await sre.get(RULES)).form(f"{RULES}/tried")
        tried = await sre.submit(form, manifest=text(document))
        assert (tried.status, "Newly allowed: 1 run" in tried.text) == (200, True)
        assert f"denied DENY by rule risky of contract shop/c ({HOSTILE}) allowed ALLOW by rule only" in tried.text
        assert "By default it needs an approval, because of: workflow-risk: the workflow's risk level is" in tried.text
        assert "<script>alert" not in tried.source
        assert form_with(tried, "since").fields["since"] == "30d"
        broken = await sre.submit(form, manifest="a: [\n")
        assert (broken.status, "Manifest: line 2:" in broken.text) == (400, True)
        nonsense = await sre.submit(form, manifest=text(document), since="nonsense")
        assert (nonsense.status, "is no time" in nonsense.text) == (400, True)
    async with visiting(url, by="reader") as reader:
        form = (await reader.get(RULES)).form(f"{RULES}/tried")
        refused = await reader.submit(form, manifest=text(document))
        assert (refused.status, "may not get governancecontracts" in refused.text) == (403, True)


async def test_a_contract_without_a_decision_to_try_it_on_is_not_said_to_change_nothing(url: str) -> None:
    document = contract("c", effect="ALLOW")
    document["metadata"]["namespace"] = "bank"
    async with visiting(url, by="platform") as platform:
        form = (await platform.get(RULES)).form(f"{RULES}/tried")
        tried = await platform.submit(form, manifest=text(document))
    assert (tried.status, "No decisions to replay." in tried.text) == (200, True)
    assert "There was no decision to try it on, so this says nothing about what it will do" in tried.text
    assert "No run would have gone otherwise" not in tried.text
    assert "Unchanged" not in tried.text
    assert "never" not in tried.text


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
async def test_a_contract_may_be_as_long_as_the_page_says_however_its_lines_end(url: str, ends: str) -> None:
    document = contract("c")
    document["metadata"]["namespace"] = "shop"
    short = text(document)
    longest = (short + "#\n" * MAX_CHARACTERS)[:MAX_CHARACTERS].replace("\n", ends)
    async with visiting(url, by="sre") as sre:
        form = (await sre.get(RULES)).form(f"{RULES}/tried")
        others = {name: value for name, value in form.fields.items() if name != "manifest"}
        for part, status in (
            ({"manifest": (None, longest)}, 200),
            ({"file": ("c.yaml", longest)}, 200),
            ({"manifest": (None, f"{longest}##")}, 400),
        ):
            sent = await sre.client.post(form.action, data=others, files=part, headers=OWN_FORM)
            assert sent.status_code == status


async def test_an_uploaded_contract_is_tried_and_one_that_is_no_text_refused(url: str) -> None:
    document = contract("c", effect="ALLOW")
    document["metadata"]["namespace"] = "shop"
    async with visiting(url, by="sre") as sre:
        form = (await sre.get(RULES)).form(f"{RULES}/tried")
        for content, status, said in (
            (text(document).encode(), 200, "Newly allowed: 1 run"),
            (b"\xff\xfe", 400, "The file is not UTF-8 text"),
        ):
            files = {"file": ("rules.yaml", content)}
            answer = Page(await sre.client.post(form.action, data=form.fields, files=files, headers=OWN_FORM))
            assert (answer.status, said in answer.text) == (status, True), answer.text


async def test_a_namespace_is_halted_and_lifted_after_being_asked_once_more(url: str) -> None:
    async with visiting(url, by="sre") as sre:
        page = await sre.get(HALTS)
        assert "No halts that you can see" in page.text
        assert "you need the right to create governancecontracts.formulary.dev in namespace formulary" in page.text
        assert disabled(page) == 1
        ask = await sre.submit(form_with(page, "scope"), namespace="shop", reason=HOSTILE)
        assert "All runs in namespace shop end now" in ask.text
        assert "No halts that you can see" in (await sre.get(HALTS)).text
        done = await sre.submit(form_with(ask, "confirmed"))
        assert (done.status, done.headers["location"].startswith(HALTS)) == (303, True)
        halted = await sre.get(done.headers["location"])
        assert "Halted. Runs that end now: 1." in halted.text
        assert HOSTILE in halted.text
        assert "<script>alert" not in halted.source
        ask = await sre.submit(halted.form(f"{HALTS}/lift"), reason="over")
        done = await sre.submit(form_with(ask, "confirmed"))
        assert "Halt lifted: new runs may start." in (await sre.get(done.headers["location"])).text
        refused = await sre.submit(form_with(ask, "confirmed"), namespace="bank")
        assert (refused.status, "may not delete governancecontracts" in refused.text) == (403, True)


async def test_a_lifted_halt_is_not_said_to_let_runs_begin_where_another_holds(url: str) -> None:
    async with visiting(url, by="platform") as platform:
        page = await platform.get(HALTS)
        for ask in (
            await platform.submit(form_with(page, "scope"), reason="wrong", namespace="shop"),
            await platform.submit(halting_everywhere(page), reason="wrong"),
        ):
            await platform.submit(form_with(ask, "confirmed"))
        said = []
        for namespace in ("shop", ""):
            page = await platform.get(HALTS)
            lifting = next(
                form
                for form in page.forms
                if form.action == f"{HALTS}/lift" and form.fields.get("namespace", "") == namespace
            )
            done = await platform.submit(form_with(await platform.submit(lifting, reason="over"), "confirmed"))
            said.append((await platform.get(done.headers["location"])).text)
    assert "Halt lifted, but another is still in force there: no run starts." in said[0]
    assert "new runs may start" not in said[0]
    assert "Halt lifted: new runs may start." in said[1]


@pytest.mark.parametrize(
    ("by", "namespace", "doubted"), [("platform", "shpo", True), ("platform", "shop", False), ("sre", "shpo", False)]
)
async def test_who_may_halt_a_namespace_is_told_before_that_nothing_knows_it(
    url: str, by: str, namespace: str, doubted: bool
) -> None:
    async with visiting(url, by=by) as visitor:
        ask = await visitor.submit(form_with(await visitor.get(HALTS), "scope"), namespace=namespace, reason="wrong")
        assert ("check the spelling" in ask.text) is doubted
        assert f"in namespace {namespace} end now" in ask.text


async def test_a_halt_of_everywhere_is_at_the_head_of_every_page_until_it_is_lifted(url: str) -> None:
    async with visiting(url, by="platform") as platform, visiting(url, by="reader") as reader:
        page = await platform.get(HALTS)
        assert disabled(page) == 0
        empty = await platform.submit(form_with(page, "scope"), namespace=" ", reason="x")
        assert (empty.status, "Namespace is empty" in empty.text) == (400, True)
        ask = await platform.submit(halting_everywhere(page), reason="smoke")
        await platform.submit(form_with(ask, "confirmed"))
        seen = await reader.get(HALTS)
        assert "HALT runs are halted everywhere since" in seen.text
        assert "You cannot lift it: you need the right to delete governancecontracts.formulary.dev" in seen.text
        assert disabled(seen) == 3
        ask = await platform.submit((await platform.get(HALTS)).form(f"{HALTS}/lift"))
        assert (await platform.submit(form_with(ask, "confirmed"))).status == 303
        assert "No halts that you can see" in (await reader.get(HALTS)).text


async def test_a_form_of_another_site_halts_nothing(url: str) -> None:
    async with visiting(url, by="platform") as platform:
        page = await platform.get(HALTS)
        forged = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
        form = form_with(page, "scope")
        refused = await platform.submit(form, headers=forged, namespace="shop", reason="x", confirmed="yes")
        assert refused.status == 403
        assert "No halts that you can see" in (await platform.get(HALTS)).text
