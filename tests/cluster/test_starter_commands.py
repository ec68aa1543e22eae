"""The commands of the starter catalog on a real API server: each is taken, and the undo brings the old state back."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from formulary_catalog.domain.entry import CatalogEntry
from support.control_plane import Cluster
from support.filling import entry, starter_documents
from support.starter_world import StarterWorld

STARTER = Path(__file__).parents[2] / "catalog" / "workflows"
WORKFLOWS = [entry(document) for document in starter_documents(STARTER)]
SAMPLE = 8
"""The first tier tries one workflow of so many: all of them take five minutes."""
STOPS: Mapping[str, set[str]] = {
    # Without nodes and controllers, nobody serves, recreates or expands anything.
    "certificate-expired-renew": {"verify"},
    "controlplane-restart-static-pod": {"verify"},
    "dns-restore-corefile": {"verify-steady"},
    "kube-proxy-restart": {"verify-steady", "undo-release"},
    "node-disk-pressure-prune-images": {"verify"},
    "node-raise-kernel-limit": {"verify"},
    "node-vacuum-journal": {"verify"},
    "oom-right-size-jvm-heap": {"verify-heap"},
    "pdb-deadlock-scale-up": {"verify"},
    "pvc-full-expand": {"expand", "lower-request"},
    "pvc-recreate-access-mode": {"restore"},
    "wal-drop-stale-slot": {"verify"},
    # They ask for an object of some age.
    "helm-release-unlock": {"check-pending"},
    "pod-delete-terminating": {"check-terminating"},
    # Fields and kinds that Kubernetes 1.20 does not have.
    "job-backoff-fix-and-resume": {"create-suspended", "review", "resume", "suspend-again"},
    "job-deadline-extend": {"run-now"},
    "job-deadline-split-batch": {"create-indexed", "remove-split"},
}
"""Steps that fail here and do not where the workflow is for."""
KEEPS: Mapping[str, set[str]] = {
    "acme-order-recreate": {"CertificateRequest/web-1"},
    "evicted-clean-and-rebalance": {"Pod/evicted"},
    "imagepull-renew-pull-secret": {"Pod/waiting"},
    "job-backoff-rerun-clean": {"Job/import"},
    "kubelet-approve-serving-csr": {"Node/NS-worker"},
    "mount-reattach-stale-volume": {"Pod/db-0", "VolumeAttachment/csi-0a1b2c"},
    "mount-restart-csi-driver": {"Pod/waiting"},
    "node-notready-drain-replace": {"Machine/worker-1"},
    "node-notready-restart-kubelet": {"Node/NS-worker"},
    "node-pid-pressure-recycle": {"Pod/db-0", "Node/NS-worker"},
    "pod-delete-terminating": {"Pod/waiting"},
    "pvc-recreate-access-mode": {"PersistentVolumeClaim/data"},
    "statefulset-stuck-force-rollout": {"Pod/db-0"},
}
"""What is gone for good, and what a controller makes again."""


@pytest.fixture(scope="module")
def world(cluster: Cluster, shared_namespace: str, tmp_path_factory: pytest.TempPathFactory) -> StarterWorld:
    return StarterWorld(cluster, shared_namespace, tmp_path_factory.mktemp("starter"))


@pytest.mark.parametrize(
    "workflow",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if number % SAMPLE else [])
        for number, each in enumerate(WORKFLOWS)
    ],
)
def test_each_command_is_taken_and_undone(world: StarterWorld, workflow: CatalogEntry) -> None:
    spec = workflow.workflow.spec
    given = world.values(workflow.name)
    values = {each.name: given[each.name] for each in spec.parameters}
    before = world.pristine
    failed = {}
    with world.stale_api() if "API_SERVICE" in values else nullcontext():
        for step in [*spec.steps, *spec.rollback_steps]:
            if problem := world.run(step, values):
                failed[step.name] = problem
    after = world.state()
    differing = {name for name, content in before.items() if after.get(name) != content}
    if failed or differing or after.keys() - before.keys():
        world.restore()
    assert {name: text for name, text in failed.items() if name not in STOPS.get(workflow.name, ())} == {}
    assert differing <= KEEPS.get(workflow.name, set())
