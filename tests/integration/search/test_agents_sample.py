"""The arms of FormularyBench that are ours: on a small sample of it nothing forbidden is offered to whoever chooses."""

from pathlib import Path

from agents.questions import Judge, cases, questions
from agents.remedies import Remedy
from agents.remedies import catalog as remedies_of
from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.manifest import text
from support.services import service_on
from support.serving import catalog

SAMPLED = (50, 73, 85)
CALLER = Caller(name="bench", access=EVERYTHING)


async def test_whoever_chooses_nothing_forbidden_is_offered(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path: Path
) -> None:
    sampled = [cases()[place] for place in SAMPLED]
    healing = frozenset[str]().union(*(each.right for each in sampled))
    remedies: list[Remedy] = [each for each in remedies_of(500) if each.acts & healing]
    judge = Judge(remedies)
    asked = [each for each in questions(judge, sampled) if each.style == "cause"]
    incidents = {each.incident.id: each.incident.manifest for each in asked}
    manifests = text(*(dict(each.manifest) for each in remedies), *incidents.values())
    (tmp_path / "sample.yaml").write_text(manifests, encoding="utf-8")

    async with catalog([tmp_path], postgres=postgres, embedder=embedder) as parts:
        service = service_on(parts)
        for each in asked:
            reference = ContextReference(remediation_id=each.incident.id)
            answer = await service.search(search_request(query=each.query, top_k=50, context=reference), caller=CALLER)
            allowed = judge.allowed(each.incident.demand)
            assert {hit.workflow_id for hit in answer.workflows} <= allowed, each.id
            assert answer.total_results == len(allowed), each.id
    assert {each.incident.kind for each in asked} == {"plain", "narrowed", "last", "nothing"}
