"""Constraints from labels of what is broken, for agents that name it and for runs that follow (DESIGN section 6)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx2
import pytest

from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.search.request import ContextReference
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.reference import TargetKind, TargetReference, known_kind, parse_target
from formulary_catalog.domain.targets.surroundings import Surroundings
from formulary_catalog.errors import NoExecutor, NotAllowed, NotInvocable, TargetMissing
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.kernel.targets import TargetContexts
from formulary_catalog.loading.targets import ManifestTargets
from formulary_catalog.operations.services import Services
from formulary_catalog.services.audit.incidents import TargetReading
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.settings import ContextPolicy, Settings
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.access import Rights
from support.agent import agent, answer_of, call, refused
from support.commands import formulary
from support.databases import migrated_database
from support.invoking import taking
from support.manifest import analysis, text
from support.runnable import EVERYWHERE, runnable
from support.services import open_parts
from support.serving import load, serving
from support.targets import surroundings
from support.trail import recorded

SEARCH, DETAILS, INVOKE, SELECT = (
    "search_workflow_catalog",
    "get_workflow_details",
    "invoke_workflow",
    "record_workflow_selection",
)
NAMESPACE = {"name": "NAMESPACE", "type": "string", "required": True, "description": "Where."}
WORKLOAD = {"name": "WORKLOAD", "type": "string", "required": True, "description": "Which."}
NODE = {"name": "NODE", "type": "string", "required": False, "description": "Which."}
FURTHER = {"name": "METRICS_DEPLOYMENT", "type": "string", "required": False, "description": "Which."}
TARGETS = {"name": "TARGETS", "type": "array", "required": False, "description": "Which."}
HIDDEN = {"name": "HIDDEN", "type": "array", "required": False, "description": "Which.", "sensitive": True}
SECRET = "v4ult-team"


def _object(kind: str, name: str, *, api_version: str = "v1", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def _documents() -> list[dict[str, Any]]:
    environment = {"environment": "production"}
    quiet = {**environment, "constraint.formulary.dev/restarts": "no", "constraint.formulary.dev/vault": SECRET}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    incidents = [
        analysis(each, remediation_id=f"rr-{name}", labels=labels)
        for each, name, labels in (("web", "web", {}), ("hush", "quiet", {}), ("calm", "calm", {"restarts": ["no"]}))
    ]
    for incident, namespace in zip(incidents, ("loud", "quiet", "loud"), strict=True):
        about = {"kind": "Deployment", "name": "web", "namespace": namespace}
        incident["spec"]["analysisRequest"]["signalContext"]["targetResource"] = about
    parameters = [NAMESPACE, WORKLOAD, NODE, FURTHER, TARGETS, HIDDEN]
    return [
        runnable("oom-restart", customLabels={"restarts": "yes"}, parameters=parameters),
        runnable("oom-raise", customLabels={"restarts": "no"}, parameters=parameters),
        runnable("oom-silent", parameters=parameters),
        runnable("oom-by-hand", detectedLabels={"gitOpsManaged": "false"}, labels=EVERYWHERE, parameters=parameters),
        _object("Namespace", "quiet", labels=quiet),
        _object("Namespace", "loud", labels=environment),
        _object("Namespace", "bare"),
        _object("Deployment", "web", api_version="apps/v1", namespace="quiet"),
        _object(
            "Deployment",
            "web",
            api_version="apps/v1",
            namespace="loud",
            annotations={"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:loud/web"},
        ),
        _object("Deployment", "own", api_version="apps/v1", namespace="loud"),
        _object(
            "Deployment",
            "ledger",
            api_version="apps/v1",
            namespace="loud",
            labels={"constraint.formulary.dev/restarts": "no"},
        ),
        _object("Pod", "web-1", namespace="loud", ownerReferences=[owner]),
        _object("Deployment", "web", api_version="apps/v1", namespace="bare"),
        *incidents,
    ]


@pytest.fixture(scope="module")
async def dsn(postgres: EmbeddedPostgres) -> AsyncIterator[str]:
    async with migrated_database(postgres) as created:
        yield created


@pytest.fixture(scope="module")
async def parts(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CatalogParts]:
    directory = tmp_path_factory.mktemp("manifests")
    (directory / "all.yaml").write_text(text(*_documents()), encoding="utf-8")
    targets = ManifestTargets(default_namespace="formulary")
    await load([directory], dsn=dsn, embedder=None, targets=targets)
    async with open_parts(dsn, policy=ContextPolicy.REQUIRED, targets=targets) as opened:
        yield opened


@pytest.fixture(scope="module")
async def url(parts: CatalogParts) -> AsyncIterator[str]:
    async with serving(parts, request_context="required") as address:
        yield address


def _about(target: str) -> dict[str, str]:
    namespace, kind, name = target.split("/")
    return {"target_namespace": namespace, "target_kind": kind, "target_name": name}


async def _search(url: str, target: str, **arguments: Any) -> dict[str, Any]:
    given = {"query": "oom restart raise", "top_k": 10, **_about(target), **arguments}
    return answer_of(await call(url, SEARCH, given))


def _names(answer: dict[str, Any]) -> set[str]:
    return {hit["workflow_id"] for hit in answer["workflows"]}


async def test_people_read_on_the_page_health_which_labels_are_constraints(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        page = (await http.get("/console/health")).text

    assert "formulary.dev/environment, environment, env</code></td><td>required" in page
    assert "custom label KEY</th><td><code>constraint.formulary.dev/KEY" in page


async def test_what_a_namespace_forbids_is_offered_to_nobody_who_names_something_in_it(url: str) -> None:
    quiet, loud = await _search(url, "quiet/Deployment/web"), await _search(url, "loud/deployment/own")

    assert _names(quiet) == {"oom-raise"}
    assert _names(loud) == {"oom-raise", "oom-restart", "oom-silent", "oom-by-hand"}
    assert SECRET not in str(quiet)


async def test_what_argo_manages_is_not_changed_by_hand(url: str) -> None:
    assert "oom-by-hand" not in _names(await _search(url, "loud/Deployment/web"))
    assert "oom-by-hand" not in _names(await _search(url, "loud/Pod/web-1"))


async def test_the_forbidden_workflow_is_not_found_by_name_either(url: str) -> None:
    async with agent(url) as client:
        forbidden = await client.call_tool(DETAILS, {"workflow_id": "oom-restart", **_about("quiet/Deployment/web")})
        allowed = await client.call_tool(DETAILS, {"workflow_id": "oom-restart", **_about("loud/Deployment/own")})

    assert "not found" in refused(forbidden)
    assert answer_of(allowed)["workflow_id"] == "oom-restart"


async def test_the_details_of_a_hit_are_read_with_the_target_of_its_search(url: str) -> None:
    quiet, loud = await _search(url, "quiet/Deployment/web"), await _search(url, "loud/Deployment/own")

    wanted = {"workflow_id": "oom-restart", "search_id": loud["search_id"]}
    found = answer_of(await call(url, DETAILS, wanted))
    forbidden = refused(await call(url, DETAILS, {**wanted, "search_id": quiet["search_id"]}))

    assert found["workflow_id"] == "oom-restart"
    assert "not found" in forbidden


@pytest.mark.parametrize("tool", ["list_pending_approvals", "list_tables"])
async def test_an_agent_is_not_told_to_name_a_target_to_a_tool_that_takes_none(url: str, tool: str) -> None:
    async with agent(url, path="/mcp?toolsets=approvals,analytics") as client:
        said = refused(await client.call_tool(tool, {}))
    assert "target" not in said
    assert "X-Remediation-Id" in said
    assert "?incident=ID" in said


async def test_without_a_target_an_agent_is_told_how_to_name_one(url: str) -> None:
    message = refused(await call(url, SEARCH, {"query": "oom"}))

    assert "target_namespace, target_kind and target_name" in message


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("bare/Deployment/web", "kubectl label namespace bare formulary.dev/environment=VALUE"),
        ("quiet/Deployment/gone", "quiet/Deployment/gone does not exist"),
        ("nowhere/Deployment/web", "namespace nowhere does not exist"),
        ("quiet/Rollout/web", "no Rollout is in the manifests"),
    ],
)
async def test_a_target_whose_constraints_are_not_known_gives_nothing_and_says_why(
    url: str, target: str, said: str
) -> None:
    message = refused(await call(url, SEARCH, {"query": "oom", **_about(target)}))

    assert said in message
    assert SECRET not in message


async def test_a_pod_that_is_gone_leaves_the_word_of_its_namespace(url: str) -> None:
    answer = await _search(url, "quiet/Pod/web-gone")

    assert _names(answer) == {"oom-raise"}
    assert any("pod web-gone was not found" in note for note in answer["notes"])


async def test_an_agent_that_lists_or_walks_names_the_target_as_for_a_search(url: str) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list_workflows", {"limit": 1}),
        ("related_workflows", {"entity": "RestartPod"}),
    ]
    unnamed = [refused(await call(url, *each)) for each in asked]
    quiet, loud = [
        [answer_of(await call(url, tool, {**given, **_about(target)})) for tool, given in asked]
        for target in ("quiet/Deployment/web", "loud/Deployment/own")
    ]
    cursor = {"limit": 1, "cursor": loud[0]["next_cursor"], **_about("quiet/Deployment/web")}
    other = refused(await call(url, "list_workflows", cursor))

    assert all("target_namespace, target_kind and target_name" in each for each in unnamed)
    assert (quiet[0]["total"], loud[0]["total"]) == (1, 4)
    assert [each["name"] for each in quiet[1]["related"]] == ["oom-raise"]
    assert len(loud[1]["related"]) == 4
    assert "belongs to another question" in other


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("find_workflow", {"name": "oom-restart"}),
        ("read_workflow_section", {"workflow_id": "oom-restart", "section": "steps"}),
        ("workflow_impact", {"workflow_id": "oom-restart"}),
        ("semantic_search", {"query": "oom-restart", "collection": "workflows"}),
        ("catalog_stats", {}),
        ("list_collections", {}),
    ],
)
async def test_a_tool_on_request_takes_a_target_and_keeps_what_it_forbids_apart(
    url: str, tool: str, given: dict[str, Any]
) -> None:
    unnamed = refused(await call(url, tool, given))
    quiet, loud, again = [
        await call(url, tool, {**given, **_about(target)})
        for target in ("quiet/Deployment/web", "loud/Deployment/own", "loud/Deployment/own")
    ]

    assert "target_namespace, target_kind and target_name" in unnamed
    assert not loud.is_error
    assert str(again.content) == str(loud.content) != str(quiet.content)


async def test_a_half_named_target_is_refused_with_the_missing_argument(url: str) -> None:
    message = refused(await call(url, SEARCH, {"query": "oom", "target_namespace": "quiet", "target_name": "web"}))

    assert "target_kind is missing" in message


async def test_an_incident_and_a_target_must_be_about_the_same(url: str) -> None:
    incident = {"X-Remediation-Id": "rr-web"}
    agreeing = {"query": "oom", **_about("loud/deployment/web")}

    same = answer_of(await call(url, SEARCH, agreeing, headers=incident))
    other = refused(await call(url, SEARCH, {"query": "oom", **_about("quiet/Deployment/web")}, headers=incident))

    assert _names(same)
    assert "not about quiet/Deployment/web" in other


async def test_the_address_of_the_server_may_name_the_incident(url: str) -> None:
    async with agent(url, path="/mcp?incident=rr-web") as client:
        answer = answer_of(await client.call_tool(SEARCH, {"query": "oom"}))
    async with agent(url, path="/mcp?incident=rr-web", headers={"X-Remediation-Id": "rr-other"}) as client:
        torn = refused(await client.call_tool(SEARCH, {"query": "oom"}))
    async with agent(url, path="/mcp?incident=rr-unknown") as client:
        unknown = refused(await client.call_tool(SEARCH, {"query": "oom"}))

    assert _names(answer)
    assert "different remediation ids" in torn
    assert "not known here" in unknown


async def test_rest_takes_the_target_in_one(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        found = await http.post("/api/v1/workflows/search", json={"query": "oom", "target": "quiet/Deployment/web"})
        shown = await http.get("/api/v1/workflows/oom-restart", params={"target": "quiet/Deployment/web"})
        browsed = await http.get("/api/v1/workflows/oom-restart")
        listed = await http.get("/api/v1/workflows", params={"target": "quiet/Deployment/web"})
        why = {"workflow": "oom-restart", "query": "oom", "target": "quiet/Deployment/web"}
        explained = await http.get("/api/v1/explain", params=why)

    assert _names(found.json()) == _names(listed.json()) == {"oom-raise"}
    assert explained.json()["allowed"] is False
    assert explained.json()["excluded_by"]["reason"].startswith("restarts: the labels of the target say no, the")
    assert (shown.status_code, browsed.status_code) == (404, 200)


async def test_an_incident_names_the_standard_keys_that_a_workflow_must_declare(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        calm, loud = [(await http.get(f"/api/v1/incidents/{each}")).json() for each in ("rr-calm", "rr-web")]

    assert (calm["custom_labels"], calm["strict_keys"]) == ({"restarts": ["no"]}, ["restarts"])
    assert loud["strict_keys"] == []


async def test_a_run_is_bound_to_the_target_of_the_search_that_found_its_workflow(url: str) -> None:
    searched = await _search(url, "loud/Deployment/own")
    run = {"workflow_id": "oom-restart", "search_id": searched["search_id"], "dry_run": True}

    follows = answer_of(await call(url, INVOKE, run))
    other = refused(await call(url, INVOKE, {**run, **_about("loud/Deployment/web")}))
    lie = refused(await call(url, INVOKE, {**run, "workflow_id": "oom-raise", **_about("quiet/Deployment/web")}))
    unbound = refused(await call(url, INVOKE, {"workflow_id": "oom-restart", "dry_run": True}))

    assert follows["manifest"]["metadata"]["namespace"] == "loud"
    assert "search_id is not that of a search for loud/Deployment/web" in other
    assert "search_id is not that of a search for quiet/Deployment/web" in lie
    assert "names none" in unbound


async def test_input_that_names_an_object_is_that_of_the_target_and_no_other(url: str) -> None:
    searched = await _search(url, "loud/Deployment/own")
    run = {"workflow_id": "oom-restart", "search_id": searched["search_id"], "dry_run": True}

    filled = answer_of(await call(url, INVOKE, run))
    agreeing = answer_of(await call(url, INVOKE, {**run, "input": {"WORKLOAD": "deploy/own"}}))
    elsewhere = refused(await call(url, INVOKE, {**run, "input": {"NAMESPACE": "quiet"}}))
    neighbour = refused(await call(url, INVOKE, {**run, "input": {"WORKLOAD": "deployment/web"}}))
    node = refused(await call(url, INVOKE, {**run, "input": {"NODE": "worker-1"}}))

    assert {"NAMESPACE": "loud", "WORKLOAD": "deployment/own"}.items() <= _variables(filled).items()
    assert _variables(agreeing)["WORKLOAD"] == "deploy/own"
    for said in (elsewhere, neighbour, node):
        assert "names another object than the target of this call, loud/Deployment/own" in said


async def test_another_object_that_a_run_names_is_held_to_what_its_owners_demand(url: str) -> None:
    searched = await _search(url, "loud/Deployment/own")

    async def run(workflow: str, further: str) -> Any:
        given = {"workflow_id": workflow, "search_id": searched["search_id"], "dry_run": True}
        return await call(url, INVOKE, {**given, "input": {"METRICS_DEPLOYMENT": further}})

    forbidden, by_argo = refused(await run("oom-restart", "ledger")), refused(await run("oom-by-hand", "web"))
    accepted = [answer_of(await run(*each)) for each in (("oom-raise", "ledger"), ("oom-restart", "new"))]

    assert "the labels of loud/Deployment/ledger exclude it" in forbidden
    assert "the labels of loud/Deployment/web exclude it" in by_argo
    assert [_variables(each)["METRICS_DEPLOYMENT"] for each in accepted] == ["ledger", "new"]


async def test_an_incident_allows_no_run_that_the_owners_of_a_namespace_forbid(url: str) -> None:
    """Who may write incidents there has no right to that. What a search offers, the incident alone decides."""
    incident, loud = {"X-Remediation-Id": "rr-quiet"}, {"X-Remediation-Id": "rr-web"}
    offered = answer_of(await call(url, SEARCH, {"query": "oom restart raise", "top_k": 10}, headers=incident))
    values = {"NAMESPACE": "quiet", "WORKLOAD": "deployment/web"}

    async def run(workflow: str, headers: dict[str, str]) -> Any:
        return await call(url, INVOKE, {"workflow_id": workflow, "input": values, "dry_run": True}, headers=headers)

    forbidden, accepted = refused(await run("oom-restart", incident)), answer_of(await run("oom-raise", incident))
    from_elsewhere = refused(await run("oom-restart", loud))

    assert {"oom-raise", "oom-restart"} <= _names(offered)
    for said in (forbidden, from_elsewhere):
        assert "the labels of quiet/Namespace/quiet exclude it" in said
        assert SECRET not in said
    assert accepted["manifest"]["metadata"]["namespace"] == "quiet"


@pytest.mark.parametrize("name", ["TARGETS", "HIDDEN"])
async def test_the_text_of_a_list_names_what_the_list_does(url: str, name: str) -> None:
    searched = await _search(url, "loud/Deployment/own")
    run = {"workflow_id": "oom-restart", "search_id": searched["search_id"], "dry_run": True}

    for listed in (["deployment/ledger"], '["deployment/ledger"]'):
        said = refused(await call(url, INVOKE, {**run, "input": {name: listed}}))
        assert "the labels of loud/Deployment/ledger exclude it" in said


async def test_a_run_for_an_incident_says_nothing_of_a_namespace_that_its_caller_may_not_get(
    parts: CatalogParts,
) -> None:
    service = Services.on(parts, settings=Settings()).invocations
    rights = {"see": {"formulary"}, "use": {"shop"}, "invoke": {"loud"}}
    stranger, neighbour = [Caller(name="agent", access=Rights(**rights, targets=each)) for each in ([], ["quiet"])]

    async def said(namespace: str, *, caller: Caller) -> str:
        values = {"NAMESPACE": namespace, "WORKLOAD": "deployment/web"}
        request = InvocationRequest(workflow_id="oom-restart", input=values, dry_run=True)
        with pytest.raises((NotAllowed, NotInvocable, NoExecutor)) as raised:
            await service.invoke(request, context=ContextReference(remediation_id="rr-web"), caller=caller)
        return str(raised.value)

    known, unknown = [await said(each, caller=stranger) for each in ("quiet", "nowhere")]

    assert "may not get namespaces" in known
    assert known.replace("quiet", "nowhere") == unknown
    assert "the labels of quiet/Namespace/quiet exclude it" in await said("quiet", caller=neighbour)


async def test_further_objects_are_read_together() -> None:
    class _Slow:
        def workloads(self) -> list[TargetReference]:
            return []

        async def kind_of(self, reference: TargetReference) -> TargetKind:
            kind = known_kind(reference.kind)
            assert kind is not None
            return kind

        async def read(self, reference: TargetReference, *, kind: TargetKind) -> Surroundings:
            await asyncio.sleep(0.2)
            if reference.name == "gone":
                raise TargetMissing("gone")
            return surroundings(reference=reference)

    named = [parse_target(f"loud/Deployment/{each}") for each in ("gone", *map(str, range(15)))]
    with taking(at_most=2.0):
        found = await TargetContexts(_Slow(), mapping=DEFAULT_MAPPING).further(named, caller=None)

    assert [each.target_name for each in found] == [str(each) for each in range(15)]


async def test_a_choice_follows_its_search_without_naming_the_target_again(url: str) -> None:
    searched = await _search(url, "loud/Deployment/own")
    chosen = {"workflow_id": "oom-restart", "reasoning": "It fits.", "search_id": searched["search_id"]}

    receipt = answer_of(await call(url, SELECT, chosen))

    assert receipt["supported"]


async def test_a_caller_who_may_not_get_the_target_learns_nothing_of_it(parts: CatalogParts) -> None:
    agent_of_loud = Caller(name="loud-agent", access=Rights(see={"formulary"}, targets={"loud"}))

    await parts.targets.context_of(parse_target("loud/Deployment/own"), caller=agent_of_loud)
    for hidden in ("quiet/Deployment/web", "quiet/Deployment/gone", "nowhere/Deployment/web"):
        with pytest.raises(NotAllowed, match=r"may not get deployments\.apps"):
            await parts.targets.context_of(parse_target(hidden), caller=agent_of_loud)
        with pytest.raises(NotAllowed, match=r"may not get deployments\.apps"):
            await parts.targets.further([parse_target(hidden)], caller=agent_of_loud)


async def test_the_trail_holds_the_target_what_was_mapped_and_a_digest(dsn: str, url: str) -> None:
    searched = await _search(url, "quiet/Deployment/web")

    owner = await asyncpg.connect(dsn)
    try:
        (event,) = [each for each in await recorded(owner) if each["search_id"] == searched["search_id"]]
    finally:
        await owner.close()

    assert event["target"] == "quiet/Deployment/web"
    assert event["constraints"]["incident"] == {"environment": "production"}
    assert event["constraints"]["custom_labels"].startswith("hmac-sha256:")
    assert SECRET not in str(event)


async def test_people_read_which_label_of_which_object_demands_what(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answer = (await http.get("/api/v1/context", params={"target": "quiet/Deployment/web"})).json()
        wrong = await http.get("/api/v1/context", params={"target": "web"})

    (restarts,) = [each for each in answer["demands"] if each["name"] == "restarts"]
    assert restarts == {
        "name": "restarts",
        "value": "no",
        "custom": True,
        "strict": True,
        "object": "Namespace/quiet",
        "label": "constraint.formulary.dev/restarts",
    }
    assert answer["detected_labels"]["gitOpsManaged"] == "false"
    assert wrong.status_code == 400


async def test_what_a_custom_label_says_is_kept_from_who_may_not_read_constraints(parts: CatalogParts) -> None:
    agent_of_quiet = Caller(name="agent", access=Rights(see={"formulary"}, targets={"quiet"}))
    target = parse_target("quiet/Deployment/web")

    answer = await TargetReading(parts, strict_keys=frozenset()).read(target, caller=agent_of_quiet)

    assert [each.name for each in answer.demands] == ["environment"]
    assert SECRET not in answer.model_dump_json()
    assert any("custom labels are not shown" in note for note in answer.notes)


async def test_commands_name_a_target_as_kubectl_does_and_print_what_its_owners_demand(url: str) -> None:
    searched = await formulary("search", "oom", "--target", "quiet/deploy/web", "--json", "--url", url)
    forbidden = await formulary("show", "oom-restart", "--target", "quiet/deploy/web", "--url", url)
    shown = await formulary("context", "quiet/deploy/web", "--url", url)
    run = ["--target", "quiet/deploy/web", "--dry-run", "--json", "--url", url]
    invoked = await formulary("invoke", "oom-raise", *run)
    listed = await formulary("list", "--target", "quiet/deploy/web", "--json", "--url", url)
    explained = await formulary("explain", "oom-restart", "oom", "--target", "quiet/deploy/web", "--url", url)

    assert _names(json.loads(listed.out)) == {"oom-raise"}
    assert (explained.code, "restarts" in explained.out) == (1, True)
    assert _names(json.loads(searched.out)) == {"oom-raise"}
    assert (forbidden.code, forbidden.out) == (1, "")
    assert "oom-restart" in forbidden.err
    assert "no (label constraint.formulary.dev/restarts of Namespace/quiet, strict)" in " ".join(shown.out.split())
    assert _variables(json.loads(invoked.out))["WORKLOAD"] == "deployment/web"


async def test_commands_say_which_target_excludes_a_workflow_and_lists_of_traces_name_it(url: str) -> None:
    excluded = await formulary("invoke", "oom-restart", "--target", "quiet/deploy/web", "--url", url)
    unknown = await formulary("invoke", "oom-restarts", "--target", "quiet/deploy/web", "--url", url)
    await formulary("search", "oom", "--target", "quiet/deploy/web", "--url", url)
    listed = await formulary("trace", "list", "--limit", "1", "--url", url, "--json")

    said = "oom-restart may not be used for quiet/deploy/web; `formulary context quiet/deploy/web` shows"
    assert (excluded.code, said in excluded.err) == (1, True)
    assert "there is no workflow 'oom-restarts'" in unknown.err
    assert "quiet/Deployment/web" in listed.out


def _variables(answer: dict[str, Any]) -> dict[str, str]:
    (container,) = answer["manifest"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}
