"""What tools say of arguments, commands say of options."""

import click
import pytest

from formulary_catalog.edges.cli.main import main
from formulary_catalog.edges.cli.wording import as_typed
from formulary_catalog.edges.mcp.tools import TOOLS_BY_NAME

COMMANDS = {
    "search_workflow_catalog": "search",
    "get_workflow_details": "show",
    "list_workflows": "list",
    "related_workflows": "related",
    "find_workflow": "find",
    "workflow_impact": "impact",
    "read_workflow_section": "show",
    "invoke_workflow": "invoke",
    "get_invocation_status": "invocation",
    "governance_gate": "governance evaluate",
    "semantic_search": "docs search",
    "similar_docs": "docs similar",
    "get_document": "docs get",
    "execute_query": "query",
    "get_schema": "tables",
    "get_sample": "tables",
    "describe_stats": "tables",
    "list_pending_approvals": "approvals",
}
"""As docs/mcp.md has them."""
NOT_TAKEN = {
    "search_workflow_catalog": {"filters"},
    "get_workflow_details": {"search_id"},
    "list_workflows": {"cursor"},
    "invoke_workflow": {"input", "search_id"},  # --input says its own errors, values are secret
    "get_invocation_status": {"wait_ms", "after_revision"},
    "governance_gate": {"trace_id"},
}
"""Arguments that a person cannot give: they are filters of agents, or the command sees to them."""


def command(path: str) -> click.Command:
    found: click.Command = main
    for name in path.split():
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None
        found = below
    return found


@pytest.mark.parametrize("tool", COMMANDS)
def test_a_command_calls_what_it_passes_to_a_tool_as_the_tool_does(tool: str) -> None:
    taken = {each.name for each in command(COMMANDS[tool]).params}
    in_parts = ("label_", "target_")  # people give the target in one, as --target
    arguments = {name for name in TOOLS_BY_NAME[tool].arguments.model_fields if not name.startswith(in_parts)}
    assert arguments - taken == NOT_TAKEN.get(tool, set())


@pytest.mark.parametrize(
    ("path", "field", "message", "said"),
    [
        ("list", "limit", "limit 0 is out of bounds", "--limit 0 is out of bounds"),
        ("list", "", "you may see nothing with action_type 'limit'", "you may see nothing with --action 'limit'"),
        ("list", "risk_level", "risk_level 'risk_level' is not known", "--risk 'risk_level' is not known"),
        ("list", "status", "no status is like a/status", "no status is like a/status"),
        ("search", "label.severity", "label.severity is hidden", "--label severity is hidden"),
        ("docs similar", "doc_id", "give doc_id or text; send plain text", "give ID or text; send plain text"),
        ("invoke", "options.timeoutMs", "options.timeoutMs is 5", "--timeout-ms is 5"),
        ("invoke", "", "ask with dry_run true for it", "ask with --dry-run for it"),
        ("query", "sql", "sql is empty; sql it is", "SQL is empty; sql it is"),
        ("query", "url", "a url is bad", "a url is bad"),
    ],
)
def test_an_argument_is_named_as_it_was_typed(path: str, field: str, message: str, said: str) -> None:
    assert as_typed(message, command=command(path), field=field) == said


def test_what_no_command_said_stays_as_it_is() -> None:
    assert as_typed("signal_type is long", command=None, field="signal_type") == "signal_type is long"
