"""Alerts of the cluster against the catalog: what each person sees of them, and what the metric counts."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.coverage.alerts import Alert
from formulary_catalog.domain.coverage.answers import CoverageAnswer, CoverageTotals
from formulary_catalog.domain.coverage.states import failing, joined
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import SearchRequest
from formulary_catalog.embedding import Embedder
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.workflows.coverage import Coverage
from formulary_catalog.store.alert_rules import AlertRuleReader, AlertRuleWriter, RuleObject
from formulary_catalog.store.database.connection import Connection, Database, Role
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.upkeep import UpkeepReader
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.access import EVERYWHERE, Rights
from support.filling import fill
from support.manifest import workflow
from support.services import open_parts

LABELS = workflow("x")["spec"]["labels"]
WHAT_FOR = "Restarts a pod of which a container was OOMKilled, killed since it was out of memory."
LEAD = Caller(name="lead", access=EVERYTHING)
SHOPPER = Caller(name="shopper", access=Rights(see={"formulary"}, use={"shop"}, rules={"shop", "elsewhere"}))
BANKER = Caller(name="banker", access=Rights(see={"formulary", "bank"}, rules={"bank"}))
STRANGER = Caller(name="stranger", access=Rights(see={EVERYWHERE}))
SHOP, SHOP_TOO, BANK = (
    RuleObject("shop", "orders"),
    RuleObject("shop", "carts"),
    RuleObject("bank", "vaults"),
)


@pytest.fixture
def rules(writing: Database) -> AlertRuleWriter:
    return AlertRuleWriter(writing)


@pytest.fixture
async def catalog(
    database: str, workflows: CatalogWriter, contexts: ContextWriter, rules: AlertRuleWriter
) -> AsyncIterator[CatalogParts]:
    """A catalog that ranks by words, with alerts of two namespaces, one of them in both."""
    await fill(workflows, [workflow("restart-pod", labels=LABELS | {"signalType": ["OOMKilled"]}, what=WHAT_FOR)])
    await fill(workflows, [workflow("vault-unseal", labels=LABELS | {"signalType": ["VaultSealed"]})], namespace="bank")
    await contexts.save(RequestContext(namespace="shop", name="oom", remediation_id="rr", signal_name="BreadBurns"))
    await rules.replace(SHOP, [Alert(name="OOMKilled", severity="critical"), Alert(name="BreadBurns")])
    await rules.replace(SHOP_TOO, [Alert(name="Watchdog", ignored="always fires")])
    await rules.replace(BANK, [Alert(name="VaultSealed", summary="A vault is sealed."), Alert(name="oomkilled")])
    async with open_parts(database) as opened:
        yield opened


def coverage(parts: CatalogParts, *, alert_seconds: float = 60.0) -> Coverage:
    return Coverage(parts, strict_keys=frozenset(), alert_seconds=alert_seconds)


def shown(answer: CoverageAnswer) -> list[tuple[str, str, list[str]]]:
    return [(each.name, each.ignored or each.state, each.sources) for each in answer.alerts]


async def test_alerts_of_the_cluster_are_listed_once_with_what_defines_them(catalog: CatalogParts) -> None:
    answer = await coverage(catalog).of_catalog(limit=1000, caller=LEAD)
    assert shown(answer) == [
        ("BreadBurns", "none", ["shop/orders"]),
        ("OOMKilled", "covered", ["shop/orders", "bank/vaults"]),
        ("VaultSealed", "covered", ["bank/vaults"]),
        ("Watchdog", "always fires", ["shop/carts"]),
    ]
    (oom,) = (each for each in answer.alerts if each.name == "OOMKilled")
    assert (oom.severity, oom.workflow_id, oom.declared_by) == ("critical", "restart-pod", 1)
    assert answer.alert_totals == CoverageTotals(
        covered=2, declared_only=0, weak=0, none=1, ignored=1, demand_covered=0.0
    )
    assert answer.alerts_waiting == 0
    assert "VaultSealed" in [each.name for each in answer.signals]


async def test_people_see_and_count_alerts_of_namespaces_whose_rules_they_may_list(catalog: CatalogParts) -> None:
    shop = await coverage(catalog).of_catalog(limit=1000, caller=SHOPPER)
    assert shown(shop) == [
        ("BreadBurns", "none", ["shop/orders"]),
        ("OOMKilled", "covered", ["shop/orders"]),
        ("Watchdog", "always fires", ["shop/carts"]),
    ]
    assert "ault" not in shop.model_dump_json()
    assert shop.alert_totals is not None
    assert (shop.alert_totals.covered, shop.alert_totals.none, shop.alert_totals.ignored) == (1, 1, 1)
    bank = await coverage(catalog).of_catalog(limit=1000, caller=BANKER)
    assert shown(bank) == [("oomkilled", "covered", ["bank/vaults"]), ("VaultSealed", "covered", ["bank/vaults"])]
    assert "orders" not in bank.model_dump_json()
    stranger = await coverage(catalog).of_catalog(limit=1000, caller=STRANGER)
    assert (stranger.alerts, stranger.alert_totals, stranger.alerts_waiting) == ([], None, 0)


async def test_the_right_to_list_rules_shows_no_workflow(catalog: CatalogParts) -> None:
    everywhere = Caller(name="ops", access=Rights(see={"formulary"}, rules={EVERYWHERE}))
    answer = await coverage(catalog).of_catalog(limit=1000, caller=everywhere)
    (vault,) = (each for each in answer.alerts if each.name == "VaultSealed")
    assert (vault.state, vault.workflow_id, vault.declared_by) == ("none", "", 0)


async def test_alerts_for_which_there_was_no_time_are_counted_and_not_called_uncovered(catalog: CatalogParts) -> None:
    forgetful = coverage(catalog, alert_seconds=-1.0)
    answer = await forgetful.of_catalog(limit=1000, caller=LEAD)
    assert (len(answer.alerts), answer.alerts_waiting) == (2, 2)
    assert answer.alert_totals is not None
    assert answer.alert_totals.model_dump(include={"covered", "none", "ignored"}) == {
        "covered": 1,
        "none": 1,
        "ignored": 0,
    }
    later = await forgetful.of_catalog(limit=1000, after=answer.next_cursor, caller=LEAD)
    assert [each.name for each in later.alerts] == ["VaultSealed", "Watchdog"]
    assert (len(answer.signals), answer.totals.number) == (2, 2)
    pages = [answer, later]
    while after := pages[-1].next_cursor:
        pages.append(await forgetful.of_catalog(limit=1000, after=after, caller=LEAD))
    whole = joined(pages)
    assert len({each.name for each in whole.signals}) == len(whole.signals) == answer.signals_waiting + 2
    assert (whole.signals_waiting, whole.alerts_waiting) == (0, 0)


async def test_pages_together_are_the_whole(catalog: CatalogParts) -> None:
    paging = coverage(catalog)
    whole = await paging.of_catalog(limit=1000, caller=LEAD)
    pages = [await paging.of_catalog(limit=1, caller=LEAD)]
    while after := pages[-1].next_cursor:
        pages.append(await paging.of_catalog(limit=1, after=after, caller=LEAD))
    assert len(pages) == len(whole.signals)
    assert {len(page.signals) for page in pages} == {1}
    assert [len(page.alerts) for page in pages[:5]] == [1, 1, 1, 1, 0]
    assert [page.alert_totals for page in pages] == [whole.alert_totals] * len(pages)
    assert joined(pages) == whole
    with pytest.raises(InvalidInput, match="cursor"):
        await paging.of_catalog(limit=1, after="WyJhIl0", caller=LEAD)


async def test_pages_list_each_alert_and_signal_once_whatever_is_asked_for_meanwhile(
    catalog: CatalogParts, contexts: ContextWriter
) -> None:
    paging = coverage(catalog)
    names = {each.name for each in (await paging.of_catalog(limit=1000, caller=LEAD)).signals}
    pages = [await paging.of_catalog(limit=1, caller=LEAD)]
    assert [each.name for each in pages[0].alerts] == ["BreadBurns"]
    rising = ["VaultSealed", "NodeNotReady", "Watchdog", "OOMKilled", *sorted(names)]
    while after := pages[-1].next_cursor:
        for number in range(len(pages) + 1):
            name = f"{len(pages)}-{number}"
            signal = rising[len(pages) - 1]
            await contexts.save(RequestContext(namespace="shop", name=name, remediation_id="rr", signal_name=signal))
        pages.append(await paging.of_catalog(limit=1, after=after, caller=LEAD))
    listed = [each.name for page in pages for each in page.alerts]
    assert sorted(listed) == ["BreadBurns", "OOMKilled", "VaultSealed", "Watchdog"]
    listed = [each.name for page in pages for each in page.signals]
    assert (sorted(listed), len(listed)) == (sorted(names), len(names))


async def test_an_alert_that_no_page_listed_fails_a_check(catalog: CatalogParts, rules: AlertRuleWriter) -> None:
    await rules.replace(SHOP, [Alert(name="OOMKilled")])
    paging = coverage(catalog)
    pages = [await paging.of_catalog(limit=1, caller=LEAD)]
    while after := pages[-1].next_cursor:
        pages.append(await paging.of_catalog(limit=1, after=after, caller=LEAD))
        if len(pages) == 3:
            assert not failing(joined(pages), fail_on="weak")
            await rules.replace(SHOP_TOO, [Alert(name="Late"), Alert(name="Watchdog", ignored="always fires")])
    whole = joined(pages)
    assert "Late" not in [each.name for each in whole.alerts]
    assert whole.alerts_waiting == 1
    assert failing(whole, fail_on="none")


async def test_the_metric_counts_all_alerts_over_the_whole_catalog(
    catalog: CatalogParts, rules: AlertRuleWriter
) -> None:
    assert await coverage(catalog).states_of_rules() == {
        "covered": 2,
        "declared_only": 0,
        "weak": 0,
        "none": 1,
        "ignored": 1,
    }
    for each in (SHOP, SHOP_TOO, BANK):
        await rules.replace(each, [])
    assert await coverage(catalog).states_of_rules() == {}


async def test_rules_of_an_object_are_replaced_as_a_whole(rules: AlertRuleWriter, database: str) -> None:
    await rules.replace(SHOP, [Alert(name="A", summary="old"), Alert(name="B")])
    await rules.replace(BANK, [Alert(name="B")])
    await rules.replace(SHOP, [Alert(name="A", summary="new", severity="warning", ignored="x")])
    async with Database.opened(database, role=Role.SERVER, size=1) as reading:
        assert await AlertRuleReader(reading).alerts(namespaces=None) == [
            Alert(name="A", summary="new", severity="warning", ignored="x", sources=("shop/orders",)),
            Alert(name="B", sources=("bank/vaults",)),
        ]
    assert await rules.objects() == {SHOP, BANK}
    await rules.replace(SHOP, [])
    assert await rules.objects() == {BANK}


async def test_the_server_reads_rules_of_the_namespaces_that_it_names_alone(
    rules: AlertRuleWriter, database: str
) -> None:
    await rules.replace(SHOP, [Alert(name="A")])
    await rules.replace(BANK, [Alert(name="B")])
    async with Database.opened(database, role=Role.SERVER, size=1) as reading:
        reader = AlertRuleReader(reading)
        for namespaces, names in ((frozenset({"shop"}), ["A"]), (frozenset[str](), []), (frozenset({"sho"}), [])):
            assert [each.name for each in await reader.alerts(namespaces=namespaces)] == names
            assert await reading.fetch("select * from alert_rule") == []

        async def raw(connection: Connection) -> set[str]:
            await connection.execute("select set_config('formulary.rules_read', 'bank', true)")
            return {
                row["name"] for row in await connection.fetch("select name from alert_rule where true or name = 'A'")
            }

        assert await reading.read(raw) == {"B"}


async def test_what_was_compared_is_remembered_until_a_visible_workflow_changes(
    parts: CatalogParts,
    workflows: CatalogWriter,
    rules: AlertRuleWriter,
    embedder: Embedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await fill(workflows, [workflow("restart-pod")], embedder=embedder)
    await rules.replace(SHOP, [Alert(name=f"Alert{number}", summary="The oven is cold.") for number in range(5)])
    asked: list[str] = []
    ranking = parts.searcher.ranking

    async def noted(request: SearchRequest, **given: Any) -> Any:
        asked.append(request.query)
        return await ranking(request, **given)

    monkeypatch.setattr(parts.searcher, "ranking", noted)
    fingerprint = UpkeepReader.fingerprint
    read: list[frozenset[str] | None] = []

    async def counted(reader: UpkeepReader, *, namespaces: frozenset[str] | None) -> tuple[int, str]:
        read.append(namespaces)
        return await fingerprint(reader, namespaces=namespaces)

    monkeypatch.setattr(UpkeepReader, "fingerprint", counted)
    remembering = coverage(parts)
    first = await remembering.of_catalog(limit=1000, caller=LEAD)
    assert asked
    assert len(read) == 1
    asked.clear()
    assert (await remembering.of_catalog(limit=1000, caller=LEAD)).alerts == first.alerts
    assert asked == []
    oven = workflow("heat-oven", description={"what": "Heats the oven.", "whenToUse": "The oven is cold."})
    await fill(workflows, [oven], namespace="bank", embedder=embedder)
    assert {each.workflow_id for each in (await remembering.of_catalog(limit=1000, caller=LEAD)).alerts} == {
        "heat-oven"
    }
    asked.clear()
    shop = await remembering.of_catalog(limit=1000, caller=SHOPPER)
    assert (len(shop.alerts), "heat-oven" in shop.model_dump_json()) == (5, False)
