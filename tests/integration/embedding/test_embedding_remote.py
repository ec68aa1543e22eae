"""A remote model: the same promises as one that runs here, and a clean, quick failure however the endpoint fails."""

import asyncio
import gc
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from formulary_catalog.embedding import Embedder, load_embedder
from formulary_catalog.errors import EmbedderUnavailable
from formulary_catalog.loading.vectors import vectors_of
from support.embedding_endpoint import Answer, Endpoint, Handler, cosines, running, seconds_of
from support.waiting import wait_until

QUERY_SECONDS = 0.3
SLACK = 8.0  # what a busy machine may add


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running(Endpoint()) as started:
        yield started


def tei(endpoint: Endpoint) -> str:
    return endpoint.tei


def openai(endpoint: Endpoint) -> str:
    return endpoint.openai


BOTH = pytest.mark.parametrize("address", [tei, openai])


def load(model: str, *, query_seconds: float = 10) -> Embedder:
    return load_embedder(model, query_seconds=query_seconds)


def works(embedder: Embedder, text: str) -> bool:
    try:
        embedder.embed_query(text)
    except EmbedderUnavailable:
        return False
    return True


def test_an_environment_that_no_connection_can_be_made_with_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(EmbedderUnavailable, match="SSL_CERT_FILE"):
        load("tei+http://192.0.2.1")  # one that is not on this machine


# What it gives.


@BOTH
@pytest.mark.smoke
def test_queries_and_documents_have_the_vectors_of_the_endpoint(
    endpoint: Endpoint, address: Callable[[Endpoint], str]
) -> None:
    texts = [f"text {number}" for number in range(70)]
    embedder = load(address(endpoint))
    documents = embedder.embed_documents(texts)
    queries = np.stack([embedder.embed_query(text) for text in texts[:5]])

    assert (documents.dtype, documents.shape) == (np.dtype(np.float32), (70, 384))
    assert cosines(documents, [endpoint.vector(text) for text in texts]).min() > 0.999999
    np.testing.assert_array_equal(queries, documents[:5])
    assert embedder.embed_documents([]).shape == (0, 384)


@BOTH
def test_no_request_has_more_than_32_texts(endpoint: Endpoint, address: Callable[[Endpoint], str]) -> None:
    embedder = load(address(endpoint))
    before = endpoint.asked()
    embedder.embed_documents(["a text"] * 70)
    assert endpoint.asked() == before + 3  # 31, 31 and 8, each with the fixed text by which the model is recognised


def test_vectors_are_read_only(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    assert not embedder.embed_query("a").flags.writeable
    assert not embedder.embed_documents(["a"]).flags.writeable


def test_threads_share_the_embedder(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    texts = [f"query {number}" for number in range(100)]
    with ThreadPoolExecutor(max_workers=32) as pool:
        vectors = list(pool.map(embedder.embed_query, texts))
    assert cosines(vectors, [endpoint.vector(text) for text in texts]).min() > 0.999999
    assert endpoint.asked() == 1 + 100


def test_the_model_is_recorded_with_its_revision(endpoint: Endpoint) -> None:
    assert load(endpoint.tei).model_id == "acme/small@c9745ed1d9f2-mean"
    assert load(f"{endpoint.tei}#mine@3").model_id == "mine@3"
    assert load(f"{endpoint.openai}@3").model_id == "acme/small@3"


def test_the_key_is_sent_to_the_endpoint_and_shown_to_nobody(endpoint: Endpoint) -> None:
    embedder = load_embedder(endpoint.openai, api_key="sk-secret")
    endpoint.answer = status(401)
    with pytest.raises(
        EmbedderUnavailable, match=r"refuses the key .status 401.; check FORMULARY_EMBEDDING_API_KEY"
    ) as (failure):
        embedder.embed_query("who am I")
    assert all(headers["Authorization"] == "Bearer sk-secret" for _, _, headers in endpoint.requests)
    assert "sk-secret" not in f"{failure.value!r} {failure.value.__context__!r} {vars(embedder)!r}"


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(endpoint: Endpoint) -> None:
    with pytest.raises(EmbedderUnavailable, match="holds a character that no key may hold") as failure:
        load_embedder(endpoint.tei, api_key="sk-secret\n")
    assert "sk-secret" not in repr(failure.value)


def test_lone_surrogates_can_be_sent(endpoint: Endpoint) -> None:
    load(endpoint.tei).embed_query("broken \ud83d text \ud83d\udd25")
    assert endpoint.texts()[-2] == "broken \ufffd text 🔥"


def test_a_model_that_can_shorten_its_vectors_is_told_to(endpoint: Endpoint) -> None:
    endpoint.dimensions = 3072

    def shortened(handler: Handler, content: bytes) -> None:
        answer = json.loads(content)
        for item in answer["data"]:
            vector = np.array(item["embedding"])
            item["embedding"] = (vector / np.linalg.norm(vector)).tolist()
        handler.send(json.dumps(answer).encode())

    endpoint.answer = shortened
    assert load(endpoint.openai).embed_query("a").shape == (384,)
    assert endpoint.requests[-1][1]["dimensions"] == 384


def test_a_model_of_other_dimensions_is_refused(endpoint: Endpoint) -> None:
    endpoint.dimensions = 768
    with pytest.raises(EmbedderUnavailable, match="have 768 dimensions, the catalog stores 384; use a model of 384"):
        load(endpoint.tei)


# How it fails.


def status(code: int, **headers: str) -> Answer:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, content: handler.send(b'{"error": "no"}', status=code, headers=told)


def instead(content: bytes, **headers: str) -> Answer:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: handler.send(content, headers=told)


def vectors(change: Callable[[list[Any]], Any]) -> Answer:
    return lambda handler, content: handler.send(json.dumps(change(json.loads(content))).encode())


def hangs(handler: Handler, content: bytes) -> None:
    handler.endpoint.closing.wait(60)


def drips_its_headers(handler: Handler, content: bytes) -> None:
    handler.drip(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Slow: " + b"x" * 2000, seconds=0.05)


def drips_its_body(handler: Handler, content: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")
    handler.drip(content, seconds=0.05)


def breaks_off_in_its_body(handler: Handler, content: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n[[0.1,")
    handler.close_connection = True


def closes_at_once(handler: Handler, content: bytes) -> None:
    handler.close_connection = True


def speaks_something_else(handler: Handler, content: bytes) -> None:
    handler.wfile.write(b"220 mail.example.com ESMTP\r\n")
    handler.close_connection = True


def never_ends(handler: Handler, content: bytes) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    while not handler.endpoint.closing.is_set():
        handler.wfile.write(b"[0.1]," * 4096)


FAULTS = {
    "hangs": (hangs, "did not answer within"),
    "drips its headers": (drips_its_headers, "did not answer within"),
    "drips its body": (drips_its_body, "did not answer within"),
    "breaks off in its body": (breaks_off_in_its_body, "broke off"),
    "closes at once": (closes_at_once, "broke off"),
    "speaks something else": (speaks_something_else, "broke off"),
    "never ends": (never_ends, "answers with more than"),
    "redirects": (status(307, Location="http://127.0.0.1:1/embed"), "sends elsewhere"),
    "status 403": (status(403), "refuses the key"),
    "status 404": (status(404), "answers with status 404"),
    "status 429": (status(429), "answers with status 429"),
    "status 500": (status(500), "answers with status 500"),
    "status 503": (status(503), "answers with status 503"),
    "status 413": (status(413), "does not take these texts"),
    "status 204": (status(204), "answers with status 204"),
    "garbage": (instead(b"\xff{garbage"), "something else than JSON"),
    "nested without end": (instead(b"[" * 60_000), "something else than JSON"),
    "truncated JSON": (instead(b"[[0.1, 0.2"), "something else than JSON"),
    "a page": (instead(b"<html>", Content_Type="text/html"), "something else than JSON"),
    "compressed": (instead(b"\x1f\x8b", Content_Encoding="gzip"), "compresses its answers"),
    "no list": (instead(b"42"), "something else than vectors"),
    "an object": (instead(b'{"error": "overloaded"}'), "something else than vectors"),
    "null": (instead(b"null"), "something else than vectors"),
    "words": (vectors(lambda rows: [["much"] * 384] * 2), "something else than vectors"),
    "ragged": (vectors(lambda rows: [[0.1, [0.2]]]), "something else than vectors"),
    "flat": (vectors(lambda rows: [1.0, 1.0]), "something else than vectors"),
    "an enormous number": (vectors(lambda rows: [[10**400, *row[1:]] for row in rows]), "something else than vectors"),
    "huge numbers": (vectors(lambda rows: [[1e200] * 384] * 2), "not of unit length"),
    "no vector": (vectors(lambda rows: []), "0 vectors for 2 texts"),
    "too many": (vectors(lambda rows: rows * 2), "4 vectors for 2 texts"),
    "too short": (vectors(lambda rows: [row[:383] for row in rows]), "have 383 dimensions"),
    "NaN": (vectors(lambda rows: [[float("nan"), *row[1:]] for row in rows]), "not finite"),
    "infinite": (vectors(lambda rows: [[float("inf"), *row[1:]] for row in rows]), "not finite"),
    "nulls": (vectors(lambda rows: [[None, *row[1:]] for row in rows]), "something else than vectors"),
    "numbers in quotes": (vectors(lambda rows: [list(map(str, row)) for row in rows]), "something else than vectors"),
    "booleans": (vectors(lambda rows: [[True] + [False] * 383] * 2), "something else than vectors"),
    "zero": (vectors(lambda rows: [[0.0] * 384] * 2), "not of unit length"),
    "not of unit length": (vectors(lambda rows: [[2 * x for x in row] for row in rows]), "not of unit length"),
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_a_query_fails_in_time_and_says_why(endpoint: Endpoint, fault: Answer, reason: str) -> None:
    embedder = load(endpoint.tei, query_seconds=QUERY_SECONDS if "within" in reason else 10)
    endpoint.answer = fault

    def ask() -> None:
        with pytest.raises(EmbedderUnavailable, match=reason):
            embedder.embed_query("what now")

    assert seconds_of(ask) < QUERY_SECONDS + SLACK
    assert {path for path, _, _ in endpoint.requests} == {"/info", "/embed"}

    endpoint.answer = None
    wait_until(lambda: works(embedder, "and now"), what="the endpoint to be used again")


@pytest.mark.smoke
def test_an_endpoint_that_is_gone_is_refused_in_time_and_used_again_when_it_is_back(endpoint: Endpoint) -> None:
    again = Endpoint()
    with running(again):
        embedder = load(again.tei, query_seconds=QUERY_SECONDS)
    assert seconds_of(lambda: works(embedder, "are you there")) < QUERY_SECONDS + SLACK
    assert not works(embedder, "still not")
    with running(again):
        wait_until(lambda: works(embedder, "and now"), what="the endpoint to be used again")


@pytest.mark.parametrize("answer", [hangs, status(500), instead(b"{}"), None])
def test_an_endpoint_that_does_not_work_is_no_embedder(endpoint: Endpoint, answer: Answer | None) -> None:
    address = endpoint.tei if answer is not None else "tei+http://127.0.0.1:1"
    endpoint.answer = answer
    with pytest.raises(EmbedderUnavailable):
        load(address)


def test_after_a_few_failures_the_endpoint_is_left_alone_for_a_while(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    endpoint.answer = status(500)
    for number in range(20):
        assert not works(embedder, f"query {number}")
    assert endpoint.asked() == 1 + 3
    with pytest.raises(EmbedderUnavailable, match="status 500"):  # the reason, and not that nobody asks
        embedder.embed_query("one more")
    assert endpoint.asked() == 1 + 3


def test_an_endpoint_that_fails_with_documents_only_is_not_left_alone_with_queries(endpoint: Endpoint) -> None:
    embedder = load_embedder(endpoint.tei, query_seconds=10, patience_seconds=0)
    endpoint.answer = status(503)
    for _ in range(5):
        with pytest.raises(EmbedderUnavailable, match="status 503"):
            embedder.embed_documents(["a document"])
    assert endpoint.texts().count("a document") == 3
    endpoint.answer = None
    assert works(embedder, "a query")


def test_a_query_survives_the_loss_of_a_kept_connection(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    answers = iter([closes_at_once])

    def once(handler: Handler, content: bytes) -> None:
        next(answers, Handler.send)(handler, content)

    endpoint.answer = once
    assert works(embedder, "try twice")


def test_texts_that_it_does_not_take_do_not_keep_others_from_it(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    endpoint.most_texts = 0
    assert not any(works(embedder, f"too long {number}") for number in range(10))
    endpoint.most_texts = None
    assert works(embedder, "short")


# A bulk.


def test_a_bulk_waits_and_asks_again(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    answers = iter([status(503, Retry_After="1"), status(429), closes_at_once])

    def at_first(handler: Handler, content: bytes) -> None:
        next(answers, Handler.send)(handler, content)

    endpoint.answer = at_first
    documents: list[Any] = []
    assert seconds_of(lambda: documents.extend(embedder.embed_documents(["a", "b"]))) >= 1
    assert cosines(documents, [endpoint.vector("a"), endpoint.vector("b")]).min() > 0.999999


def test_a_bulk_does_not_ask_again_where_that_would_not_help(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    endpoint.answer = status(403)
    with pytest.raises(EmbedderUnavailable, match="refuses the key"):
        embedder.embed_documents(["a"])
    assert endpoint.texts().count("a") == 1


@pytest.mark.parametrize("refusal", [413, 422])
def test_a_bulk_is_sent_in_smaller_parts_to_an_endpoint_that_takes_fewer(endpoint: Endpoint, refusal: int) -> None:
    endpoint.most_texts, endpoint.refusal = 5, refusal
    texts = [f"text {number}" for number in range(40)]
    documents, refusals = asyncio.run(vectors_of({text: text for text in texts}, embedder=load(endpoint.tei)))
    assert (sorted(documents), refusals) == (sorted(texts), [])
    assert cosines([documents[text] for text in texts], [endpoint.vector(text) for text in texts]).min() > 0.999999


def test_a_text_that_is_too_long_for_the_model_is_cut(endpoint: Endpoint) -> None:
    endpoint.most_characters, endpoint.refusal = 1000, 400
    embedder = load(endpoint.openai)
    long = "word " * 800
    texts = ["short", long, "another"]
    documents, refusals = asyncio.run(vectors_of({text: text for text in texts}, embedder=embedder))
    expected = [endpoint.vector(text) for text in ("short", long[:1000], "another")]
    assert refusals == []
    assert cosines([documents[text] for text in texts], expected).min() > 0.999999
    np.testing.assert_array_equal(embedder.embed_query(long), documents[long])


def test_a_text_that_is_never_taken_costs_the_others_few_questions(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    endpoint.most_characters, endpoint.refusal = 500, 422
    texts = {**{f"{number}": f"text {number}" for number in range(30)}, "long": "word " * 800}
    asked = endpoint.asked()
    documents, refusals = asyncio.run(vectors_of(texts, embedder=embedder))
    assert (texts.keys() - documents.keys(), len(refusals)) == ({"long"}, 1)
    assert endpoint.asked() - asked <= 12  # halves, halves of halves, and the text alone, whole and cut


def test_a_bulk_gives_up_on_a_text_that_is_never_taken(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    endpoint.most_texts = 0
    with pytest.raises(EmbedderUnavailable, match="does not take these texts"):
        embedder.embed_documents(["a", "b"])


# Another model under the same address.


@BOTH
def test_a_bulk_during_which_the_model_changes_is_refused(
    endpoint: Endpoint, address: Callable[[Endpoint], str]
) -> None:
    embedder = load(address(endpoint))
    endpoint.sha = "another"
    with pytest.raises(EmbedderUnavailable, match="serves another model than before"):
        embedder.embed_documents(["a", "b"])


def test_vectors_of_two_models_behind_one_address_are_never_mixed(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    shas = itertools.cycle([endpoint.sha, endpoint.sha, "another"])

    def by_turns(handler: Handler, content: bytes) -> None:
        endpoint.sha = next(shas)
        handler.send(content)

    endpoint.answer = by_turns
    with pytest.raises(EmbedderUnavailable, match="serves another model than before"):
        embedder.embed_documents([f"text {number}" for number in range(200)])


def test_a_model_that_changed_during_an_outage_is_refused_until_the_old_one_is_back(endpoint: Endpoint) -> None:
    embedder = load(endpoint.tei)
    before, endpoint.sha = endpoint.sha, "another"
    endpoint.answer = status(503)
    assert not works(embedder, "during the outage")
    endpoint.answer = None
    with pytest.raises(EmbedderUnavailable, match="serves another model than before"):
        embedder.embed_query("after it")

    endpoint.sha = before
    wait_until(lambda: works(embedder, "with the old one"), what="the old model to be used again")


def test_connections_are_closed_with_the_embedder(endpoint: Endpoint) -> None:
    before = threading.active_count()
    for _ in range(3):
        load(endpoint.tei).embed_query("a")
    wait_until(lambda: _collected() <= before + 1, what="the endpoint's threads, one a connection, to end")


def _collected() -> int:
    gc.collect()
    return threading.active_count()
