"""Real clients call tools of every toolset, under an incident whose custom labels exclude a workflow."""

import pytest

from formulary_catalog.edges.mcp.tools import TOOLSETS
from support.agent import agent, answer_of
from support.holmes import Chat, Report, ToolCall, converse

# The first run on a machine also installs HolmesGPT.
pytestmark = pytest.mark.timeout(900)

OF_OTHERS = "oom-payments-only"
READING: dict[str, dict[str, object]] = {
    "search_workflow_catalog": {"query": "OOMKilled critical", "action_type": None},
    "list_workflows": {"signal_type": "OOMKilled"},
    "related_workflows": {"entity": "OOMKilled"},
    "find_workflow": {"name": "oom"},
    "workflow_impact": {"workflow_id": "oom-raise-memory-limit"},
    "read_workflow_section": {"workflow_id": "oom-raise-memory-limit", "section": "when_not_to_use"},
    "catalog_stats": {},
    "semantic_search": {"query": "memory limit too low"},
    "similar_docs": {"text": "the container was OOM killed"},
    "list_collections": {},
    "execute_query": {"sql": "select count(*) from insight.catalog"},
    "list_tables": {},
    "get_schema": {"table": "catalog"},
    "get_sample": {"table": "catalog", "n": None},
    "describe_stats": {"table": "catalog"},
    "list_pending_approvals": {},
    "governance_gate": {"task": "Read the logs", "proposed_actions": [{"action_type": "get_logs"}]},
}
ALL = ",".join(toolset.value for toolset in TOOLSETS)


async def test_the_sdks_client_calls_tools_of_every_toolset(formulary_url: str) -> None:
    async with agent(f"{formulary_url}", headers={"X-Remediation-Id": "rr-search"}) as client:
        # One after another: of several statements of SQL at a time, a busy machine refuses some.
        read = {name: answer_of(await client.call_tool(name, {**arguments})) for name, arguments in READING.items()}

    assert all(read.values())
    assert not [name for name, answer in read.items() if OF_OTHERS in str(answer)]


@pytest.fixture(scope="module")
def report(formulary_url: str) -> Report:
    """One chat of HolmesGPT that makes all calls."""
    calls = [ToolCall(tool=name, arguments=arguments) for name, arguments in READING.items()]
    chats = {"all": Chat(headers={"x-remediation-id": "rr-search"}, calls=tuple(calls))}
    return converse(url=f"{formulary_url}/mcp?toolsets={ALL}", chats=chats)


@pytest.mark.long
def test_holmesgpt_is_offered_the_tools_that_its_address_chooses(report: Report) -> None:
    tools = [tool.name for toolset in TOOLSETS.values() for tool in toolset]

    assert sorted(report.offered) == sorted(tools)


@pytest.mark.long
def test_holmesgpt_calls_tools_of_every_toolset(report: Report) -> None:
    chat = report.chats["all"]

    assert {call.tool: call.status for call in chat.calls} == dict.fromkeys(READING, "success")
    assert not [call.tool for call in chat.calls if OF_OTHERS in call.read_by_model]
