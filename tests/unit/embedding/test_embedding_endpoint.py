"""What the address of a remote model says, and what goes to and comes from each kind of endpoint."""

from typing import Any

import pytest

from formulary_catalog.embedding.endpoint import Dialect, Endpoint, is_remote
from formulary_catalog.errors import EmbedderUnavailable

SHA = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"


@pytest.mark.parametrize(
    ("model", "endpoint"),
    [
        ("tei+http://embeddings:8080", Endpoint(dialect=Dialect.TEI, url="http://embeddings:8080")),
        ("TEI+HTTPS://embeddings/", Endpoint(dialect=Dialect.TEI, url="https://embeddings")),
        (
            "tei+http://[::1]:80/path#acme/small@4",
            Endpoint(dialect=Dialect.TEI, url="http://[::1]:80/path", name="acme/small", revision="4"),
        ),
        (
            "openai+https://api.example.com/v1#text-small",
            Endpoint(dialect=Dialect.OPENAI, url="https://api.example.com/v1", name="text-small"),
        ),
        (
            "openai+http://llm:8000/v1/#acme/small@2026-01",
            Endpoint(dialect=Dialect.OPENAI, url="http://llm:8000/v1", name="acme/small", revision="2026-01"),
        ),
    ],
)
def test_an_address_names_protocol_place_model_and_revision(model: str, endpoint: Endpoint) -> None:
    assert is_remote(model)
    assert Endpoint.parse(model) == endpoint


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("https://embeddings:8080", "is not of the form tei\\+http://HOST:PORT or openai\\+https://HOST/v1#MODEL"),
        ("tei+ftp://embeddings", "is not of the form"),
        ("tei+http://", "is not of the form"),
        ("tei+http://embeddings:port", "is not of the form"),
        ("tei+http://[::1", "is not of the form"),
        ("openai+https://api.example.com/v1", "name one behind its address"),
        ("tei+http://user:secret@embeddings", "may hold no user, password or query"),
        ("tei+http://embeddings?key=secret", "may hold no user, password or query"),
        ("http://user:secret@embeddings", "is not of the form"),
    ],
)
def test_a_wrong_address_is_refused_without_repeating_a_secret(model: str, reason: str) -> None:
    with pytest.raises(EmbedderUnavailable, match=reason) as refusal:
        Endpoint.parse(model)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("model", ["bundled", "/models/tiny", "acme/small", "./tei"])
def test_a_model_that_runs_here_is_no_endpoint(model: str) -> None:
    assert not is_remote(model)


def told(**info: Any) -> dict[str, Any]:
    return {"model_id": "acme/small", "model_sha": SHA, "model_type": {"embedding": {"pooling": "cls"}}} | info


@pytest.mark.parametrize(
    ("model", "info", "model_id"),
    [
        ("tei+http://a", told(), "acme/small@c9745ed1d9f2-cls"),
        ("tei+http://a", told(model_type="unknown"), "acme/small@c9745ed1d9f2"),
        ("tei+http://a#mine", told(), "mine@c9745ed1d9f2-cls"),
        ("tei+http://a#mine@7", told(model_sha=None), "mine@7"),
        ("tei+http://a#mine@7", ["no", "info"], "mine@7"),
        ("openai+http://a#mine@7", None, "mine@7"),
        ("openai+http://a#mine", None, "mine@unversioned"),
    ],
)
def test_vectors_are_recorded_under_what_the_address_pins_or_the_endpoint_says(
    model: str, info: Any, model_id: str
) -> None:
    assert Endpoint.parse(model).model_id(info) == model_id


@pytest.mark.parametrize("info", [{}, told(model_sha=None), told(model_id=""), "garbage", None])
def test_an_endpoint_that_does_not_say_what_it_serves_has_to_be_pinned(info: Any) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"pin it .* tei\+http://a#NAME@REVISION"):
        Endpoint.parse("tei+http://a").model_id(info)


@pytest.mark.parametrize(("most", "texts"), [(32, 32), (0, None), (None, None), ("32", None)])
def test_how_many_texts_it_takes_at_once_is_believed_if_it_is_a_number(most: Any, texts: int | None) -> None:
    assert Endpoint.parse("tei+http://a").most_texts({"max_client_batch_size": most}) == texts


def test_rows_come_in_the_order_of_the_texts() -> None:
    data = [{"index": 1, "embedding": [1.0]}, {"index": 0, "embedding": [0.0]}]
    assert Endpoint.parse("openai+http://a#m").rows({"data": data}) == [[0.0], [1.0]]
    assert Endpoint.parse("tei+http://a").rows([[0.0], [1.0]]) == [[0.0], [1.0]]
