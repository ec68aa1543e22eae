"""What contracts and the trail say of a run is obeyed at the request and again at the start."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.errors import Unavailable
from formulary_catalog.store.audit.events import TraceEvent, TraceStore
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.runs.contracts import ContractWriter
from formulary_catalog.store.runs.decisions import DecisionReader
from formulary_catalog.store.runs.lifecycle import RunWriter
from formulary_catalog.store.runs.submission import InvocationStore
from support.runs import HARMLESS, IN_PRODUCTION, request


async def test_a_contract_that_comes_between_the_request_and_the_start_is_obeyed(
    asked: InvocationStore, runs: RunWriter, writing: Database
) -> None:
    accepted = (await asked.submit(request())).invocation
    rule = {"id": "freeze", "effect": "DENY", "rationale": "peak season"}
    await ContractWriter(writing, shared_namespace="formulary").save(
        {"rules": [rule]}, namespace="shop", name="peak", uid="u"
    )
    ended = await runs.begin(accepted.id)
    assert ended is not None
    assert (ended.phase, ended.reason) == (Phase.FAILED, "Denied")
    assert "freeze" in ended.message
    assert "peak season" in ended.message


async def test_what_is_denied_at_once_is_kept_as_a_run_that_failed(asked: InvocationStore, writing: Database) -> None:
    rule = {"id": "no-restarts", "effect": "DENY", "match": {"actionTypes": ["RestartPod"]}}
    await ContractWriter(writing, shared_namespace="formulary").save(
        {"rules": [rule]}, namespace="formulary", name="all", uid="u"
    )
    refused = (await asked.submit(request())).invocation
    assert (refused.phase, refused.reason) == (Phase.FAILED, "Denied")
    assert refused.decision["rules"][0]["id"] == "no-restarts"


async def test_contracts_of_other_namespaces_do_not_hold_here(asked: InvocationStore, writing: Database) -> None:
    rule = {"id": "no", "effect": "DENY"}
    await ContractWriter(writing, shared_namespace="formulary").save(
        {"rules": [rule]}, namespace="elsewhere", name="all", uid="u"
    )
    assert (await asked.submit(request())).invocation.phase is Phase.PENDING


async def test_a_degraded_run_begins_as_a_dry_run(asked: InvocationStore, runs: RunWriter, writing: Database) -> None:
    rule = {"id": "look-first", "effect": "DEGRADE"}
    await ContractWriter(writing, shared_namespace="formulary").save(
        {"rules": [rule]}, namespace="shop", name="all", uid="u"
    )
    accepted = (await asked.submit(request())).invocation
    assert accepted.phase is Phase.PENDING
    assert not accepted.runs_for_real
    begun = await runs.begin(accepted.id)
    assert begun is not None
    assert begun.phase is Phase.RUNNING
    assert not begun.runs_for_real


async def test_what_was_accepted_as_a_dry_run_stays_one_when_the_rule_is_gone(
    asked: InvocationStore, runs: RunWriter, writing: Database
) -> None:
    contracts = ContractWriter(writing, shared_namespace="formulary")
    rules = {"rules": [{"id": "careful", "effect": "DEGRADE"}]}
    await contracts.save(rules, namespace="shop", name="c", uid="u")
    accepted = [(await asked.submit(request(facts=facts))).invocation for facts in (HARMLESS, IN_PRODUCTION)]
    await contracts.remove(namespace="shop", name="c")
    for each in accepted:
        begun = await runs.begin(each.id)
        assert begun is not None
        assert (begun.phase, begun.runs_for_real) == (Phase.RUNNING, False)
        assert begun.message.startswith("Accepted as a dry run, and stays one")


async def test_what_was_accepted_as_a_dry_run_is_denied_like_any_other(
    asked: InvocationStore, runs: RunWriter, writing: Database
) -> None:
    contracts = ContractWriter(writing, shared_namespace="formulary")
    for effect in ("DEGRADE", "DENY"):
        rules = {"rules": [{"id": "careful", "effect": effect}]}
        await contracts.save(rules, namespace="shop", name="c", uid="u")
        run = (await asked.submit(request(key="k"))).invocation
    ended = await runs.begin(run.id)
    assert ended is not None
    assert (ended.phase, ended.reason) == (Phase.FAILED, "Denied")


async def test_a_contract_that_this_release_cannot_read_stops_what_it_applies_to(
    asked: InvocationStore, runs: RunWriter, writing: Database
) -> None:
    accepted = (await asked.submit(request())).invocation
    await writing.execute(
        "insert into governance_contract (namespace, name, uid, spec) values ('shop', 'later', 'u', $1)",
        {"rules": [{"id": "r", "effect": "DENY", "match": {"phaseOfTheMoon": ["full"]}}]},
    )
    for asking in (asked.submit(request()), runs.begin(accepted.id)):
        with pytest.raises(Unavailable, match="contract shop/later holds rules that this release does not know"):
            await asking
    assert (await asked.submit(request(namespace="elsewhere"))).invocation.phase is Phase.PENDING


async def test_what_somebody_else_chose_is_no_evidence_for_an_incident_named_like_their_search(
    asked: InvocationStore, writing: Database
) -> None:
    theirs = f"tr_{uuid4().hex}"
    chosen = {
        "arguments": {"reasoning": "it fits"},
        "result": {"version_id": request().version_id},
        "outcome": "ok",
    }
    await TraceStore(writing).append(
        TraceEvent(trace_id=theirs, kind="selection", caller="somebody else", payload=chosen)
    )
    run = (await asked.submit(request(remediation_id=theirs))).invocation
    assert run.trace_id != theirs
    assert "selection" in [risk["category"] for risk in run.decision["gate"]["risks"]]


async def test_a_rule_that_halts_is_counted_as_having_decided_the_runs_that_it_refused(
    asked: InvocationStore, serving_side: Database, writing: Database
) -> None:
    contracts = ContractWriter(writing, shared_namespace="formulary")
    stop = {"id": "stop", "effect": "HALT", "rationale": "The cellar is full of water."}
    other = {"id": "other", "effect": "DENY"}
    await asked.submit(request())
    await contracts.save({"rules": [stop, other]}, namespace="shop", name="c", uid="u")
    assert [(await asked.submit(request())).invocation.phase for _ in range(2)] == [Phase.HALTED] * 2
    await contracts.remove(namespace="shop", name="c")

    counts = await DecisionReader(serving_side).counts(
        namespaces=None, since=datetime(2020, 1, 1, tzinfo=UTC), at_most=9
    )
    assert {(count.rule_id, count.matched, count.decided) for count in counts} == {("stop", 2, 2), ("other", 2, 0)}
