"""Who asks for a run, who approves it, and what of that can be changed: as the API server tells the webhook."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.workflows.authors import AdmissionRecords
from formulary_operator.admission.certificates import ServingCertificate
from formulary_operator.admission.validator import Validator
from formulary_operator.admission.webhook import application
from formulary_operator.serving import served
from support.admission import TOKEN, Place, configured, judging
from support.cluster import OperatorAccount, fetch
from support.connection_limits import connection_limits
from support.manifest import approval, contract, invocation

JANE = "system:serviceaccount:people:jane"
EVERYTHING = {"apiGroups": ["formulary.dev"], "resources": ["*"], "verbs": ["*"]}


@pytest.fixture
def jane(place: Place) -> Path:
    """The kubeconfig of somebody who may write all that is ours in the namespace of this test."""
    token = place.plane.service_account("people", "jane", audiences=[])
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "jane"}}
    place.plane.apply(
        {**rbac, "kind": "Role", "rules": [EVERYTHING]},
        {
            **rbac,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jane"},
            "subjects": [{"kind": "ServiceAccount", "name": "jane", "namespace": "people"}],
        },
        namespace=place.namespace,
    )
    return place.plane.kubeconfig_for(token)


@pytest.fixture
def records(writing: Database) -> AdmissionRecords:
    return AdmissionRecords(writing)


async def _recorded(database: str) -> list[tuple[Any, ...]]:
    columns = "resource, namespace, name, username"
    return await asyncio.to_thread(fetch, database, f"select {columns} from formulary.admission_record")


def _uid(place: Place, kind: str, name: str) -> str:
    return str(place.plane.get(kind, name, f"--namespace={place.namespace}")["metadata"]["uid"])


@pytest.mark.smoke
@pytest.mark.parametrize(("make", "kind"), [(invocation, "wfi"), (approval, "iappr")], ids=["run", "approval"])
async def test_who_creates_a_run_or_an_approval_is_recorded_under_the_uid_of_the_object(
    place: Place,
    judge: Validator,
    records: AdmissionRecords,
    jane: Path,
    make: Callable[[str], dict[str, Any]],
    kind: str,
) -> None:
    async with judging(place, judge):
        await place.apply(make("applied"), user=jane)
        await place.apply(make("on-the-server"), "--server-side", user=jane)
        await place.kubectl("create", "--filename=-", document=make("created"), user=jane)
        await place.apply(make("by-admin"))
    for name in ("applied", "on-the-server", "created"):
        assert await records.username(_uid(place, kind, name)) == JANE
    assert await records.username(_uid(place, kind, "by-admin")) == "admin"


async def test_a_uid_in_the_manifest_and_a_user_in_the_spec_say_nothing(
    place: Place, judge: Validator, records: AdmissionRecords, jane: Path
) -> None:
    wanted = "00000000-0000-0000-0000-000000000001"
    document = approval("forged")
    document["metadata"]["uid"] = wanted
    async with judging(place, judge):
        await place.kubectl("create", "--filename=-", document=document, user=jane)
    assert await records.username(_uid(place, "iappr", "forged")) == JANE
    assert await records.username(wanted) == ""


async def test_a_rehearsal_a_change_and_what_is_no_record_leave_none(
    place: Place, judge: Validator, jane: Path, database: str
) -> None:
    async with judging(place, judge):
        assert "dry run" in await place.apply(invocation("one"), "--dry-run=server", user=jane)
        await place.apply(contract("rules"), user=jane)
        assert await _recorded(database) == []
        await place.apply(invocation("one"), user=jane)
        await place.kubectl("label", "wfi", "one", "team=shop", user=jane)
        await place.apply(invocation("one"), user=jane)
        assert await _recorded(database) == [("workflowinvocations", place.namespace, "one", JANE)]


async def test_only_the_operator_asks_for_runs_in_the_name_of_others(
    place: Place, judge: Validator, records: AdmissionRecords, jane: Path, operator_account: OperatorAccount
) -> None:
    async with judging(place, judge):
        denial = await place.denial(invocation("one", requester="bob"), user=jane)
        assert (
            '"governance.formulary.dev" denied the request: spec.requester: must be absent or your own name' in denial
        )
        await place.apply(invocation("hers", requester=JANE), user=jane)
        his = invocation("his", requester="bob")
        await place.kubectl("create", "--filename=-", document=his, user=operator_account.kubeconfig)
    assert await records.username(_uid(place, "wfi", "his")) == operator_account.user


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (invocation("one"), invocation("one", dryRun=True)),
        (approval("one"), approval("one", decision="Reject")),
    ],
    ids=["run", "approval"],
)
async def test_what_was_asked_and_answered_cannot_be_changed(
    place: Place, judge: Validator, jane: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    async with judging(place, judge):
        await place.apply(before, user=jane)
        denial = await place.denial(after, user=jane)
        assert f"spec of a {before['kind']} cannot be changed" in denial
        assert "unchanged" in await place.apply(before, user=jane)
        await place.kubectl("delete", before["kind"].lower(), "one", user=jane)
        assert "created" in await place.apply(after, user=jane)


@pytest.mark.smoke
async def test_a_contract_that_means_nothing_is_denied_with_its_field(
    place: Place, judge: Validator, jane: Path
) -> None:
    async with judging(place, judge):
        denial = await place.denial(contract("rules", match={"during": {"timeZone": "Europe/Nowhere"}}), user=jane)
        assert "rules.0.match.during.timeZone: must be a time zone of the IANA database" in denial
        await place.apply(contract("rules", match={"namespaces": ["shop"]}), user=jane)
        denial = await place.denial(contract("rules", match={"namespace": ["shop"]}), "--validate=false", user=jane)
        assert "rules.0.match.namespace: is unknown" in denial
        assert "configured" in await place.apply(contract("rules", match={}), user=jane)


async def test_while_the_webhook_is_down_nobody_is_locked_out_and_nobody_is_recorded(
    place: Place, judge: Validator, jane: Path, database: str
) -> None:
    certificate = ServingCertificate(place.source())
    async with AsyncExitStack() as stack:
        app = application(judge, token=TOKEN)
        webhook = served(app, host="localhost", port=0, limits=connection_limits(), tls=certificate.context)
        async with webhook as port:
            await stack.enter_async_context(configured(place, port=port))
            await certificate.load()
            await place.until_judged()
            await place.apply(invocation("before"), user=jane)
        for document in (invocation("one"), approval("one"), contract("rules")):
            assert "created" in await place.apply(document, user=jane)
        await place.kubectl("label", "wfi", "before", "team=shop", user=jane)
        await place.kubectl("delete", "wfi", "before", user=jane)
    assert await _recorded(database) == [("workflowinvocations", place.namespace, "before", JANE)]
