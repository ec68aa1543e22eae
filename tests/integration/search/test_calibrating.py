"""What `make calibrate` fits the confidence to: each query under each of the constraints that it may come with."""

from pathlib import Path

import pytest
import yaml

from formulary_catalog.domain.search.label_weights import CUSTOM_WEIGHT
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_judgements import JudgedCatalog, read_entries
from quality_variants import TEAM, Variant, with_owners
from support.manifest import workflow
from support.scripts import script

NAMES = [f"restart-{each}" for each in ("cache", "broker", "gateway", "proxy", "worker", "queue")]


@pytest.fixture
def catalog(tmp_path: Path) -> JudgedCatalog:
    """Workflows, a query that one of them answers and one that none does; the third query is held back."""
    judged = [
        {"id": f"alert-{number}", "kind": kind, "part": part, "query": "the cache is stuck", "best": best}
        | {"acceptable": [], "labels": {"environment": "production"}}
        for number, (kind, part, best) in enumerate(
            [("alert", "tune", NAMES[:1]), ("nothing", "tune", []), ("alert", "held", NAMES[:1])]
        )
    ]
    found = JudgedCatalog(workflows=tmp_path / "workflows", judgements=tmp_path / "judgements.yaml")
    found.workflows.mkdir()
    (found.workflows / "all.yaml").write_text(yaml.safe_dump_all(map(workflow, NAMES)))
    found.judgements.write_text(yaml.safe_dump(judged))
    return found


async def test_queries_are_asked_also_under_an_incident_whose_team_owns_some_workflows_right_ones_and_rivals(
    catalog: JudgedCatalog, embedder: Embedder, postgres: EmbeddedPostgres
) -> None:
    owned = [
        TEAM in document["spec"].get("customLabels", {}) for document in with_owners(read_entries(catalog.workflows))
    ]
    assert 0 < sum(owned) < len(NAMES)

    asked = await script("calibrate").ask(catalog, [], embedder=embedder, postgres=postgres)

    assert [(each.judgement.id, each.variant) for each in asked] == [
        *(("alert-0", variant) for variant in Variant),
        *(("alert-1", variant) for variant in Variant if variant is not Variant.EXCLUDED),
    ]
    counted = {each.variant: sorted(each.further) for each in asked if each.judgement.has_answer}
    raised = [more - less for more, less in zip(counted[Variant.INCIDENT], counted[Variant.FILTERED], strict=True)]
    assert raised == pytest.approx(sorted(CUSTOM_WEIGHT * is_owned for is_owned in owned))
