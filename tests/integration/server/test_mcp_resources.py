"""Workflows as MCP resources (DESIGN section 7)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp_types import ErrorData, TextResourceContents

from formulary_catalog.domain.workflows.skill import GUIDE
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import ERAS, agent, answer_of, protocol_error
from support.manifest import analysis, text, workflow
from support.serving import catalog, serving


@pytest.fixture(scope="module")
async def url(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """A server of one workflow for everybody, one for a team, and an incident of another team."""
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    theirs = workflow("theirs", customLabels={"team": "payments"})
    long = workflow("long", steps=[{"name": "wait", "command": "kubectl " + "x" * 9000}] * 5)
    incident = analysis("buying", remediation_id="rr-1", labels={"team": ["checkout"]})
    own.write_text(text(workflow("ours"), theirs, long, incident))
    async with catalog([own], postgres=postgres, embedder=embedder) as parts, serving(parts) as at:
        yield at


async def read(url: str, uri: str, *, mode: str = "auto", headers: dict[str, str] | None = None) -> dict[str, object]:
    async with agent(url, mode=mode, headers=headers) as client:
        (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert (contents.uri, contents.mime_type) == (uri, "application/json")
    content: dict[str, object] = json.loads(contents.text)
    return content


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("uri", ["workflow://formulary/ours", "workflow://formulary/ours@1.0.0", "workflow://ours"])
async def test_a_resource_is_what_the_details_tool_answers(url: str, mode: str, uri: str) -> None:
    async with agent(url, mode=mode) as client:
        details = answer_of(await client.call_tool("get_workflow_details", {"workflow_id": "ours"}))

    assert await read(url, uri, mode=mode) == details


async def test_a_resource_is_whole_where_the_tool_has_to_cut(url: str) -> None:
    async with agent(url) as client:
        details = answer_of(await client.call_tool("get_workflow_details", {"workflow_id": "long"}))

    whole = await read(url, str(details["uri"]))

    assert "steps[4].command" in details["notes"][-1]
    assert len(json.dumps(whole)) > 45_000


@pytest.mark.parametrize(
    "uri",
    [
        "workflow://formulary/nothing",
        "workflow://formulary/ours@9.9.9",
        "workflow://nobodys",
        "workflow://formulary/../ours",
        "workflow://formulary/ours%00",
        "file:///etc/passwd",
        "workflow://formulary/'; drop table x; --",
    ],
)
@pytest.mark.parametrize("mode", ERAS)
async def test_a_resource_that_is_not_there_is_the_protocols_not_found(url: str, mode: str, uri: str) -> None:
    error = await protocol_error(url, lambda client: client.read_resource(uri), mode=mode)

    assert error.code == -32602
    assert error.data["uri"] == uri
    assert error.data["retry"] is False
    assert "workflow_id" in error.data or not uri.startswith("workflow://")


async def test_a_resource_is_under_the_constraints_of_the_incident(url: str) -> None:
    uri = "workflow://formulary/theirs"

    async def refused_with(remediation_id: str) -> ErrorData:
        headers = {"X-Remediation-Id": remediation_id}
        return await protocol_error(url, lambda client: client.read_resource(uri), headers=headers)

    assert await read(url, uri)
    assert "not found" in (await refused_with("rr-1")).message
    assert (await refused_with("rr-nobody")).code == -32002


async def test_the_templates_say_how_to_address_a_workflow_and_a_version(url: str) -> None:
    async with agent(url) as client:
        templates = (await client.list_resource_templates()).resource_templates

    assert [template.uri_template for template in templates] == [
        "workflow://{namespace}/{name}",
        "workflow://{namespace}/{name}@{version}",
        "workflow://{namespace}/{name}#{section}",
    ]
    assert {template.mime_type for template in templates} == {"application/json"}


async def test_a_section_is_read_by_itself(url: str) -> None:
    section = await read(url, "workflow://formulary/ours#when_to_use")

    assert section["uri"] == "workflow://formulary/ours@1.0.0#when_to_use"
    assert section["text"]
    error = await protocol_error(url, lambda client: client.read_resource("workflow://formulary/ours#when"))
    assert "when_to_use" in error.message


async def test_the_list_holds_what_the_incident_allows_in_pages(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path: Path
) -> None:
    names = [f"w{number:03d}" for number in range(60)]
    theirs = workflow("theirs", customLabels={"team": "payments"})
    incident = analysis("buying", remediation_id="rr-1", labels={"team": ["checkout"]})
    (tmp_path / "many.yaml").write_text(text(*map(workflow, names), theirs, incident))
    listed: list[str] = []
    async with (
        catalog([tmp_path], postgres=postgres, embedder=embedder) as parts,
        serving(parts) as at,
        agent(at, headers={"X-Remediation-Id": "rr-1"}) as client,
    ):
        page = await client.list_resources()
        first = len(page.resources)
        listed += [resource.uri for resource in page.resources]
        while page.next_cursor:
            page = await client.list_resources(cursor=page.next_cursor)
            listed += [resource.uri for resource in page.resources]

    assert first < len(listed)
    assert listed == [GUIDE.uri, *(f"workflow://formulary/{name}" for name in names)]


async def test_a_cursor_that_is_none_of_ours_is_refused(url: str) -> None:
    error = await protocol_error(url, lambda client: client.list_resources(cursor="nonsense"))

    assert error.code == -32602
    assert "cursor" in error.message
