"""Skills over MCP keep the rules of SEP-2640, under the constraints of the incident."""

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest
import yaml
from mcp_types import TextResourceContents

from formulary_catalog.domain.audit.chain import StoredEvent
from formulary_catalog.domain.workflows.skill import GUIDE
from formulary_catalog.embedding import Embedder
from formulary_catalog.settings import ContextPolicy
from formulary_catalog.store.audit.one_trace import events_of, name_trace
from formulary_catalog.store.database.connection import Connection
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import ERAS, agent, protocol_error
from support.manifest import analysis, text, workflow
from support.serving import catalog, serving
from support.wire import Wire

INCIDENT = {"X-Remediation-Id": "rr-1"}


def manifests() -> str:
    """Two answers to a signal, one of them for another team, and an incident with that signal."""
    incident = analysis("buying", remediation_id="rr-1", labels={"team": ["checkout"]})
    signal = incident["spec"]["analysisRequest"]["signalContext"]
    signal |= {"signalName": "OOMKilled", "severity": "critical"}
    elsewhere = workflow("elsewhere")
    elsewhere["spec"]["labels"]["environment"] = ["staging"]
    theirs = workflow("theirs", customLabels={"team": "payments"})
    return text(workflow("ours"), theirs, workflow("web.dotted"), elsewhere, incident)


@pytest.fixture(scope="module")
async def url(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(manifests())
    async with catalog([own], postgres=postgres, embedder=embedder) as parts, serving(parts) as at:
        yield at


async def asked(url: str, method: str, *, headers: Mapping[str, str] | None = None, **params: str) -> dict[str, Any]:
    async with Wire(url) as wire:
        reply: dict[str, Any] = (await wire.rpc(method, params, headers=headers)).json()
    return reply


async def skills(url: str, *, headers: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await asked(url, "skills/list", headers=headers))["result"]["skills"]
    return listed


async def read(url: str, uri: str, *, headers: Mapping[str, str] | None = None) -> str:
    async with agent(url, headers=headers) as client:
        (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert (contents.uri, contents.mime_type) == (uri, "text/markdown")
    return contents.text


async def test_the_extension_is_advertised_with_the_resources_that_it_needs(url: str) -> None:
    async with agent(url) as client:
        capabilities = client.server_capabilities

    assert capabilities is not None
    assert capabilities.resources is not None
    assert capabilities.extensions == {"io.modelcontextprotocol/skills": {}}


async def test_a_listing_holds_the_guide_and_what_the_incident_allows_and_asks_for(url: str) -> None:
    names = [skill["frontmatter"]["name"] for skill in await skills(url, headers=INCIDENT)]

    assert names[0] == GUIDE.name
    assert set(names[1:]) == {"ours", "web-dotted"}
    assert [skill["frontmatter"]["name"] for skill in await skills(url)] == [GUIDE.name]


async def test_every_listed_file_has_the_bytes_that_its_entry_says(url: str) -> None:
    for skill in await skills(url, headers=INCIDENT):
        (file,) = skill["resources"]
        content = await read(url, file["uri"], headers=INCIDENT)

        assert file["uri"] == skill["uri"]
        assert file["size"] == len(content.encode())
        assert file["digest"] == f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
        assert yaml.safe_load(content.split("\n---\n")[0].removeprefix("---\n")) == skill["frontmatter"]
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", file["digest"])
        assert skill["uri"].endswith(f"/{skill['frontmatter']['name']}/SKILL.md")
        assert {"name", "description"} <= set(skill["frontmatter"])
        metadata = skill["frontmatter"].get("metadata", {})
        assert not [key for key in metadata if key.startswith("io.modelcontextprotocol/")], "reserved"


async def test_a_listing_reads_all_skills_at_once(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """However many skills there are: each event of the trail is one read."""
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(manifests())
    async with catalog([own], postgres=postgres, embedder=embedder) as parts, serving(parts) as at:
        assert len(await skills(at, headers=INCIDENT)) == 3
        events = await parts.database.read(_events)
    assert [event.kind for event in events] == ["search", "read.skills"]


async def _events(connection: Connection) -> list[StoredEvent]:
    await name_trace(connection, "rr-1")
    return await events_of(connection, "rr-1")


async def test_an_entry_is_the_same_in_the_listing_and_by_itself(url: str) -> None:
    for skill in await skills(url, headers=INCIDENT):
        answer = (await asked(url, "skills/get", headers=INCIDENT, uri=skill["uri"]))["result"]
        assert answer["skill"] == skill


async def test_what_depends_on_caller_and_incident_is_cached_for_them_alone(url: str) -> None:
    listing = (await asked(url, "skills/list", headers=INCIDENT))["result"]
    one = (await asked(url, "skills/get", uri=GUIDE.uri))["result"]

    for result in (listing, one):
        assert (result["cacheScope"], result["resultType"], result["ttlMs"] > 0) == ("private", "complete", True)


async def test_a_skill_that_is_not_listed_can_be_read_by_its_address(url: str) -> None:
    uri = "skill://workflows/formulary/elsewhere/SKILL.md"

    assert (await asked(url, "skills/get", uri=uri))["result"]["skill"]["uri"] == uri
    assert "elsewhere" in await read(url, uri)


@pytest.mark.parametrize(
    "uri",
    [
        "skill://workflows/formulary/theirs/SKILL.md",
        "skill://workflows/formulary/elsewhere/SKILL.md",
        "skill://workflows/formulary/nothing/SKILL.md",
        "skill://workflows/formulary/web.dotted/SKILL.md",
        "skill://workflows/formulary/ours/other/SKILL.md",
        "skill://workflows/formulary/ours",
        "skill://workflows/formulary/ours/scripts/run.sh",
        "skill://workflows/formulary/..%2Fours/ours/SKILL.md",
        "skill://formulary/nothing/SKILL.md",
        "skill://",
        "",
        "workflow://formulary/ours",
        "x" * 4001,
    ],
)
async def test_a_skill_that_is_unknown_or_excluded_is_one_and_the_same_error(url: str, uri: str) -> None:
    error = (await asked(url, "skills/get", headers=INCIDENT, uri=uri))["error"]

    assert error["code"] == -32602
    assert error["data"]["retry"] is False
    assert "payments" not in str(error)
    assert "checkout" not in str(error)


async def test_an_incident_that_is_unknown_lists_nothing(url: str) -> None:
    error = (await asked(url, "skills/list", headers={"X-Remediation-Id": "rr-nobody"}))["error"]

    assert "not known" in error["message"]


async def test_where_an_incident_is_required_a_listing_without_one_is_the_guide(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(manifests())
    strict = catalog([own], postgres=postgres, embedder=embedder, policy=ContextPolicy.REQUIRED)
    async with strict as parts, serving(parts) as at:
        assert [skill["uri"] for skill in await skills(at)] == [GUIDE.uri]
        assert len(await skills(at, headers=INCIDENT)) == 3


async def test_an_earlier_revision_lists_skills_too(url: str) -> None:
    async with httpx2.AsyncClient(headers={"Accept": "application/json, text/event-stream"}) as http:
        reply = await http.post(
            f"{url}/mcp",
            headers={"MCP-Protocol-Version": "2025-11-25"},
            json={"jsonrpc": "2.0", "id": 1, "method": "skills/list"},
        )

    result = reply.json()["result"]
    assert [skill["uri"] for skill in result["skills"]] == [GUIDE.uri]
    assert set(result) == {"skills"}, "what a client may cache is of the revision 2026-07-28"


@pytest.mark.parametrize("file", ["theirs/SKILL.md", "ours/scripts/run.sh"])
async def test_a_file_that_no_skill_has_is_not_found_as_any_resource(url: str, file: str) -> None:
    uri = f"skill://workflows/formulary/{file}"
    error = await protocol_error(url, lambda client: client.read_resource(uri), headers=INCIDENT)
    assert error.code == -32602


async def test_the_guide_is_listed_among_the_resources_as_its_frontmatter_says(url: str) -> None:
    async with agent(url) as client:
        (guide,) = [each for each in (await client.list_resources()).resources if each.uri.startswith("skill://")]
    assert (guide.uri, guide.name, guide.mime_type) == (GUIDE.uri, GUIDE.name, "text/markdown")
    assert guide.description == GUIDE.frontmatter["description"]


async def test_directories_are_not_declared_and_not_read(url: str) -> None:
    reply = await asked(url, "resources/directory/read", uri="skill://workflows/formulary/ours")
    assert reply["error"]["code"] == -32601


async def test_a_cursor_that_nobody_gave_out_is_refused(url: str) -> None:
    listing = (await asked(url, "skills/list", headers=INCIDENT))["result"]
    assert "nextCursor" not in listing
    error = (await asked(url, "skills/list", headers=INCIDENT, cursor="abc"))["error"]
    assert (error["code"], "without one" in error["message"]) == (-32602, True)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_prompt_teaches_the_tools_in_their_order(url: str, mode: str) -> None:
    async with agent(url, mode=mode) as client:
        (listed,) = (await client.list_prompts()).prompts
        (message,) = (await client.get_prompt("remediate", {"incident": "OOMKilled in shop/checkout"})).messages

    taught = str(message.content)
    order = ["search_workflow_catalog", "get_workflow_details", "record_workflow_selection", "governance_gate"]
    order += ["invoke_workflow", "get_invocation_status"]
    assert listed.name == "remediate"
    assert sorted(order, key=taught.index) == order
    assert "OOMKilled in shop/checkout" in taught
    assert "`governance_gate` if it is listed" in taught


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("remedy", {}, "'remediate'"),
        ("remediate", {"incidnet": "x"}, "did you mean 'incident'?"),
        ("remediate", {"incident": "x" * 4001}, "4001 characters"),
    ],
)
async def test_a_wrong_prompt_is_refused_with_the_way_out(
    url: str, name: str, arguments: dict[str, str], said: str
) -> None:
    async with Wire(url) as wire:
        reply = (await wire.rpc("prompts/get", {"name": name, "arguments": arguments})).json()

    assert reply["error"]["code"] == -32602
    assert said in reply["error"]["message"]
