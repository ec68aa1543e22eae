"""Every match reason is true: it names labels that the workflow declares and words that stand where it says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import WorkflowHit
from formulary_catalog.domain.search.query import parse_query
from formulary_catalog.domain.search.request import SearchRequest, search_request
from formulary_catalog.domain.search.synonyms import synonyms
from formulary_catalog.domain.text import with_split_words, words
from formulary_catalog.domain.workflows.labels import WILDCARD, fold
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow, WorkflowSpec
from formulary_catalog.embedding import Embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_judgements import read_judgements
from support.filling import starter_documents
from support.services import service_on
from support.serving import catalog

JUDGEMENTS = Path(__file__).parents[3] / "benchmarks" / "judgements"
CALLER = Caller(name="test", access=EVERYTHING)
LABELS = re.compile(r"(declared for|any|not limited by) (.+)")
WORDS = re.compile(r"words in (headings|when to use|description): (.+)")
COSINE = re.compile(r"meaning: cosine (-?\d\.\d\d)")
Claim = tuple[str, str]
"""A text, and a word that is said to stand in it."""


def _requests() -> Iterator[SearchRequest]:
    for judgement in read_judgements(JUDGEMENTS)[::4]:
        yield search_request(query=judgement.query, top_k=50)
    yield search_request(query="OOMKilled critical", labels={"environment": ["production"], "component": ["v1/Pod"]})
    yield search_request(query="disk full", labels={"risk_tolerance": ["low"], "business_category": ["payments"]})


async def test_every_match_reason_is_true(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path
) -> None:
    documents = starter_documents(starter_catalog)
    models = [RemediationWorkflow.model_validate(document) for document in documents]
    workflows = {workflow.metadata.name: workflow for workflow in models}
    claims: set[Claim] = set()
    async with catalog([starter_catalog], postgres=postgres, embedder=embedder) as parts:
        service = service_on(parts)
        for request in _requests():
            answer = await service.search(request, caller=CALLER)
            for hit in answer.workflows:
                claims |= set(_claims(hit, workflow=workflows[hit.workflow_id], request=request))
        assert len(claims) > 500
        assert await _untrue(parts, claims) == []


async def test_each_synonym_is_searched_for_in_full(parts: CatalogParts) -> None:
    """A stop word in it would be shown as found, and not be looked for."""
    phrases = sorted({phrase for concept in synonyms().concepts for phrase in concept.words})
    rows = await parts.database.fetch(
        "select phrase, numnode(plainto_tsquery('english', phrase)) as nodes from unnest($1::text[]) as given(phrase)",
        phrases,
    )
    assert [row["phrase"] for row in rows if row["nodes"] < 2 * len(words(row["phrase"])) - 1] == []


def _claims(hit: WorkflowHit, *, workflow: RemediationWorkflow, request: SearchRequest) -> Iterator[Claim]:
    """What is said of words; what is said of labels and of the cosine is checked here."""
    texts = _texts(workflow.spec, name=workflow.metadata.name)
    for reason in hit.match_reasons:
        if found := WORDS.fullmatch(reason):
            yield from ((texts[found[1]], word) for word in found[2].split(", "))
        elif found := COSINE.fullmatch(reason):
            assert hit.similarity_score == pytest.approx(max(float(found[1]), 0), abs=0.005001)
        else:
            found = LABELS.fullmatch(reason)
            assert found is not None, reason
            for label in found[2].split(", "):
                _check_label(label, said=found[1], spec=workflow.spec, request=request)


def _texts(spec: WorkflowSpec, *, name: str) -> dict[str, str]:
    headings = [name.replace("-", " "), name.replace("-", ""), spec.title, *spec.keywords, spec.action_type]
    return {
        "headings": with_split_words(" ".join(headings)),
        "when to use": with_split_words(spec.description.when_to_use),
        "description": with_split_words(spec.description.what),
    }


def _check_label(label: str, *, said: str, spec: WorkflowSpec, request: SearchRequest) -> None:
    name, _, values = label.partition(" ")
    dimension = name.replace("-", "_")
    declared = getattr(spec.labels, dimension)
    if said == "declared for":
        # What no label asks for is implied by the query: by its first words, or by the alert that it holds.
        parsed = parse_query(request.query)
        asked = {fold(value) for value in request.labels.get(dimension, (parsed.signal, parsed.severity))}
        assert values == "/".join(value for value in declared if fold(value) in asked)
    elif said == "any":
        assert WILDCARD in declared
    else:
        assert declared == []


async def _untrue(parts: CatalogParts, claims: set[Claim]) -> list[Claim]:
    texts, words = zip(*sorted(claims), strict=True)
    rows = await parts.database.fetch(
        """
        select text, word from unnest($1::text[], $2::text[]) as claim(text, word)
        where not to_tsvector('english', text) @@ plainto_tsquery('english', word)
        """,
        list(texts),
        list(words),
    )
    return [(row["text"], row["word"]) for row in rows]
