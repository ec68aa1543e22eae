"""Bad input to the tools that browse and their endpoints. `test_every_tool_bad_input` has what all tools share."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent, answer_of, refused
from support.manifest import text, workflow
from support.serving import catalog, serving

VALID: dict[str, dict[str, Any]] = {
    "list_workflows": {},
    "related_workflows": {"entity": "ours"},
    "workflow_impact": {"workflow_id": "ours"},
    "read_workflow_section": {"workflow_id": "ours", "section": "steps"},
    "list_pending_approvals": {},
}
"""A call of each tool that is answered."""
INTERNAL = ("internal error", "does not answer", "schema")


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(*(workflow(name) for name in ("ours", "theirs", "zoo"))))
    async with catalog([own], postgres=postgres, embedder=None) as parts, serving(parts) as at:
        yield at


async def refusals(url: str, tool: str, arguments: list[dict[str, Any]]) -> list[str]:
    """What is said to each of these, after which a good call is still answered."""
    async with agent(url) as client:
        said = [refused(await client.call_tool(tool, VALID[tool] | each)) for each in arguments]
        answer_of(await client.call_tool(tool, VALID[tool]))
    assert not any(word in line for line in said for word in INTERNAL), said
    assert all(len(line) < 700 for line in said), said
    return said


@pytest.mark.parametrize("tool", ["related_workflows", "workflow_impact", "read_workflow_section"])
@pytest.mark.parametrize(
    "name", ["our", "a\x07b", "no/such", "wf_ver_00000000000000000000", "ours@9.9.9", "a/b/c", "*"]
)
async def test_an_unknown_name_is_refused_with_the_nearest(url: str, tool: str, name: str) -> None:
    argument = "entity" if tool == "related_workflows" else "workflow_id"
    (said,) = await refusals(url, tool, [{argument: name}])
    if name == "our":
        assert "nearest names: ours" in said
    assert "retry" in said.lower()


@pytest.mark.parametrize(
    ("tool", "given", "saying"),
    [
        ("list_workflows", {"limit": 0}, "limit"),
        ("list_workflows", {"limit": 101}, "limit"),
        ("list_workflows", {"limit": 1.5}, "limit"),
        ("list_workflows", {"limit": "many"}, "limit"),
        ("list_workflows", {"risk_level": "extreme"}, "low, medium, high, unknown"),
        ("list_workflows", {"status": "Gone"}, "Active, Superseded, Disabled, Invalid, Pending"),
        ("list_workflows", {"status": "Disabled"}, "for people who browse"),
        ("list_workflows", {"cursor": "x"}, "no cursor of a listing"),
        ("related_workflows", {"depth": 4}, "depth"),
        ("related_workflows", {"depth": 0}, "depth"),
        ("related_workflows", {"relations": "likes"}, "escalatesTo"),
        ("read_workflow_section", {"section": "everything"}, "when_not_to_use"),
        ("list_pending_approvals", {"limit": -1}, "limit"),
    ],
)
async def test_what_is_out_of_range_is_refused_with_the_range(
    url: str, tool: str, given: dict[str, Any], saying: str
) -> None:
    (said,) = await refusals(url, tool, [given])
    assert saying in said


async def test_a_cursor_of_another_question_or_incident_is_refused(url: str) -> None:
    async with agent(url) as client:
        first = answer_of(await client.call_tool("list_workflows", {"limit": 1, "signal_type": "OOMKilled"}))
        same = answer_of(
            await client.call_tool(
                "list_workflows", {"limit": 1, "signal_type": "oomkilled", "cursor": first["next_cursor"]}
            )
        )
        other = refused(await client.call_tool("list_workflows", {"limit": 1, "cursor": first["next_cursor"]}))
    assert [line["workflow_id"] for line in (*first["workflows"], *same["workflows"])] == ["ours", "theirs"]
    assert "belongs to another question" in other


@pytest.mark.parametrize(
    ("path", "status", "saying"),
    [
        ("/workflows?risk_level=extreme", 400, "risk_level"),
        ("/workflows?limit=2&cursor=x", 400, "cursor"),
        ("/workflows?cursor=x&offset=1", 400, "give one of them"),
        ("/workflows/our/related", 404, "nearest names: ours"),
        ("/workflows/ours/related?depth=9", 400, "depth"),
        ("/workflows/ours/related?relations=likes", 400, "relations"),
        ("/workflows/ours/related?deep=1", 400, "'deep'; did you mean 'depth'?"),
        ("/workflows/our/impact", 404, "nearest names: ours"),
        ("/workflows/ours/sections/everything", 400, "section"),
        ("/names", 400, "name"),
        ("/names?name=%00", 400, "name"),
        ("/names?name=" + "x" * 4001, 400, "name has 4001 characters"),
        ("/stats?limit=1", 400, "'limit'"),
        ("/approvals?limit=0", 400, "limit"),
    ],
)
async def test_rest_refuses_the_same_in_its_own_form(url: str, path: str, status: int, saying: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as http:
        answered = await http.get(f"/api/v1{path}")
    assert answered.status_code == status, answered.text
    assert saying in answered.json()["error"]["message"]


async def test_rest_answers_what_the_tools_answer(url: str) -> None:
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1") as http, agent(url) as client:
        for path, tool, arguments in (
            ("/workflows/ours/related", "related_workflows", {"entity": "ours"}),
            ("/workflows/formulary/ours/impact", "workflow_impact", {"workflow_id": "formulary/ours"}),
            ("/workflows/ours/sections/when-to-use", "read_workflow_section", VALID["read_workflow_section"]),
            ("/names?name=our", "find_workflow", {"name": "our"}),
            ("/approvals", "list_pending_approvals", {}),
        ):
            answer = answer_of(
                await client.call_tool(
                    tool, arguments | {"section": "when_to_use"} if "sections" in path else arguments
                )
            )
            more: dict[str, Any] = {"next_cursor": ""} if path in ("/approvals", "/workflows/ours/related") else {}
            more |= {"may_read": True} if path == "/approvals" else {}
            assert (await http.get(path)).json() == answer | more
        pages = [(await http.get("/workflows", params={"limit": 2})).json()]
        pages.append((await http.get("/workflows", params={"limit": 2, "cursor": pages[0]["next_cursor"]})).json())
    assert [line["workflow_id"] for page in pages for line in page["workflows"]] == ["ours", "theirs", "zoo"]
    assert pages[1]["next_cursor"] == ""
