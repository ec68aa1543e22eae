"""The one prompt: how to get from an incident to a remedy that ran, in the order of the tools.

Clients that show prompts to people offer it as a command. It teaches what the guide of `edges/mcp/skills` teaches.
"""

import difflib
from collections.abc import Mapping

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from formulary_catalog.domain.search.request import MAX_QUERY_LENGTH
from formulary_catalog.domain.workflows.skill import GUIDE

REMEDIATE = Prompt(
    name="remediate",
    title="Remediate an incident",
    description="Find the approved workflow for an incident, choose it with reasons, and run it under governance.",
    arguments=[
        PromptArgument(
            name="incident",
            description="What is wrong, such as 'OOMKilled critical in shop/checkout'. Without it, the model asks.",
            required=False,
        )
    ],
)


def prompt(name: str, arguments: Mapping[str, str] | None) -> GetPromptResult:
    """The messages of a prompt.

    Raises:
        MCPError: there is no such prompt, or an argument is unknown or too long.
    """
    if name != REMEDIATE.name:
        raise _invalid(f"unknown prompt {name[:60]!r}; there is one, {REMEDIATE.name!r}")
    given = dict(arguments or {})
    incident = given.pop("incident", "").strip()
    if given:
        nearest = difflib.get_close_matches(next(iter(given))[:60], ["incident"], n=1)
        hint = "did you mean 'incident'?" if nearest else "it takes 'incident'"
        raise _invalid(f"unknown argument {next(iter(given))[:60]!r} of prompt {REMEDIATE.name!r}; {hint}")
    if len(incident) > MAX_QUERY_LENGTH:
        raise _invalid(f"incident has {len(incident)} characters; give at most {MAX_QUERY_LENGTH}")
    task = f"The incident: {incident}" if incident else "Ask me what is wrong, or read it from what you already know."
    text = f"{GUIDE.body}\n\n{task}\n\nBegin with step 1. Tell me what you found before you run anything."
    return GetPromptResult(
        description=REMEDIATE.description, messages=[PromptMessage(role="user", content=TextContent(text=text))]
    )


def _invalid(message: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=message, data={"retry": False})
