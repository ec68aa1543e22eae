"""An attacker creates a second AIAnalysis with the id of an incident, so that a run heals what the attacker chose."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.errors import ContextError
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.settings import Settings
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import playing
from support.cluster import OperatorAccount, fetch
from support.cluster_runs import ask, await_phase, created_jobs, incident, remedy, running_operator
from support.control_plane import Cluster, ControlPlane
from support.filling import entry
from support.operator_process import Daemon
from support.runnable import runnable
from support.waiting import wait_until

AGENT = Caller(name="agent", access=EVERYTHING)
REFERENCE = ContextReference(remediation_id="rr-1")
ORIGINAL = RequestContext(
    namespace="shop",
    name="b-original",
    remediation_id="rr-1",
    environment="staging",
    target_api_version="apps/v1",
    target_kind="Deployment",
    target_name="checkout",
    target_namespace="shop",
    custom_labels={"team": ("shop",)},
)
COPIES = {
    "another target": replace(ORIGINAL, name="a-copy", target_name="payments"),
    "another kind": replace(ORIGINAL, name="a-copy", target_kind="StatefulSet"),
    "another API version": replace(ORIGINAL, name="a-copy", target_api_version="evil/v1"),
    "another namespace of the target": replace(ORIGINAL, name="a-copy", target_namespace="bank"),
    "other labels": replace(ORIGINAL, name="a-copy", custom_labels={"team": ("bank",)}),
    "another environment": replace(ORIGINAL, name="a-copy", environment="dev"),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.smoke
async def test_neither_a_run_nor_a_search_takes_one_of_two_incidents_with_one_id(
    how: str,
    workflows: CatalogWriter,
    contexts: ContextWriter,
    service: CatalogService,
    parts: CatalogParts,
    database: str,
) -> None:
    await workflows.apply(entry(runnable("restart")))
    await contexts.save(ORIGINAL)
    await contexts.save(COPIES[how])
    invocations = Services.on(parts, settings=Settings()).invocations
    asked = InvocationRequest(workflow_id="restart", input={"REPLICAS": 2})
    async with playing.operator(database) as runs:
        with pytest.raises(ContextError, match="different targets"):
            await invocations.invoke(asked, context=REFERENCE, caller=AGENT)
        assert await runs.active() == []
    with pytest.raises(ContextError, match="different targets"):
        await service.search(search_request(query="restart", context=REFERENCE), caller=AGENT)


async def test_two_analyses_of_the_same_incident_are_one(
    workflows: CatalogWriter, contexts: ContextWriter, parts: CatalogParts, database: str
) -> None:
    await workflows.apply(entry(runnable("restart")))
    for context in (ORIGINAL, replace(ORIGINAL, name="a-second-try")):
        await contexts.save(context)
    invocations = Services.on(parts, settings=Settings()).invocations
    asked = InvocationRequest(workflow_id="restart", input={"REPLICAS": 2})
    async with playing.operator(database):
        assert (await invocations.invoke(asked, context=REFERENCE, caller=AGENT)).state == "completed"


@pytest.fixture(scope="module")
def running(cluster: Cluster, dsn: str, shared_namespace: str, operator_account: OperatorAccount) -> Iterator[Daemon]:
    with running_operator(cluster, remedy(), dsn=dsn, namespace=shared_namespace, account=operator_account) as daemon:
        yield daemon


def test_an_object_that_names_an_ambiguous_incident_becomes_no_run(
    control_plane: ControlPlane, shared_namespace: str, running: Daemon, dsn: str
) -> None:
    cluster, ns = control_plane, shared_namespace
    copied = incident("original", namespace=ns)
    copied["metadata"]["name"] = "a-copy"
    copied["spec"]["analysisRequest"]["signalContext"]["targetResource"]["name"] = "payments"
    cluster.apply(copied, namespace=ns)
    known = "select from formulary.request_context where name = 'a-copy' and namespace = $1"
    wait_until(lambda: fetch(dsn, known, ns), what="the copy to be known")
    ask(cluster, "original", namespace=ns, environment="production")
    told = await_phase(cluster, "original", "Failed", namespace=ns)
    assert told["reason"] == "InputInvalid"
    assert "differ in target or constraints" in told["message"]
    assert created_jobs(control_plane.requests(), namespace=ns) == []
