"""The same server over standard input and output, as a client starts it (DESIGN section 7)."""

import os
import sys
from typing import cast

from mcp import Client, StdioServerParameters
from mcp_types import RequestParamsMeta

from formulary_catalog.domain.entry import catalog_entry
from formulary_catalog.edges.mcp.tools import tools_of
from formulary_catalog.operations.json_text import META_KEY
from formulary_catalog.settings import LISTED_TOOLSETS
from formulary_catalog.store.workflows.writer import CatalogWriter
from support.agent import answer_of, refused
from support.manifest import workflow
from support.stdio_program import SERVER


async def test_a_client_that_starts_the_server_gets_the_same_answers(database: str, workflows: CatalogWriter) -> None:
    await workflows.apply(catalog_entry(workflow("ours"), source="test", default_namespace="formulary"))
    server = StdioServerParameters(command=sys.executable, args=["-c", SERVER, database], env=dict(os.environ))

    for mode in ("auto", "legacy"):
        async with Client(server, mode=mode) as client:
            assert len((await client.list_tools()).tools) == len(tools_of(LISTED_TOOLSETS))
            answer = answer_of(await client.call_tool("search_workflow_catalog", {"query": "OOMKilled critical"}))
            nowhere = cast(RequestParamsMeta, {META_KEY: "rr-nobody"})
            unknown = await client.call_tool("search_workflow_catalog", {"query": "OOMKilled"}, meta=nowhere)

        assert [hit["workflow_id"] for hit in answer["workflows"]] == ["ours"]
        assert "rr-nobody" in refused(unknown)
