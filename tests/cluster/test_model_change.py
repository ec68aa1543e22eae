"""The embedding model changes while an operator and a server run, whose settings still name the one before."""

from pathlib import Path

import httpx2
import pytest

from formulary_catalog.embedding import Embedder
from formulary_catalog.embedding.model import locate
from support.asking import search
from support.cluster import OperatorAccount
from support.commands import formulary_now
from support.control_plane import Cluster
from support.manifest import workflow
from support.models import other_model
from support.operator_process import operator, server
from support.waiting import wait_until


def model_of(cluster: Cluster, name: str, *, namespace: str) -> str:
    """The model that an object's status names; empty while it names none."""
    status = cluster.get("rw", name, f"--namespace={namespace}").get("status", {})
    return str(status.get("embeddingModel", ""))


@pytest.mark.smoke
@pytest.mark.parametrize("notice", [0, pytest.param(30, marks=pytest.mark.long)])
async def test_objects_are_embedded_by_the_model_that_serves_before_and_after_a_change(
    cluster: Cluster,
    namespace: str,
    database: str,
    operator_account: OperatorAccount,
    embedder: Embedder,
    tmp_path: Path,
    notice: int,
) -> None:
    directory = other_model(tmp_path / "other")
    other = locate(str(directory)).id
    with (
        operator(dsn=database, kubeconfig=operator_account.kubeconfig, resync_seconds="3600") as running,
        server(dsn=database) as serving,
    ):
        running.start().wait_ready()
        serving.start().wait_ready()
        cluster.apply(workflow("before"), namespace=namespace)
        wait_until(lambda: model_of(cluster, "before", namespace=namespace), what="the first object to be embedded")
        assert model_of(cluster, "before", namespace=namespace) == embedder.model_id

        arguments = ("--to", str(directory), "--database-url", database, "--notice", str(notice))
        changed = formulary_now("reembed", *arguments)
        assert changed.code == 0, changed.err
        if notice:  # else the server has to load the model first
            assert search(serving.url, "restart")["search_mode"] == "hybrid"

        cluster.apply(workflow("after"), namespace=namespace)
        wait_until(lambda: model_of(cluster, "after", namespace=namespace), what="the second object to be embedded")
        assert model_of(cluster, "after", namespace=namespace) == other
        wait_until(
            lambda: httpx2.get(f"{serving.url}/readyz", timeout=10).json()["model"] == other,
            what="the server to follow",
        )
        assert search(serving.url, "restart")["search_mode"] == "hybrid"
        assert [hit["workflow_id"] for hit in search(serving.url, "after")["workflows"]].count("after") == 1
        assert (running.crashes(), serving.crashes()) == ([], [])
