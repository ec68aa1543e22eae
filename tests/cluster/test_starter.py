"""The starter catalog applied to a real API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from formulary_catalog.errors import StartupError
from formulary_operator.admission.validator import Validator
from formulary_operator.api.names import WORKFLOWS
from formulary_operator.kube.client import KubeClient
from formulary_operator.starter import apply_starter, apply_starter_command
from support.admission import Place, judging
from support.cluster import fetch, objects
from support.control_plane import Cluster
from support.filling import starter_documents
from support.kube_clients import connected, connected_to
from support.manifest import text, workflow
from support.serving import listening


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connected(cluster.kubeconfig) as connection:
        yield connection


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(text(workflow(name)))
    return tmp_path


def _what(cluster: Cluster, namespace: str, name: str) -> str:
    what: str = cluster.get("rw", name, f"--namespace={namespace}")["spec"]["description"]["what"]
    return what


@pytest.mark.smoke
async def test_the_whole_starter_catalog_is_applied_and_comes_back_as_it_was_written(
    cluster: Cluster, namespace: str, client: KubeClient, starter_catalog: Path
) -> None:
    lines: list[str] = []
    report = await apply_starter(client, manifests=starter_catalog, namespace=namespace, echo=lines.append)
    documents = starter_documents(starter_catalog)
    assert report.applied == [document["metadata"]["name"] for document in documents]
    assert (report.kept, report.refused) == ([], [])
    assert lines[0] == f"applied  {report.applied[0]} {documents[0]['spec']['version']}"
    stored = await asyncio.to_thread(cluster.get, "rw", f"--namespace={namespace}")
    assert {item["metadata"]["name"]: item["spec"] for item in stored["items"]} == {
        document["metadata"]["name"]: document["spec"] for document in documents
    }


async def test_applying_again_brings_a_newer_release_and_leaves_what_others_changed(
    cluster: Cluster, namespace: str, client: KubeClient, manifests: Path
) -> None:
    await apply_starter(client, manifests=manifests, namespace=namespace)
    edited = '{"spec": {"version": "1.5.0", "description": {"what": "Does it our way."}}}'
    cluster.kubectl("patch", "rw", "first", f"--namespace={namespace}", "--type=merge", f"--patch={edited}")
    for name in ("first", "second"):
        (manifests / f"{name}.yaml").write_text(text(workflow(name, version="2.0.0", what="Does it better.")))
    lines: list[str] = []
    report = await apply_starter(client, manifests=manifests, namespace=namespace, echo=lines.append)
    assert (report.applied, report.kept) == (["second"], ["first"])
    assert lines == ["kept     first: changed by others, left as it is", "applied  second 2.0.0"]
    assert _what(cluster, namespace, "first") == "Does it our way."
    assert _what(cluster, namespace, "second") == "Does it better."


async def test_one_that_is_refused_is_named_and_the_others_are_applied(
    cluster: Cluster, namespace: str, manifests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifests / "broken.yaml").write_text(text(workflow("broken", version="latest")))
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    lines: list[str] = []
    with pytest.raises(StartupError, match="refused: broken; see the reasons above"):
        await apply_starter_command(manifests=manifests, namespace=namespace, webhook=False, echo=lines.append)
    assert lines[0].startswith("refused  broken: ")
    assert "spec.version" in lines[0]
    assert lines[-1] == "2 workflows applied, 0 left as others changed them, 1 refused"


async def test_without_the_kind_it_waits_for_a_while_and_then_says_what_to_install(manifests: Path) -> None:
    async with listening(Starlette()) as url, connected_to(url) as client:
        with pytest.raises(StartupError, match=r"serves no remediationworkflows .* install the CRDs first"):
            await apply_starter(client, manifests=manifests, namespace="shop", crd_seconds=0.5)


async def test_it_waits_for_the_webhook_which_records_the_author_of_every_workflow(
    place: Place, judge: Validator, manifests: Path, database: str
) -> None:
    lines: list[str] = []
    applying = asyncio.create_task(
        apply_starter(
            place.client, manifests=manifests, namespace=place.namespace, echo=lines.append, webhook_seconds=60
        )
    )
    async with judging(place, judge):
        report = await applying
    assert (report.applied, lines[0]) == (["first", "second"], "applied  first 1.0.0")
    seen = "select namespace, identity ->> 'username' from formulary.workflow_author"
    assert await asyncio.to_thread(fetch, database, seen) == [(place.namespace, "admin")] * 2


async def test_without_a_webhook_that_answers_it_goes_on_and_says_what_follows(
    cluster: Cluster, namespace: str, client: KubeClient, manifests: Path
) -> None:
    lines: list[str] = []
    report = await apply_starter(
        client, manifests=manifests, namespace=namespace, echo=lines.append, webhook_seconds=0.5
    )
    assert report.applied == ["first", "second"]
    assert lines[0].startswith("warning  the admission webhook did not answer within 0.5 s")
    names = [each["metadata"]["name"] for each in objects(cluster, WORKFLOWS, namespace=namespace)]
    assert names == ["first", "second"]


async def test_a_directory_without_manifests_is_an_error(client: KubeClient, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="holds no manifests"):
        await apply_starter(client, manifests=tmp_path, namespace="shop")
