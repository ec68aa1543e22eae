"""What the server answers where nobody knows who wrote the workflow: what the operator would do, by its own policy."""

from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.runs.facts import UnknownAuthors
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.errors import NotInvocable
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.services.runs.service import InvocationService
from support import playing
from support.agent import answer_of, call, refused
from support.invoking import asked, followed, rows, trail
from support.runnable import PRODUCTION, STAGING, TARGET
from support.serving import serving

pytestmark = pytest.mark.usefixtures("owner")

UNSEEN = "the admission webhook did not see who wrote the workflow"
WAITS = f"Waits for an approval: by default, because {UNSEEN}."
NOBODY = (
    "nobody knows who wrote workflow formulary/scale-out; delete it and apply it again, while the admission webhook "
    "runs (FORMULARY_PROVEN_AUTHORS)"
)
ASKED = {"workflow_id": "scale-out", "input": {"REPLICAS": 3}}


async def _decisions(owner: asyncpg.Connection, invocation_id: str) -> list[dict[str, Any]]:
    events = await trail(owner, "rr-staging")
    return [
        payload
        for kind, payload in events
        if kind == "invocation.decided" and payload["invocation_id"] == invocation_id
    ]


async def test_a_run_waits_from_the_first_answer_on_in_the_words_of_the_operator(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.run_writer(dsn) as runs:
        await runs.announce(unknown_authors=UnknownAuthors.APPROVE)
        answer = await service.invoke(asked(), context=STAGING, caller=LOCAL)
        looked_at = await runs.begin(answer.invocation_id, known={"unauthored": True})

    assert answer.state == "awaiting_approval"
    assert answer.message.startswith(WAITS)
    assert looked_at is not None
    assert (looked_at.phase.state, looked_at.message) == (answer.state, answer.message)
    (decided,) = await _decisions(owner, answer.invocation_id)
    assert (decided["phase"], decided["message"]) == ("AwaitingApproval", answer.message)


async def test_in_production_the_answer_names_both_reasons(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn, unknown_authors=UnknownAuthors.APPROVE):
        answer = await service.invoke(asked(), context=PRODUCTION, caller=LOCAL)

    assert f"{UNSEEN} and the environment is production" in answer.message


async def test_a_dry_run_says_what_a_real_run_would_wait_for(service: InvocationService, dsn: str) -> None:
    async with playing.run_writer(dsn) as runs:
        await runs.announce(unknown_authors=UnknownAuthors.APPROVE)
        answer = await service.invoke(asked(dry_run=True, timeout_ms=60_000), context=STAGING, caller=LOCAL)

    assert answer.message.startswith(f"A dry run needs no approval. A real run would meet: {WAITS}")


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("context", [STAGING, PRODUCTION], ids=["staging", "production"])
async def test_where_the_operator_refuses_unknown_authors_nobody_is_asked_and_nothing_is_created(
    service: InvocationService, dsn: str, owner: asyncpg.Connection, context: Any, dry_run: bool
) -> None:
    before = await rows(owner)
    async with playing.operator(dsn, unknown_authors=UnknownAuthors.REFUSE):
        with pytest.raises(NotInvocable) as refusal:
            await service.invoke(asked(dry_run=dry_run), context=context, caller=LOCAL)

    assert str(refusal.value) == NOBODY
    assert await rows(owner) == before
    kind, payload = (await trail(owner, context.remediation_id))[-1]
    assert (kind, NOBODY in str(payload)) == ("invocation.refused", True)


async def test_a_repeat_hears_of_its_run_also_where_unknown_authors_are_refused_by_now(
    service: InvocationService, dsn: str
) -> None:
    keyed = asked(idempotency_key="before-proof")
    async with playing.operator(dsn):
        first = await service.invoke(keyed, context=STAGING, caller=LOCAL)
    async with playing.operator(dsn, unknown_authors=UnknownAuthors.REFUSE):
        again = await service.invoke(keyed, context=STAGING, caller=LOCAL)

    assert (again.invocation_id, again.state) == (first.invocation_id, "completed")


@pytest.mark.parametrize("policy", [UnknownAuthors.APPROVE, UnknownAuthors.REFUSE])
async def test_a_workflow_with_a_known_author_runs(
    service: InvocationService, dsn: str, owner: asyncpg.Connection, policy: UnknownAuthors
) -> None:
    await owner.execute(
        """
        insert into formulary.workflow_author (namespace, version_id, identity)
        select namespace, version_id, '{"username": "ada"}' from formulary.workflow_version where name = 'scale-out'
        """
    )
    try:
        async with playing.operator(dsn, unknown_authors=policy):
            answer = await followed(service, await service.invoke(asked(), context=STAGING, caller=LOCAL))
    finally:
        await owner.execute("delete from formulary.workflow_author")

    assert answer.state == "completed"


_HERE, _ELSEWHERE = [TARGET, "formulary"], ["bank"]
_NOW, _SILENT, _LONG_SILENT = "0 s", "5 min", "1 day"


@pytest.mark.parametrize(
    ("executors", "waits"),
    [
        ([("approve", _ELSEWHERE, _NOW)], False),
        ([("approve", _HERE, _NOW)], True),
        ([("run", [], _NOW), ("approve", _HERE, _NOW)], True),
        ([("run", [], _NOW), ("approve", [], _SILENT)], False),
        ([("run", [], _LONG_SILENT), ("approve", [], _SILENT)], True),
    ],
    ids=["of another namespace", "of this one", "the strictest", "a silent one", "all are silent"],
)
async def test_the_operator_of_the_namespace_that_was_heard_of_last_decides(
    service: InvocationService, owner: asyncpg.Connection, executors: list[tuple[str, list[str], str]], waits: bool
) -> None:
    for number, (policy, namespaces, ago) in enumerate(executors):
        await owner.execute(
            "insert into formulary.executor (name, engines, namespaces, unknown_authors, at) "
            "values ($1, '{job}', $2, $3, now() - $4::text::interval)",
            f"operator-{number}",
            namespaces,
            policy,
            ago,
        )
    answer = await service.invoke(asked(dry_run=True, timeout_ms=60_000), context=STAGING, caller=LOCAL)

    assert (UNSEEN in answer.message) is waits


async def test_over_mcp_and_rest_it_is_one_answer(parts: CatalogParts, dsn: str) -> None:
    headers = {"X-Remediation-Id": "rr-staging"}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "invoke_workflow", "params": ASKED}
    async with serving(parts) as url, httpx2.AsyncClient(base_url=url, headers=headers) as http:
        async with playing.operator(dsn, unknown_authors=UnknownAuthors.APPROVE):
            told = answer_of(await call(url, "invoke_workflow", ASKED, headers=headers))
            rest = (await http.post("/api/v1/invoke", json=rpc)).json()["result"]
        async with playing.operator(dsn, unknown_authors=UnknownAuthors.REFUSE):
            message = refused(await call(url, "invoke_workflow", ASKED, headers=headers))
            refusal = await http.post("/api/v1/invoke", json=rpc)

    assert told["state"] == rest["state"] == "awaiting_approval"
    assert UNSEEN in told["message"]
    assert told["message"] == rest["message"]
    assert NOBODY in message
    assert (refusal.status_code, refusal.json()["error"]["message"]) == (400, NOBODY)
