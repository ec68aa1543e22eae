"""Asking for runs, through the service on a real database; a test plays the operator."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.errors import (
    InputRefused,
    InvalidInput,
    NoExecutor,
    NotAllowed,
    NotFound,
    NotInvocable,
    RunFailed,
    RunTimedOut,
    Unavailable,
)
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs import preparation
from formulary_catalog.services.runs.service import InvocationService
from formulary_catalog.settings import Settings
from support import playing
from support.invoking import NOWHERE, asked, caller, followed, never, rows, taking, trail
from support.runnable import STAGING, TARGET

pytestmark = pytest.mark.usefixtures("owner")


async def test_a_harmless_run_is_waited_for_and_returns_its_output(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.operator(dsn):
        answer = await service.invoke(asked(), context=STAGING, caller=LOCAL)

    assert (answer.state, answer.phase, answer.output) == ("completed", "Succeeded", {"healed": True})
    assert (answer.workflow_id, answer.namespace, answer.trace_id) == ("formulary/scale-out", TARGET, "rr-staging")
    target = await owner.fetchval("select target from formulary.invocation where id = $1", answer.invocation_id)
    assert json.loads(target) == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": TARGET}
    assert answer.duration_seconds is not None
    assert answer.finished_at > answer.started_at >= answer.created_at


async def test_without_an_incident_it_runs_in_the_namespace_of_runs_without_a_target(
    service: InvocationService, dsn: str
) -> None:
    async with playing.operator(dsn):
        answer = await service.invoke(asked(), context=NOWHERE, caller=LOCAL)

    assert answer.namespace == "formulary-runs"
    assert answer.trace_id == f"tr_{answer.invocation_id.removeprefix('inv-')}"
    assert (answer.state, "environment is not known" in answer.message) == ("awaiting_approval", True)


async def test_values_are_complete_and_secrets_are_nowhere_but_where_the_operator_finds_them(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    secret = "hunter2-very-secret"
    async with playing.operator(dsn, ends=never) as runs:
        answer = await service.invoke(
            asked(input={"REPLICAS": "3", "TOKEN": secret}, timeout_ms=60_000), context=STAGING, caller=LOCAL
        )
        values = await runs.secret(answer.invocation_id)

    stored = await owner.fetchrow("select * from formulary.invocation where id = $1", answer.invocation_id)
    assert stored is not None
    kept = json.loads(stored["input"])
    assert (kept["REPLICAS"], kept["SAY"]) == (3, "hello")
    assert kept["TOKEN"].startswith("sha256:")
    assert values == {"TOKEN": secret}
    assert secret not in str(dict(stored)) + str(await trail(owner, "rr-staging")) + answer.model_dump_json()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, [("REPLICAS", "required", "nothing")]),
        ({"REPLICAS": 0}, [("REPLICAS", "must be at least 1", "0")]),
        ({"REPLICAS": "many"}, [("REPLICAS", "must be of type integer", '"many"')]),
        ({"REPLICAS": 1, "TOKEN": 7}, [("TOKEN", "must be of type string", "(sensitive)")]),
    ],
)
async def test_an_invalid_input_is_refused_with_field_rule_and_value_and_nothing_is_created(
    service: InvocationService,
    dsn: str,
    owner: asyncpg.Connection,
    given: dict[str, Any],
    told: list[tuple[str, str, str]],
) -> None:
    before = await rows(owner)
    async with playing.operator(dsn):
        with pytest.raises(InputRefused) as refusal:
            await service.invoke(asked(input=given), context=STAGING, caller=LOCAL)

    assert [(each["field"], each["rule"], each["value"]) for each in refusal.value.problems] == told
    assert refusal.value.rpc_code == -32002
    assert await rows(owner) == before


async def test_the_trail_of_a_refusal_holds_no_value_of_the_input(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.operator(dsn):
        with pytest.raises(InputRefused):
            await service.invoke(
                asked(input={"REPLICAS": "s3cr3t-here", "TOKNE": "s3cr3t-too"}), context=STAGING, caller=LOCAL
            )

    kind, payload = (await trail(owner, "rr-staging"))[-1]
    assert kind == "invocation.refused"
    assert payload["arguments"]["input"] == ["REPLICAS", "TOKNE"]
    assert "must be of type integer" in payload["result"]["error"]
    assert "s3cr3t" not in str(payload)


async def test_a_misspelt_secret_is_not_echoed(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn):
        with pytest.raises(InputRefused) as refusal:
            await service.invoke(asked(input={"REPLICAS": 1, "TOKNE": "s3cr3t"}), context=STAGING, caller=LOCAL)

    assert "TOKNE" in str(refusal.value)
    assert "s3cr3t" not in str(refusal.value) + str(refusal.value.problems)


@pytest.mark.parametrize(
    ("workflow_id", "why"), [("only-words", "declares no parameters"), ("on-ansible", "engine is ansible")]
)
async def test_what_cannot_be_run_says_why(service: InvocationService, dsn: str, workflow_id: str, why: str) -> None:
    async with playing.operator(dsn):
        with pytest.raises(NotInvocable, match=why):
            await service.invoke(asked(workflow_id), context=STAGING, caller=LOCAL)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("settings", "context", "why"),
    [
        (Settings(), ContextReference(remediation_id="rr-system"), "kube-system, which belongs to Kubernetes"),
        (Settings(runs_namespace="kube-runs"), NOWHERE, "kube-runs, which belongs to Kubernetes"),
        (Settings(release_namespace=TARGET), STAGING, f"{TARGET}, which is that of Formulary itself"),
    ],
    ids=["target", "runs", "release"],
)
async def test_nothing_is_accepted_for_namespaces_of_kubernetes_and_of_the_product_itself(
    parts: CatalogParts,
    dsn: str,
    owner: asyncpg.Connection,
    settings: Settings,
    context: ContextReference,
    why: str,
    dry_run: bool,
) -> None:
    before = await rows(owner)
    service = Services.on(parts, settings=settings).invocations
    async with playing.operator(dsn):
        with pytest.raises(NotInvocable, match=f"nothing is run in namespace {why}"):
            await service.invoke(asked(dry_run=dry_run), context=context, caller=LOCAL)

    assert await rows(owner) == before


async def test_what_the_incident_does_not_allow_is_not_found(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn):
        with pytest.raises(NotFound):
            await service.invoke(asked("only-production"), context=STAGING, caller=LOCAL)


async def test_running_needs_the_right_to_in_the_namespace_of_the_target(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn):
        with pytest.raises(NotAllowed, match=rf"create workflowinvocations\.formulary\.dev in namespace {TARGET}"):
            await service.invoke(asked(), context=STAGING, caller=caller("agent", invoke=["formulary"]))
        answer = await service.invoke(asked(), context=STAGING, caller=caller("agent", invoke=[TARGET]))

    assert answer.state == "completed"


@pytest.mark.parametrize(
    ("ending", "error", "code"), [(playing.BAD, RunFailed, -32003), (playing.LATE, RunTimedOut, -32004)]
)
async def test_a_run_that_ends_badly_is_an_error_that_names_it(
    service: InvocationService, dsn: str, ending: playing.Ending, error: type[RunFailed], code: int
) -> None:
    # A workflow of its own: one that failed twice has to be approved.
    async with playing.operator(dsn, ends=lambda _: ending):
        with pytest.raises(error, match=ending.message) as failure:
            await service.invoke(asked("fragile"), context=STAGING, caller=LOCAL)
        answer = await service.status(failure.value.invocation_id, caller=LOCAL)

    assert failure.value.rpc_code == code
    assert (answer.state, answer.message) == (ending.phase.state, ending.message)


async def test_a_longer_run_is_answered_at_once_and_followed_by_its_id(service: InvocationService, dsn: str) -> None:
    finishing = asyncio.Event()
    async with playing.operator(dsn, ends=lambda _: playing.GOOD if finishing.is_set() else None):
        with taking(at_most=2):
            begun = await service.invoke(asked(timeout_ms=30_001), context=STAGING, caller=LOCAL)
        assert begun.state == "running"
        follower = asyncio.create_task(followed(service, begun))
        finishing.set()
        ended = await asyncio.wait_for(follower, timeout=10)

    assert (ended.state, ended.output) == ("completed", {"healed": True})


async def test_a_call_whose_time_is_up_says_so_and_the_run_goes_on(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn, ends=never):
        with taking(at_least=2.9, at_most=6):
            answer = await service.invoke(asked(timeout_ms=1000), context=STAGING, caller=LOCAL)

    assert answer.state == "running"
    assert any("still running" in note for note in answer.notes)


async def test_waiting_for_a_change_returns_when_there_is_one_or_the_time_is_up(
    service: InvocationService, dsn: str
) -> None:
    async with playing.operator(dsn, ends=never) as runs:
        begun = await service.invoke(asked(timeout_ms=60_000), context=STAGING, caller=LOCAL)
        now = await service.status(begun.invocation_id, caller=LOCAL, wait_seconds=10, after_revision=1)
        assert now.phase == "Running"
        with taking(at_least=0.9, at_most=3):
            same = await service.status(begun.invocation_id, caller=LOCAL, wait_seconds=1, after_revision=now.revision)
        with taking(at_most=1):
            known = await service.status(
                begun.invocation_id, caller=LOCAL, wait_seconds=30, after_revision=now.revision - 1
            )
        waiting = asyncio.create_task(service.status(begun.invocation_id, caller=LOCAL, wait_seconds=30))
        await runs.cancel(begun.invocation_id, message="deleted")
        with taking(at_most=3):
            cancelled = await waiting

    assert same.revision == known.revision == now.revision
    assert (cancelled.state, cancelled.message) == ("cancelled", "deleted")


async def test_so_many_calls_may_wait_and_further_ones_are_answered_at_once(
    service: InvocationService, dsn: str
) -> None:
    async with playing.operator(dsn, ends=never):
        begun = await service.invoke(asked(timeout_ms=60_000), context=STAGING, caller=LOCAL)
        now = await service.status(begun.invocation_id, caller=LOCAL, wait_seconds=10, after_revision=1)
        many = [
            service.status(begun.invocation_id, caller=LOCAL, wait_seconds=2, after_revision=now.revision)
            for _ in range(25)
        ]
        answers = await asyncio.gather(*many)

    assert sum(any("too many calls are waiting" in note for note in answer.notes) for answer in answers) == 5


async def test_progress_is_told_while_a_call_waits(service: InvocationService, dsn: str) -> None:
    told: list[tuple[float, float, str]] = []

    async def progress(waited: float, total: float, message: str) -> None:
        told.append((waited, total, message))

    async with playing.operator(dsn):
        await service.invoke(asked(), context=STAGING, caller=LOCAL, progress=progress)

    assert told[0][1:] == (30.0, "pending")
    assert told[-1][2] in ("running", "completed")
    assert [waited for waited, _, _ in told] == sorted(waited for waited, _, _ in told)


async def test_the_deadline_without_a_timeout_follows_what_the_workflow_says_it_takes(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.operator(dsn):
        quick = await service.invoke(asked(), context=STAGING, caller=LOCAL)
        slow = await service.invoke(asked("slow"), context=STAGING, caller=LOCAL)

    timeouts = await owner.fetch(
        "select id, timeout_seconds from formulary.invocation where id = any ($1)",
        [quick.invocation_id, slow.invocation_id],
    )
    assert dict(map(tuple, timeouts)) == {quick.invocation_id: 30, slow.invocation_id: 600}


async def test_the_same_key_and_request_are_the_same_run_and_another_request_is_refused(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    keyed = asked(idempotency_key="once")
    async with playing.operator(dsn):
        first, again = await asyncio.gather(*(service.invoke(keyed, context=STAGING, caller=LOCAL) for _ in range(2)))
        later = await service.invoke(keyed, context=STAGING, caller=LOCAL)
        with pytest.raises(InvalidInput, match="idempotency_key was used for another request"):
            await service.invoke(asked(idempotency_key="once", input={"REPLICAS": 4}), context=STAGING, caller=LOCAL)
        other = await service.invoke(keyed, context=STAGING, caller=caller("other", invoke=[TARGET]))

    assert first.invocation_id == again.invocation_id == later.invocation_id != other.invocation_id
    assert [any("repeated: true" in note for note in each.notes) for each in (later, other)] == [True, False]
    assert sum(any("repeated: true" in note for note in each.notes) for each in (first, again)) == 1
    assert await owner.fetchval("select count(*) from formulary.invocation where idempotency_key <> ''") == 2


async def test_a_repeat_hears_of_the_run_also_where_nobody_could_run_it_any_more(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    keyed = asked(idempotency_key="executor-gone")
    async with playing.operator(dsn):
        first = await service.invoke(keyed, context=STAGING, caller=LOCAL)
    await owner.execute("update formulary.executor set at = at - interval '5 minutes'")
    silent = await service.invoke(keyed, context=STAGING, caller=LOCAL)
    await owner.execute("delete from formulary.executor")
    gone = await service.invoke(keyed, context=STAGING, caller=LOCAL)
    with pytest.raises(InvalidInput, match="was used for another request"):
        await service.invoke(
            asked(idempotency_key="executor-gone", input={"REPLICAS": 4}), context=STAGING, caller=LOCAL
        )

    assert {silent.invocation_id, gone.invocation_id} == {first.invocation_id}
    assert (silent.state, gone.state) == ("completed", "completed")
    assert "repeated: true" in gone.notes[0]


async def test_an_executor_that_is_silent_is_an_outage_to_retry(
    service: InvocationService, dsn: str, owner: asyncpg.Connection
) -> None:
    async with playing.operator(dsn):
        pass
    await owner.execute("update formulary.executor set at = at - interval '5 minutes'")

    with pytest.raises(Unavailable, match="retry"):
        await service.invoke(asked(), context=STAGING, caller=LOCAL)


async def test_an_engine_that_the_executor_lacks_is_named(service: InvocationService, dsn: str) -> None:
    async with playing.operator(dsn, engines=["job"]):
        with pytest.raises(NoExecutor, match="engine tekton") as refusal:
            await service.invoke(asked("on-tekton"), context=STAGING, caller=LOCAL)

    assert "job" in str(refusal.value)


@pytest.mark.parametrize(
    ("workflow_id", "allowing"),
    [
        ("on-tekton", {"tekton_bundles": True}),
        ("on-pipeline", {"tekton_bundles": True}),
        ("on-argo", {"argo_templates": True}),
    ],
)
async def test_what_others_wrote_for_an_engine_waits_for_an_approval_unless_the_settings_allow_it(
    parts: CatalogParts, dsn: str, workflow_id: str, allowing: dict[str, bool]
) -> None:
    strict = Services.on(parts, settings=Settings()).invocations
    lenient = Services.on(parts, settings=Settings.model_validate(allowing)).invocations
    async with playing.operator(dsn, engines=["tekton", "argo"]):
        waits = await strict.invoke(asked(workflow_id), context=STAGING, caller=LOCAL)
        runs = await lenient.invoke(asked(workflow_id), context=STAGING, caller=LOCAL)

    assert (waits.state, "not" in waits.message and "seen here" in waits.message) == ("awaiting_approval", True)
    assert runs.state == "completed"


async def test_runs_of_others_are_not_found_without_the_right_to_read_them(
    service: InvocationService, dsn: str
) -> None:
    async with playing.operator(dsn):
        answer = await service.invoke(asked(), context=STAGING, caller=caller("agent", invoke=[TARGET]))
    with pytest.raises(NotFound):
        await service.status(answer.invocation_id, caller=caller("other", read=["formulary"]))
    for reader in (caller("agent"), caller("other", read=[TARGET])):
        assert (await service.status(answer.invocation_id, caller=reader)).state == "completed"


@pytest.mark.parametrize("invocation_id", ["", "inv-" + "0" * 20, "inv-'; drop table", "INV-" + "0" * 20])
async def test_an_unknown_run_is_not_found(service: InvocationService, invocation_id: str) -> None:
    with pytest.raises(NotFound):
        await service.status(invocation_id, caller=LOCAL)


async def test_an_engine_that_is_not_installed_is_said_to_be_so(
    service: InvocationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "_GROUP", "formulary.no-engines")
    preparation.engine_builder.cache_clear()
    try:
        with pytest.raises(NoExecutor, match="install"):
            await service.invoke(asked(dry_run=True), context=STAGING, caller=LOCAL)
    finally:
        preparation.engine_builder.cache_clear()
