"""What models write in place of what is documented: taken where its meaning is plain, else answered with our name."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import answer_of, call
from support.manifest import text
from support.runnable import runnable
from support.serving import catalog, serving

URI = "workflow://formulary/ours"


@pytest.fixture(scope="module")
async def url(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    own.write_text(text(runnable("ours"), runnable("others")))
    async with catalog([own], postgres=postgres, embedder=None) as parts, serving(parts) as at:
        yield at


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_workflow_details", {"workflow_id": URI}),
        ("get_workflow_details", {"workflow_id": f"{URI}@1.0.0"}),
        ("get_workflow_details", {"workflow_id": f"{URI}#when_to_use"}),
        ("record_workflow_selection", {"workflow_id": URI, "reasoning": "It fits."}),
        ("invoke_workflow", {"workflow_id": f"{URI}@1.0.0", "input": {"REPLICAS": 1}, "dry_run": True}),
        ("related_workflows", {"entity": URI}),
        ("read_workflow_section", {"workflow_id": f"{URI}#when_to_use", "section": "steps"}),
        ("workflow_impact", {"workflow_id": URI}),
        ("find_workflow", {"name": URI}),
    ],
)
async def test_the_uri_of_a_hit_names_its_workflow_to_every_tool(
    url: str, tool: str, arguments: dict[str, Any]
) -> None:
    answer = answer_of(await call(url, tool, arguments))

    named = answer.get("workflow_id") or answer.get("entity") or answer["workflows"][0]["workflow_id"]
    assert named.removeprefix("formulary/") == "ours"
