"""Processes whose embedding model is at an endpoint: they go on while it is away, and use it once it is there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from formulary_catalog.runtime.model_watch import load_model
from formulary_catalog.settings import Settings
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.embedding_models import ModelStore
from formulary_operator.metrics import OperatorMetrics
from formulary_operator.settings import OperatorSettings
from formulary_operator.workflows.embedding import Embedding
from support.commands import formulary_now
from support.embedding_endpoint import Endpoint, Handler, running
from support.manifest import text, workflow
from support.process import Up, formulary_up
from support.waiting import wait_until

SECONDS = 20
MODEL = "acme/small@c9745ed1d9f2-mean"


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    directory = tmp_path / "manifests"
    directory.mkdir()
    (directory / "a.yaml").write_text(text(workflow("restart-the-pods")))
    return directory


@pytest.fixture
def away() -> Endpoint:
    """An endpoint that does not run, and its port."""
    endpoint = Endpoint()
    with running(endpoint):
        pass
    return endpoint


@pytest.fixture
def embedding(writing: Database, away: Endpoint) -> Embedding:
    """The operator's embedding, at that endpoint."""
    settings = OperatorSettings(embedding_model=away.tei)
    return Embedding(settings, models=ModelStore(writing), metrics=OperatorMetrics())


def mode(up: Up, query: str) -> str:
    answer = httpx2.post(f"{up.url}/api/v1/workflows/search", json={"query": query}, timeout=SECONDS)
    return str(answer.raise_for_status().json()["search_mode"])


def similarities(up: Up) -> list[float | None]:
    answer = httpx2.post(f"{up.url}/api/v1/workflows/search", json={"query": "restart", "top_k": 50}, timeout=SECONDS)
    return [hit["similarity_score"] for hit in answer.raise_for_status().json()["workflows"]]


def ready(up: Up) -> Any:
    return httpx2.get(f"{up.url}/readyz", timeout=SECONDS).raise_for_status().json()


def test_a_server_starts_without_the_endpoint_and_uses_it_when_it_comes_and_comes_back(
    data_dirs: Path, tmp_path: Path, manifests: Path, away: Endpoint
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORMULARY_EMBEDDING_MODEL", away.tei)
        patch.setenv("FORMULARY_EMBEDDING_API_KEY", "sk-secret")
        with formulary_up(data_dir=data_dirs / tmp_path.name, manifests=[manifests]) as up:
            assert mode(up, "restart") == "lexical"
            assert ready(up)["status"] == "degraded"
            assert f"http://127.0.0.1:{away.port} cannot be reached" in ready(up)["detail"]

            with running(away):
                wait_until(lambda: mode(up, "restart") == "hybrid", what="the endpoint to be used")
                assert (ready(up)["status"], ready(up)["model"]) == ("ready", MODEL)

            assert mode(up, "restart it") == "lexical"
            assert ready(up)["status"] == "degraded"
            assert f"http://127.0.0.1:{away.port} " in ready(up)["detail"]
            assert "formulary_embedder_up 0.0" in httpx2.get(f"{up.url}/metrics", timeout=SECONDS).text

            with running(away):
                wait_until(lambda: mode(up, "restart this") == "hybrid", what="the endpoint to be used again")
                assert (ready(up)["status"], ready(up).get("detail")) == ("ready", None)
    assert "sk-secret" not in "".join(up.output)
    assert all(headers["Authorization"] == "Bearer sk-secret" for _, _, headers in away.requests)


def test_a_catalog_with_vectors_of_the_endpoint_is_served_again_when_the_endpoint_is(
    data_dirs: Path, tmp_path: Path, manifests: Path, away: Endpoint
) -> None:
    data_dir = data_dirs / f"{tmp_path.name}-again"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORMULARY_EMBEDDING_MODEL", away.tei)
        with running(away), formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
            wait_until(lambda: mode(up, "restart") == "hybrid", what="the endpoint to be used")
        with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
            assert mode(up, "restart") == "lexical"
            assert f"http://127.0.0.1:{away.port} cannot be reached" in ready(up)["detail"]
            with running(away):
                wait_until(lambda: mode(up, "restart") == "hybrid", what="the endpoint to be used")
        (manifests / "b.yaml").write_text(text(workflow("restart-b", what="Frees b.")))
        with formulary_up(data_dir=data_dir, manifests=[manifests]) as up:
            assert mode(up, "restart") == "lexical"
            with running(away):
                wait_until(lambda: None not in similarities(up), what="what came without the endpoint to be embedded")
                wait_until(lambda: ready(up)["status"] == "ready", what="the server to be ready")


def test_a_text_that_is_never_taken_keeps_no_other_from_its_vector(
    data_dirs: Path, tmp_path: Path, manifests: Path, away: Endpoint
) -> None:
    for name in "bcd":
        (manifests / f"{name}.yaml").write_text(text(workflow(f"restart-{name}", what=f"Frees {name}.")))

    def refuses_one(handler: Handler, content: bytes) -> None:
        _, body, _ = away.requests[-1]
        refused = any("Frees c." in each for each in (body or {}).get("inputs", ()))
        handler.send(content, status=422 if refused else 200)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORMULARY_EMBEDDING_MODEL", away.tei)
        away.answer = refuses_one
        with running(away), formulary_up(data_dir=data_dirs / tmp_path.name, manifests=[manifests]) as up:
            assert mode(up, "restart") == "hybrid"
            assert similarities(up).count(None) == 1
            assert "does not take these texts" in ready(up)["detail"]
            assert ready(up)["detail"].endswith("found by their words alone meanwhile: 1")
            away.answer = None
            wait_until(lambda: None not in similarities(up), what="the last workflow to be embedded")


def test_what_was_loaded_while_the_endpoint_took_queries_only_gets_its_vectors_without_a_restart(
    data_dirs: Path, tmp_path: Path, manifests: Path, away: Endpoint
) -> None:
    for name in "bcd":
        (manifests / f"{name}.yaml").write_text(text(workflow(f"restart-{name}", what=f"Frees {name}.")))

    def refuses_many(handler: Handler, content: bytes) -> None:
        many = content.startswith(b"[") and len(json.loads(content)) > 2
        handler.send(b"{}" if many else content, status=403 if many else 200)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORMULARY_EMBEDDING_MODEL", away.tei)
        away.answer = refuses_many
        with running(away), formulary_up(data_dir=data_dirs / tmp_path.name, manifests=[manifests]) as up:
            assert mode(up, "restart") == "lexical"
            assert ready(up)["status"] == "degraded"
            assert ready(up)["detail"].endswith("found by their words alone meanwhile: 4")
            (manifests / "b.yaml").unlink()
            away.answer = None
            wait_until(lambda: mode(up, "restart") == "hybrid", what="the workflows to be embedded")
            wait_until(lambda: ready(up)["status"] == "ready", what="the server to be ready")
            assert len(similarities(up)) == 4  # files are read again only where somebody asks for it


def test_the_key_is_not_sent_to_an_endpoint_that_the_settings_do_not_name() -> None:
    settings = Settings(embedding_model="tei+http://127.0.0.1:1", embedding_api_key="sk-secret")
    with running(Endpoint()) as other:
        load_model(other.tei, settings=settings)
        assert not any("Authorization" in headers for _, _, headers in other.requests)


def test_the_doctor_asks_the_endpoint(empty_database: str, away: Endpoint) -> None:
    asked = {"FORMULARY_EMBEDDING_MODEL": away.tei, "FORMULARY_DATABASE_URL": empty_database}
    assert f"http://127.0.0.1:{away.port} cannot be reached" in formulary_now("doctor", **asked).out
    with running(away):
        assert f"{MODEL}, at an endpoint" in formulary_now("doctor", **asked).out


async def test_the_operator_embeds_at_the_endpoint_and_says_why_it_cannot(writing: Database, away: Endpoint) -> None:
    settings = OperatorSettings(embedding_model=away.openai, embedding_api_key="sk-secret")
    embedding = Embedding(settings, models=ModelStore(writing), metrics=OperatorMetrics())
    with running(away):
        model_id = await embedding.model_id()
        assert model_id == "acme/small@unversioned"
        vector = await embedding.vector("The container was OOMKilled.", model_id=model_id)
        assert vector is not None
        np.testing.assert_allclose(vector, away.vector("The container was OOMKilled."), atol=1e-6)
        assert away.requests[-1][2]["Authorization"] == "Bearer sk-secret"

        away.answer = lambda handler, content: handler.send(b"{}", status=403)
        assert await embedding.vector("The node is gone.", model_id=model_id) is None
        assert "refuses the key" in str(embedding.problem)

        away.answer = None
        await until_embedded(embedding, "The node is gone.", model_id=model_id)
        assert embedding.problem is None


async def test_an_endpoint_that_fails_holds_up_few_of_many_texts_and_those_briefly(
    embedding: Embedding, away: Endpoint
) -> None:
    with running(away):
        model_id = await embedding.model_id()
        assert await embedding.vector("The first one.", model_id=model_id) is not None
        asked = away.asked()
        away.answer = lambda handler, content: handler.send(b"{}", status=503)
        texts = (embedding.vector(f"text {number}", model_id=model_id) for number in range(100))
        assert set(await asyncio.gather(*texts)) == {None}
        assert away.asked() - asked == 1

        away.answer = None
        await until_embedded(embedding, "text 1", model_id=model_id)


async def test_while_one_text_finds_out_if_the_endpoint_works_again_no_other_one_waits(
    embedding: Embedding, away: Endpoint
) -> None:
    with running(away):
        model_id = await embedding.model_id()
        away.answer = lambda handler, content: handler.send(b"{}", status=503)
        assert await embedding.vector("The first one.", model_id=model_id) is None
        asked = away.asked()
        away.answer = lambda handler, content: handler.drip(content, seconds=10)

        async def find_out() -> None:
            while away.asked() == asked:
                assert await embedding.vector("Is it there?", model_id=model_id) is None
                await asyncio.sleep(0.05)

        finding_out = asyncio.create_task(find_out())
        await asyncio.to_thread(wait_until, lambda: away.asked() > asked, what="the endpoint to be asked again")
        assert await embedding.vector("Another one.", model_id=model_id) is None
        assert not finding_out.done()
        await asyncio.wait_for(finding_out, timeout=SECONDS)


def test_the_key_is_not_sent_to_an_endpoint_that_the_catalog_is_changed_to(database: str, away: Endpoint) -> None:
    settings = {"FORMULARY_EMBEDDING_MODEL": away.tei, "FORMULARY_EMBEDDING_API_KEY": "sk-secret"}
    settings["FORMULARY_DATABASE_URL"] = database
    with running(Endpoint(model="acme/other")) as other, running(away):
        assert formulary_now("reembed", "--to", other.tei, **settings).code == 0
        assert other.asked() > 0
        assert not any("Authorization" in headers for _, _, headers in other.requests)

        assert formulary_now("reembed", "--to", away.tei, **settings).code == 0
        assert all(headers["Authorization"] == "Bearer sk-secret" for _, _, headers in away.requests)


async def until_embedded(embedding: Embedding, text: str, *, model_id: str) -> None:
    """Ask for the vector of a text until there is one."""
    for _ in range(20 * SECONDS):
        if await embedding.vector(text, model_id=model_id) is not None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the endpoint is not used again")
