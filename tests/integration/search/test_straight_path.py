"""The path of a search is short and goes down: from the tool to the database, through each layer once."""

import traceback
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import formulary_catalog
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.agent import agent, answer_of
from support.filling import fill
from support.manifest import workflow
from support.serving import serving

pytestmark = pytest.mark.smoke

PRODUCT = Path(formulary_catalog.__file__).parent
LAYERS = ("operations", "services", "kernel", "store")
"""From above; what lies in none of them is below, and without I/O."""
MOST_CALLS = 9


def _path(stack: traceback.StackSummary) -> list[tuple[str, str]]:
    """Package and function of each call of the product, from the tool on."""
    ours = [each for each in stack if Path(each.filename).is_relative_to(PRODUCT)]
    calls = [(str(Path(each.filename).relative_to(PRODUCT)), each.name) for each in ours]
    tool = next(place for place, (module, _) in enumerate(calls) if module == "operations/search.py")
    return [(module.partition("/")[0], f"{module}: {function}") for module, function in calls[tool:]]


async def test_a_search_goes_from_the_tool_down_to_the_database_in_at_most_nine_calls(
    workflows: CatalogWriter, contexts: ContextWriter, parts: CatalogParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(workflows, [workflow("restart")])
    await contexts.save(RequestContext(namespace="shop", name="paying", remediation_id="rr-payments"))
    paths = []
    fetch = asyncpg.Connection.fetch

    async def noted(connection: Any, query: str, *arguments: Any, **options: Any) -> Any:
        paths.append(_path(traceback.extract_stack()))
        return await fetch(connection, query, *arguments, **options)

    async with serving(parts) as url, agent(url, headers={"X-Remediation-Id": "rr-payments"}) as client:
        await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"})  # it makes the connection
        monkeypatch.setattr(asyncpg.Connection, "fetch", noted)
        answer = answer_of(await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"}))

    assert [hit["workflow_id"] for hit in answer["workflows"]] == ["restart"]
    readers = {call for path in paths for _, call in path}
    assert {"store/incidents.py: find", "store/search/statement.py: read"} <= readers
    for path in paths:
        layers = [LAYERS.index(package) for package, _ in path]
        assert layers == sorted(layers), path
        assert len(path) - 1 <= MOST_CALLS, path
