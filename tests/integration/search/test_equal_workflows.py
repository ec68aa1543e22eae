"""Of workflows that say the same, labels of the incident and cautions decide which comes first (DESIGN section 5)."""

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import manifest
from support.filling import starter_documents
from support.served import PAYMENTS, Served, incident_of, written
from support.services import service_on
from support.serving import catalog, serving

KEY, VALUE = "k3y-team", "v4lue-payments"


def twin(document: dict[str, Any], *, namespace: str, **spec: Any) -> dict[str, Any]:
    """The same workflow in another namespace."""
    other = copy.deepcopy(document)
    other["metadata"]["namespace"] = namespace
    other["spec"] |= spec
    return other


@pytest.fixture(scope="module")
async def twins(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """One workflow three times, of nobody, of the team, of every team; and one of the team that does not fit."""
    own = next(
        document
        for document in starter_documents(starter_catalog)
        if document["metadata"]["name"] == "oom-raise-memory-limit"
    )
    documents = [
        twin(own, namespace="x-of-nobody"),
        twin(own, namespace="z-of-the-team", customLabels={KEY: [VALUE]}),
        twin(own, namespace="y-of-every-team", customLabels={KEY: "*"}),
        manifest.workflow(
            "a-menu", what="Prints the menu of the canteen.", customLabels={KEY: [VALUE]}, actionType="PrintMenu"
        ),
        incident_of("payments", labels={KEY: [VALUE]}),
    ]
    directory = written(documents, into=tmp_path_factory.mktemp("twins"))
    async with catalog([directory], postgres=postgres, embedder=embedder) as parts:
        async with serving(parts) as url:
            yield Served(service=service_on(parts), url=url)


async def test_a_workflow_of_the_team_ranks_above_its_equals_and_what_does_not_fit_stays_last(twins: Served) -> None:
    query = "container OOMKilled with exit code 137, memory limit too low"
    answer = await twins.ask(query, incident=PAYMENTS, top_k=10)
    assert [hit.namespace for hit in answer.workflows] == [
        "z-of-the-team",
        "y-of-every-team",
        "x-of-nobody",
        "formulary",
    ]
    alone = await twins.ask(query, top_k=10)
    assert [hit.namespace for hit in alone.workflows] == [
        "x-of-nobody",
        "y-of-every-team",
        "z-of-the-team",
        "formulary",
    ]


async def test_what_was_made_for_the_incident_says_so_and_never_for_which_labels(twins: Served) -> None:
    answer = await twins.tool("memory limit too low", incident=PAYMENTS, top_k=10)
    made_for = [
        hit["namespace"] for hit in answer["workflows"] if "made for this incident's labels" in hit["match_reasons"]
    ]
    assert sorted(made_for) == ["formulary", "z-of-the-team"]
    for_any = [
        hit["namespace"] for hit in answer["workflows"] if "any of this incident's labels" in hit["match_reasons"]
    ]
    assert for_any == ["y-of-every-team"]
    assert KEY not in str(answer)
    assert VALUE not in str(answer)
    alone = await twins.ask("memory limit too low", top_k=10)
    assert not any("this incident's labels" in reason for hit in alone.workflows for reason in hit.match_reasons)


@pytest.fixture(scope="module")
async def warned(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """One workflow twice; the first by name of its namespace is not for a quorum that istio lost."""
    own = manifest.workflow("restart-etcd", what="Restarts a member of etcd that lost its leader.")
    against = copy.deepcopy(own)
    against["spec"]["description"]["whenNotToUse"] = "Not where istio broke the quorum."
    directory = written(
        [twin(against, namespace="a-not-for-it"), twin(own, namespace="b-for-it")],
        into=tmp_path_factory.mktemp("warned"),
    )
    async with catalog([directory], postgres=postgres, embedder=embedder) as parts:
        yield Served(service=service_on(parts), url="")


@pytest.mark.parametrize("top_k", [1, 2])
async def test_a_caution_costs_confidence_and_with_it_the_place(warned: Served, top_k: int) -> None:
    equal = await warned.ask("an etcd member lost its leader", top_k=top_k)
    assert [hit.namespace for hit in equal.workflows] == ["a-not-for-it", "b-for-it"][:top_k]
    assert not any(hit.caution for hit in equal.workflows)
    answer = await warned.ask("etcd member without quorum behind istio", top_k=top_k)
    assert [hit.namespace for hit in answer.workflows] == ["b-for-it", "a-not-for-it"][:top_k]
    cautions = ["", "its when_not_to_use speaks of: quorum istio"]
    assert [hit.caution for hit in answer.workflows] == cautions[:top_k]
    confidences = [hit.confidence for hit in answer.workflows]
    assert confidences == sorted(set(confidences), reverse=True)
