"""What the answer to a search says about labels that nobody knows, weak matches and what it leaves out."""

from typing import Any

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import fill

CALLER = Caller(name="test", access=EVERYTHING)
LONG = "qz" * 1990


def _says(answer: SearchAnswer, words: str) -> bool:
    return any(words in note for note in answer.notes)


async def test_a_label_value_that_nobody_declares_is_named_even_where_it_excludes_everything(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [manifest.workflow("restart")])
    for labels in ({"cluster": ["nowhere"]}, {"severity": ["critcal"]}):
        answer = await service.search(search_request(query="restart", labels=labels), caller=CALLER)
        assert answer.total_results == 0
        assert _says(answer, "check the spelling")
    known = await service.search(search_request(query="restart", labels={"severity": ["CRITICAL"]}), caller=CALLER)
    assert known.total_results == 1
    assert not _says(known, "check the spelling")
    anything = await service.search(search_request(query="restart", labels={"severity": ["*"]}), caller=CALLER)
    assert not _says(anything, "check the spelling")


async def test_a_value_is_not_called_misspelt_in_a_dimension_in_which_nobody_declares_anything(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    document = manifest.workflow("restart")
    document["spec"]["labels"] |= {"signalType": [], "component": ["*"]}  # as upstream's CRD and manifests have it
    await fill(workflows, [document])
    labels = {"signal_type": ["OOMKilled"], "component": ["v1/Pod"], "risk_tolerance": ["low"]}
    answer = await service.search(search_request(query="restart", labels=labels), caller=CALLER)
    assert answer.total_results == 1
    assert not _says(answer, "check the spelling")


async def test_a_weak_match_is_said_to_be_one_even_where_some_are_left_out(
    service: CatalogService, workflows: CatalogWriter, embedder: Embedder
) -> None:
    query = "expired licence of the accounting package"
    documents = [manifest.workflow("restart"), manifest.workflow("scale", what="Adds replicas to the package.")]
    await fill(workflows, documents, embedder=embedder)
    whole = await service.search(search_request(query=query, top_k=2), caller=CALLER)
    assert [hit.workflow_id for hit in whole.workflows] == ["scale", "restart"]
    assert _says(whole, "weak match")
    between = sum(hit.confidence for hit in whole.workflows) / 2
    answer = await service.search(search_request(query=query, top_k=2, min_confidence=between), caller=CALLER)
    assert [hit.workflow_id for hit in answer.workflows] == ["scale"]
    assert _says(answer, "weak match")
    assert _says(answer, "below min_confidence")


async def test_where_all_that_fit_are_below_the_least_confidence_a_note_says_so_and_the_count_stays(
    service: CatalogService, workflows: CatalogWriter, embedder: Embedder
) -> None:
    await fill(workflows, [manifest.workflow("restart"), manifest.workflow("scale")], embedder=embedder)
    answer = await service.search(search_request(query="restart", min_confidence=1), caller=CALLER)
    assert (answer.workflows, answer.total_results) == ([], 2)
    assert _says(answer, "below min_confidence 1")


async def test_a_query_of_one_endless_word_is_answered_like_any_other(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [manifest.workflow("restart")])
    answer = await service.search(search_request(query=f"{LONG} restart"), caller=CALLER)
    assert [hit.workflow_id for hit in answer.workflows] == ["restart"]


async def test_the_name_of_a_pod_that_no_workflow_knows_does_not_hide_what_fits_the_other_words(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [manifest.workflow("oom-restart", what="Restarts what ran out of memory.")])
    for query in ("OOMKilled checkout-7f8d9c6b5-x2x4z", "payments-7c9f8 ran out of memory"):
        answer = await service.search(search_request(query=query), caller=CALLER)
        assert answer.search_mode == "lexical"
        assert [hit.workflow_id for hit in answer.workflows] == ["oom-restart"], query


async def test_a_long_query_without_spaces_is_ranked_by_meaning(
    service: CatalogService, workflows: CatalogWriter, embedder: Embedder
) -> None:
    await fill(workflows, [manifest.workflow("restart")], embedder=embedder)
    answer = await service.search(search_request(query="容器内存不足被杀死" * 120), caller=CALLER)
    assert answer.search_mode == "hybrid"
    assert not _says(answer, "no usable word")


async def test_copies_in_other_namespaces_do_not_make_a_good_match_a_weak_one(
    service: CatalogService, workflows: CatalogWriter, embedder: Embedder
) -> None:
    document = manifest.workflow("oom-restart", what="Restarts the pod that ran out of memory.")
    other = manifest.workflow("certificate-renew", what="Renews a certificate.")
    request = search_request(query="OOMKilled critical restart the pod that ran out of memory")
    await fill(workflows, [document, other], embedder=embedder)
    alone = await service.search(request, caller=CALLER)
    for number in range(12):
        await fill(workflows, [document], namespace=f"team-{number}", embedder=embedder)
    among = await service.search(request, caller=CALLER)
    assert among.total_results == 14
    assert alone.workflows[0].confidence == among.workflows[0].confidence > 0.7


async def test_an_action_or_namespace_that_no_workflow_has_is_answered_with_the_nearest(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [manifest.workflow("restart", actionType="RestartPod")])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"action_type": "RestrtPod"}, "no workflow you may see has action_type 'RestrtPod'; did you mean RestartPod?"),
        ({"namespace": "formulry"}, "no workflow you may see has namespace 'formulry'; did you mean formulary?"),
        ({"namespace": "zz"}, "no workflow you may see has namespace 'zz'; leave it out to see what there is"),
    ]
    for given, note in cases:
        answer = await service.search(search_request(query="restart", **given), caller=CALLER)
        assert answer.workflows == []
        assert note in answer.notes
    known = await service.search(
        search_request(query="restart", action_type="restartpod", keywords=["absent"]), caller=CALLER
    )
    assert not _says(known, "no workflow you may see")


async def test_that_an_alert_is_resolved_is_said(service: CatalogService, workflows: CatalogWriter) -> None:
    await fill(workflows, [manifest.workflow("restart")])
    for query, resolved in {
        "[RESOLVED] RestartTooOften": True,
        '{"status": "resolved", "alerts": [{"labels": {"alertname": "RestartTooOften"}}]}': True,
        "[FIRING:1, RESOLVED:1] RestartTooOften": False,
        "[RESOLVED] A\n[FIRING:1] RestartTooOften": False,
        "restart: host cannot be resolved": False,
    }.items():
        answer = await service.search(search_request(query=query), caller=CALLER)
        assert _says(answer, "its alert is resolved") is resolved, query
