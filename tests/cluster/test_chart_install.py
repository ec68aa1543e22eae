"""The chart in a real API server: installed, upgraded, rolled back, uninstalled."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError, RegistryClient

from support import charts
from support.control_plane import ControlPlane, control_plane
from support.manifest import invocation, workflow
from support.oci_registry import oci_registry
from support.releases import Release
from support.scripts import script

UPSTREAMS = ("remediationworkflows.kubernaut.ai", "aianalyses.kubernaut.ai")
CRDS = (
    *UPSTREAMS,
    "workflowinvocations.formulary.dev",
    "governancecontracts.formulary.dev",
    "invocationapprovals.formulary.dev",
)
CLUSTERS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusters.postgresql.cnpg.io"},
    "spec": {
        "group": "postgresql.cnpg.io",
        "scope": "Namespaced",
        "names": {"kind": "Cluster", "plural": "clusters"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The kind of CloudNativePG, without its schema and its operator."""
IMAGE = f"registry.example/formulary@sha256:{'0a' * 32}"
UPSTREAM = Path(__file__).parents[1] / "support" / "upstream_crds"


@pytest.fixture(scope="module")
def bare() -> Iterator[ControlPlane]:
    """An API server of this module's own, since CRDs belong to the whole cluster."""
    with control_plane() as plane:
        yield plane


@pytest.fixture
def release(bare: ControlPlane) -> Iterator[Release]:
    """A release that is not installed yet, in a cluster without our CRDs."""
    yield Release(bare, namespace=f"chart-{uuid.uuid4().hex[:8]}")
    bare.kubectl("delete", "crd", "--ignore-not-found", *CRDS)


def crd(cluster: ControlPlane, name: str = CRDS[0]) -> dict[str, Any]:
    return cluster.get("crd", name)


def test_a_release_lives_and_leaves_the_workflows_behind(bare: ControlPlane, release: Release) -> None:
    release.install(charts.EXTERNAL)
    assert release.names("deployments") == {"formulary-server", "formulary-operator"}
    assert len(release.jobs) == 1
    bare.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    bare.apply(workflow("kept"), namespace=release.namespace)

    release.upgrade({**charts.EXTERNAL, "server": {"replicas": 3}, "image": {"tag": "9.9.9"}})
    assert release.get("deployment", "formulary-server")["spec"]["replicas"] == 3
    assert len(release.jobs) == 2

    release.rollback()
    assert release.get("deployment", "formulary-server")["spec"]["replicas"] == 2
    assert release.revisions() == ["superseded", "superseded", "deployed"]

    release.uninstall()
    assert release.names("deployments,services,serviceaccounts,networkpolicies,roles,rolebindings,jobs") == set()
    assert release.get("rw", "kept")["spec"] == workflow("kept")["spec"]

    release.install(charts.EXTERNAL)
    assert release.get("rw", "kept")["spec"] == workflow("kept")["spec"]
    release.uninstall()


@pytest.mark.long
def test_the_chart_of_a_release_is_pushed_to_a_registry_and_installed_from_there(
    bare: ControlPlane, release: Release, tmp_path: Path
) -> None:
    packed = tmp_path / "formulary.tgz"
    packed.write_bytes(script("release").packed_chart(IMAGE))
    with oci_registry() as address, RegistryClient(plain_http=True, credentials_file=tmp_path / "none") as client:
        client.push(packed, f"oci://{address}/charts")
        (tmp_path / "pulled").mkdir()
        client.pull(f"oci://{address}/charts/formulary", destination=tmp_path / "pulled")
        pulled = Release(bare, namespace=release.namespace, chart=f"oci://{address}/charts/formulary")
        pulled.install({})

    (archive,) = (tmp_path / "pulled").iterdir()
    assert archive.read_bytes() == packed.read_bytes()
    pods = [each["spec"]["template"]["spec"] for each in pulled.objects("statefulsets,deployments")]
    assert {container["image"] for pod in pods for container in pod["containers"]} == {IMAGE}
    pulled.uninstall()


def test_another_release_leaves_the_crds_of_the_first_alone(bare: ControlPlane, release: Release) -> None:
    release.install(charts.EXTERNAL)
    before = crd(bare)
    other = Release(bare, namespace=f"{release.namespace}-other", name="second")

    other.install({**charts.EXTERNAL, "crds": {"keep": False}, "commonLabels": {"second": "yes"}})
    other.uninstall()

    after = crd(bare)
    assert (after["spec"], after["metadata"]) == (before["spec"], before["metadata"])
    release.uninstall()


def test_crds_that_are_there_already_are_left_alone_even_at_an_upgrade(bare: ControlPlane, release: Release) -> None:
    bare.kubectl("apply", f"--filename={UPSTREAM}")
    bare.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *UPSTREAMS)
    before = crd(bare)

    release.install(charts.EXTERNAL)
    release.upgrade({**charts.EXTERNAL, "server": {"replicas": 3}})
    release.uninstall()

    after = crd(bare)
    assert (after["spec"], after["metadata"]) == (before["spec"], before["metadata"])


def test_crds_go_with_the_release_if_they_are_not_to_be_kept(bare: ControlPlane, release: Release) -> None:
    release.install({**charts.EXTERNAL, "crds": {"keep": False}})
    release.uninstall()

    bare.kubectl("wait", "--for=delete", "--timeout=30s", *(f"crd/{name}" for name in CRDS))


def test_runs_are_not_switched_off_while_one_is_under_way(bare: ControlPlane, release: Release) -> None:
    release.install(charts.EXTERNAL)
    bare.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    of_nodes, of_others = "formulary-runs", f"{release.namespace}-others"
    bare.kubectl("create", "namespace", of_others)
    for namespace in (release.namespace, of_nodes, of_others):
        bare.apply(invocation("heals"), namespace=namespace)
    off = {**charts.EXTERNAL, "execution": {"mode": "off"}}
    watching = {**off, "catalog": {"watchNamespaces": [release.namespace]}}

    def stands(phase: str, *, namespace: str = release.namespace) -> None:
        patch = ("--subresource=status", "--type=merge", f"--patch={json.dumps({'status': {'phase': phase}})}")
        bare.kubectl("patch", "wfi", "heals", f"--namespace={namespace}", *patch)

    def is_refused(values: dict[str, Any], *, for_one_in: str) -> None:
        with pytest.raises(HelmError, match=f"run heals in namespace {for_one_in} is under way"):
            release.upgrade(values)

    stands("Running")
    is_refused(off, for_one_in=release.namespace)
    stands("Succeeded")
    stands("Running", namespace=of_nodes)
    is_refused(watching, for_one_in=of_nodes)
    stands("Succeeded", namespace=of_nodes)
    stands("Running", namespace=of_others)
    is_refused(off, for_one_in=of_others)
    release.upgrade(watching)
    assert "FORMULARY_EXECUTION" in str(release.get("deployment", "formulary-operator"))
    release.uninstall()


def test_the_bundled_database_keeps_its_passwords_and_its_volume(release: Release) -> None:
    values = charts.ci_values()["trial"]
    release.install(values)
    before = release.get("secret", "formulary-postgres")["data"]
    assert release.names("deployments") == {"formulary"}
    assert {job.rpartition("-")[0] for job in release.jobs} <= {"formulary-migrate", "formulary-starter"}

    release.upgrade({**values, "image": {"tag": "9.9.9"}})
    assert release.get("secret", "formulary-postgres")["data"] == before

    release.uninstall()
    release.install(values)
    assert release.get("secret", "formulary-postgres")["data"] == before
    release.uninstall()


def test_the_roles_of_a_cluster_of_cloudnativepg_keep_their_passwords(bare: ControlPlane, release: Release) -> None:
    bare.apply(CLUSTERS)
    bare.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", CLUSTERS["metadata"]["name"])
    values = {"database": {"mode": "cnpg"}}

    def secrets() -> list[Any]:
        return [release.get("secret", f"formulary-postgres-{user}")["data"] for user in ("server", "operator")]

    release.install(values)
    before = secrets()
    release.upgrade({**values, "image": {"tag": "9.9.9"}})
    assert secrets() == before
    release.uninstall()
    release.install(values)
    assert secrets() == before
    release.uninstall()


def test_a_webhook_keeps_the_path_and_the_authority_that_the_operator_gave_it(
    bare: ControlPlane, release: Release
) -> None:
    values = {**charts.EXTERNAL, "webhook": {"enabled": True}}
    release.install(values)
    name = f"{release.namespace}-formulary"
    count = len(bare.get("validatingwebhookconfiguration", name)["webhooks"])
    patch = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/{field}", "value": value}
        for index in range(count)
        for field, value in (("caBundle", "Q0E="), ("service/path", "/validate/secret"))
    ]
    bare.kubectl("patch", "validatingwebhookconfiguration", name, "--type=json", f"--patch={json.dumps(patch)}")

    release.upgrade({**values, "webhook": {"enabled": True, "timeoutSeconds": 7}})

    webhooks = bare.get("validatingwebhookconfiguration", name)["webhooks"]
    assert [webhook["failurePolicy"] for webhook in webhooks] == ["Ignore", "Ignore"]
    assert {webhook["timeoutSeconds"] for webhook in webhooks} == {7}
    clients = [webhook["clientConfig"] for webhook in webhooks]
    assert {(client["caBundle"], client["service"]["path"]) for client in clients} == {("Q0E=", "/validate/secret")}
    release.uninstall()


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["namespaced", "open"])
def test_the_api_server_takes_every_object_it_knows(bare: ControlPlane, release: Release, name: str) -> None:
    values = charts.ci_values()[name]
    for namespace in (*values.get("catalog", {}).get("watchNamespaces", []), "catalog-runs"):
        bare.create_namespace(namespace)

    # The CRDs of other operators are not here.
    release.install({key: value for key, value in values.items() if key not in ("monitoring", "kagent")})
    release.uninstall()
