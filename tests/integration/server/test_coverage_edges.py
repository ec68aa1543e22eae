"""Coverage on the command line, over REST and in the console: the same answers, under the rights of a person."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import yaml

from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.store.alert_rules import AlertRuleWriter, RuleObject
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, KnownCallers, Rights
from support.commands import Finished, formulary
from support.databases import migrated_database
from support.filling import fill
from support.manifest import workflow
from support.services import open_parts
from support.serving import serving
from support.visiting import OWN_FORM, visiting

LABELS = workflow("x")["spec"]["labels"]
WHAT_FOR = "Restarts a pod of which a container was OOMKilled, killed since it was out of memory."
HOSTILE = "<script>alert(1)</script>"
RULES = """
groups:
  - rules:
      - {alert: OOMKilled, labels: {severity: critical}, annotations: {summary: A container was killed.}}
      - {alert: VaultSealed, annotations: {summary: 'Vault {{ $labels.vault }} is sealed.'}}
      - {alert: Watchdog}
"""
ANNOTATED = """
groups:
  - rules:
      - {alert: OOMKilled}
      - {alert: Watchdog, annotations: {formulary_no_remedy: is meant to fire}}
"""
IGNORE = "- {alert: Watchdog, reason: it always fires}\n- {alert: Gone, reason: was removed}\n"
CALLERS = KnownCallers(
    lead=Rights(see={EVERYWHERE}, use={EVERYWHERE}, rules={EVERYWHERE}),
    shopper=Rights(see={"formulary"}, use={"shop"}, rules={"shop"}),
    visitor=Rights(see={EVERYWHERE}),
    nobody=Rights(),
)


@dataclass(frozen=True)
class World:
    """A server with workflows of two tenants, and a file of rules."""

    url: str
    dsn: str
    rules: Path
    client: httpx2.AsyncClient

    async def command(self, *arguments: str, by: str) -> Finished:
        return await formulary(*arguments, FORMULARY_URL=self.url, FORMULARY_TOKEN=by)

    async def page(self, path: str, *, by: str) -> str:
        response = await self.client.get(f"/console{path}", headers={"Authorization": f"Bearer {by}"})
        assert response.status_code == 200, response.text
        return response.text

    async def compare(self, by: str, *, file: bytes = b"", **fields: str) -> httpx2.Response:
        async with visiting(self.url, bearer=by) as visitor:
            form = (await visitor.get("/console/coverage")).form("/console/coverage")
            files = {"file": ("rules.yaml", file)} if file else None
            return await visitor.client.post(form.action, data=form.fields | fields, files=files, headers=OWN_FORM)


@pytest.fixture(scope="module")
async def world(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    rules = tmp_path_factory.mktemp("rules") / "rules.yaml"
    rules.write_text(RULES)
    (rules.parent / "ignored.txt").write_text(IGNORE)
    async with migrated_database(postgres) as dsn:
        writing = await Database.open(dsn, role=Role.WRITER, size=2, deadline=30)
        restart = workflow("restart-pod", labels=LABELS | {"signalType": ["OOMKilled"]}, what=WHAT_FOR)
        await fill(CatalogWriter(writing), [restart])
        vault = workflow("vault-unseal", labels=LABELS | {"signalType": ["VaultSealed"]})
        await fill(CatalogWriter(writing), [vault], namespace="bank")
        await ContextWriter(writing).save(RequestContext(namespace="shop", name="oom", remediation_id="rr-shop"))
        rules_of = AlertRuleWriter(writing)
        await rules_of.replace(
            RuleObject("shop", "orders"),
            [
                Alert(name="OOMKilled", severity="critical"),
                Alert(name="Watchdog", ignored=f"always fires {HOSTILE}"),
                Alert(name=f"Odd{HOSTILE}", severity=HOSTILE, summary=HOSTILE),
            ],
        )
        for number in range(3):
            await rules_of.replace(RuleObject("bank", f"vaults-{number}"), [Alert(name="VaultSealed")])
        async with (
            open_parts(dsn) as parts,
            serving(parts, authenticator=CALLERS) as url,
            httpx2.AsyncClient(base_url=url, timeout=30, trust_env=False) as client,
        ):
            asked = {"query": f"{HOSTILE} bread"}
            headers = {"Authorization": "Bearer lead", "X-Remediation-Id": "rr-shop"}
            assert (await client.post("/api/v1/workflows/search", json=asked, headers=headers)).status_code == 200
            yield World(url=url, dsn=dsn, rules=rules, client=client)
        await writing.close()


async def test_alerts_of_a_file_are_compared_by_a_person_with_a_token(world: World) -> None:
    done = await world.command("coverage", "--from", str(world.rules), by="lead")
    assert done.code == 0, done.err
    assert re.search(r"covered +VaultSealed +vault-unseal +1 ", done.out)
    assert "2 covered, 0 weak, 1 none" in done.out
    other = await world.command("coverage", "--from", str(world.rules.parent), "--json", by="shopper")
    answer = json.loads(other.out)
    assert answer["totals"] == {
        "covered": 1,
        "declared_only": 0,
        "weak": 0,
        "none": 2,
        "ignored": 0,
        "demand_covered": None,
    }
    assert "vault-unseal" not in other.out


async def test_ci_fails_for_what_has_no_remedy_unless_it_is_ignored(world: World) -> None:
    compared = ["coverage", "--from", str(world.rules), "--fail-on", "none"]
    assert (await world.command(*compared, by="lead")).code == 1
    done = await world.command(*compared, "--ignore", str(world.rules.parent / "ignored.txt"), by="lead")
    assert done.code == 0
    assert "ignored: it always fires" in done.out
    assert "ignored alerts that are not here, to be removed: Gone" in done.out
    nowhere = await world.command("coverage", "--from", str(world.rules.parent / "gone.yaml"), by="lead")
    assert (nowhere.code, "no such file or directory" in nowhere.err) == (3, True)


async def test_ci_ignores_alerts_of_the_cluster_by_the_same_file(world: World, tmp_path: Path) -> None:
    (file := tmp_path / "ignore.yaml").write_text(yaml.safe_dump([{"alert": f"Odd{HOSTILE}", "reason": "a known one"}]))
    done = await world.command("coverage", "--ignore", str(file), "--fail-on", "none", by="lead")
    assert done.code == 0, done.out + done.err
    assert "ignored: a known one" in done.out
    assert "ignored: always fires" in done.out
    assert "alerts of the cluster: 2 covered, 0 weak, 0 none, 2 ignored" in done.out
    assert "not here" not in done.out
    file.write_text(yaml.safe_dump([{"alert": "NodeNotReady", "reason": "of a signal"}]))
    signals = json.loads((await world.command("coverage", "--ignore", str(file), "--json", by="visitor")).out)
    assert (signals["totals"]["ignored"], signals["alert_totals"]) == (1, None)
    assert [each for each in signals["notes"] if "ignore" in each] == []


async def test_the_catalog_and_what_was_asked_in_vain_are_shown(world: World) -> None:
    done = await world.command("coverage", by="lead")
    assert re.search(r"weak query +1 time, nothing: <script>alert\(1\)</script> bread", done.out)
    nobody = await world.command("coverage", by="nobody")
    assert (nobody.code, "may not list remediationworkflows" in nobody.err) == (2, True)


async def test_alerts_of_the_cluster_are_shown_with_their_origin_to_those_who_may_list_rules(world: World) -> None:
    done = await world.command("coverage", by="lead")
    assert re.search(r"covered +VaultSealed +vault-unseal .*bank/vaults-0, bank/vaults-1 and 1 more", done.out)
    assert "alerts of the cluster: 2 covered, 0 weak, 1 none, 1 ignored" in done.out
    other = json.loads((await world.command("coverage", "--json", by="shopper")).out)
    assert {each["name"]: each["sources"] for each in other["alerts"]} == {
        name: ["shop/orders"] for name in (f"Odd{HOSTILE}", "OOMKilled", "Watchdog")
    }
    assert "vault" not in json.dumps(other).lower()
    assert other["alert_totals"] == {
        "covered": 1,
        "declared_only": 0,
        "weak": 0,
        "none": 1,
        "ignored": 1,
        "demand_covered": None,
    }
    none = json.loads((await world.command("coverage", "--json", by="visitor")).out)
    assert (none["alerts"], none["alert_totals"], none["alerts_waiting"]) == ([], None, 0)


async def test_a_check_is_about_the_alerts_of_the_cluster_where_there_are_any(world: World) -> None:
    assert (await world.command("coverage", "--fail-on", "none", by="lead")).code == 1
    writing = await Database.open(world.dsn, role=Role.WRITER, size=1, deadline=30)
    rules = AlertRuleWriter(writing)
    kept = [Alert(name="OOMKilled"), Alert(name="Watchdog", ignored=f"always fires {HOSTILE}")]
    await rules.replace(RuleObject("shop", "orders"), kept)
    done = await world.command("coverage", "--fail-on", "weak", by="lead")
    await rules.replace(RuleObject("shop", "orders"), [*kept, Alert(name=f"Odd{HOSTILE}", severity=HOSTILE)])
    await writing.close()
    assert done.code == 0, done.out + done.err
    assert re.search(r"none +NodeNotReady", done.out)


async def test_rules_of_a_file_ignore_themselves(world: World, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(ANNOTATED)
    done = await world.command("coverage", "--from", str(rules), "--fail-on", "none", by="lead")
    assert (done.code, "ignored: is meant to fire" in done.out) == (0, True)
    shown = await world.compare("lead", rules=ANNOTATED, ignore="")
    assert "is meant to fire" in shown.text
    assert "1 ignored" in shown.text


async def test_the_metric_is_counted_in_the_background_and_soon_there(world: World) -> None:
    async def scraped() -> list[str]:
        text = (await world.client.get("/metrics")).text
        return [line for line in text.splitlines() if line.startswith("formulary_alerts{")]

    async with asyncio.timeout(60):
        while not (lines := await scraped()):
            pass
    assert sorted(lines) == [
        'formulary_alerts{state="covered"} 2.0',
        'formulary_alerts{state="declared_only"} 0.0',
        'formulary_alerts{state="ignored"} 1.0',
        'formulary_alerts{state="none"} 1.0',
        'formulary_alerts{state="weak"} 0.0',
    ]


async def test_stale_and_duplicate_workflows_are_listed(world: World) -> None:
    stale = await world.command("stale", by="lead")
    assert (stale.code, "No stale workflows among 2." in stale.out) == (0, True)
    duplicates = await world.command("duplicates", "--json", by="lead")
    assert json.loads(duplicates.out)["pairs"] == []


async def test_rest_refuses_what_are_no_alerts_in_words(world: World) -> None:
    headers = {"Authorization": "Bearer lead"}
    for body, said in (
        ({"alerts": []}, "give at least 1"),
        ({"alerts": [{"name": ""}]}, "alerts[0].name is missing"),
        ({}, "alerts"),
    ):
        refused = await world.client.post("/api/v1/coverage", json=body, headers=headers)
        assert (refused.status_code, said in refused.json()["error"]["message"]) == (400, True), refused.text


async def test_the_page_shows_signals_and_queries_and_hostile_text_is_inert(world: World) -> None:
    page = await world.page("/coverage", by="lead")
    assert "Alerts of the cluster" in page
    assert "bank/vaults-0, bank/vaults-1" in page
    assert "bank/vaults-2" in page
    assert "always fires &lt;script&gt;" in page
    assert "Alerts of the cluster" not in await world.page("/coverage", by="visitor")
    assert ">1 workflow</a>" in page
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; bread" in page
    assert "vault" not in (await world.page("/coverage", by="shopper")).lower()
    assert "No stale workflows among 1." in await world.page("/coverage/stale", by="shopper")
    assert "No duplicates among" in await world.page("/coverage/duplicates", by="lead")


async def test_rules_are_pasted_without_a_script_and_problems_are_said_in_place(world: World) -> None:
    shown = await world.compare("lead", rules=RULES, ignore=IGNORE)
    assert shown.status_code == 200
    assert "2 covered" in shown.text
    assert "it always fires" in shown.text
    broken = await world.compare("lead", rules=f"groups: [ # {HOSTILE}")
    assert broken.status_code == 400
    assert "Rules: line " in broken.text
    assert HOSTILE not in broken.text
    empty = await world.compare("lead", rules="")
    assert "holds no alerting rules; give a PrometheusRule" in empty.text


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [(RULES.encode(), 200, "2 covered"), (RULES.encode() + b" # \xff", 400, "The file is not UTF-8 text")],
)
async def test_rules_are_uploaded_and_what_is_no_text_is_refused(
    world: World, content: bytes, status: int, said: str
) -> None:
    uploaded = await world.compare("lead", file=content, rules="", ignore="")
    assert (uploaded.status_code, said in uploaded.text) == (status, True)
