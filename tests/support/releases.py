"""Releases of the chart in a real API server, which has no controllers: Jobs are completed by the tests."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from helm_python import Chart, Config

from support import charts
from support.control_plane import Cluster, KubectlFailed

_TIMEOUT = 60
_POLL_SECONDS = 0.2
_DONE = {
    "succeeded": 1,
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:00:01Z",
    "conditions": [{"type": "Complete", "status": "True"}],
}


class Release:
    """A release of the chart under one name in one namespace.

    `addresses` of the database are what is in the Secret that the examples name. `run` is what a Job's pod would do,
    given its spec; without it Jobs just succeed. `chart` is another one than that of this tree, or its address in a
    registry.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        name: str = "formulary",
        addresses: Mapping[str, str] = MappingProxyType({"uri": "postgresql://db.test/formulary"}),
        chart: str | Chart = "",
        run: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._addresses = dict(addresses)
        self._run = run
        self.name = name
        self.namespace = namespace
        self._chart = chart or charts.chart()
        self._helm = Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace)
        self.jobs: list[str] = []
        """The Jobs that were completed so far, in order."""

    def install(self, values: dict[str, Any]) -> None:
        """`helm install`."""
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "formulary-database"}}
        self._cluster.create_namespace(self.namespace)
        self._cluster.apply({**secret, "stringData": self._addresses}, namespace=self.namespace)
        with self._jobs_completed():
            self._helm.install(
                self._chart,
                self.name,
                values,
                namespace=self.namespace,
                timeout=_TIMEOUT,
                plain_http=isinstance(self._chart, str),
            )

    def upgrade(self, values: dict[str, Any], *, chart: Chart | None = None, reuse_values: bool = False) -> None:
        """`helm upgrade`, perhaps to another chart.

        Without any values Helm takes those of the release, over the defaults of the new chart, as
        `--reset-then-reuse-values` does; `reuse_values` keeps the defaults of the old one.
        """
        self._chart = chart or self._chart
        with self._jobs_completed():
            self._helm.upgrade(
                self._chart,
                self.name,
                values,
                namespace=self.namespace,
                timeout=_TIMEOUT,
                reuse_values=reuse_values,
            )

    def rollback(self) -> None:
        """`helm rollback` to the revision before."""
        with self._jobs_completed():
            self._helm.rollback(self.name, timeout=_TIMEOUT)

    def uninstall(self) -> None:
        """`helm uninstall`."""
        self._helm.uninstall(self.name, timeout=_TIMEOUT)

    def revisions(self) -> list[str]:
        """The states of its revisions, oldest first."""
        return [str(revision["status"]) for revision in self._helm.history(self.name)]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object of its namespace. Raises `KubectlFailed` if it is not there."""
        return self._cluster.get(kind, name, f"--namespace={self.namespace}")

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """All objects of a kind, or of kinds with commas, in its namespace or, without namespaces, anywhere."""
        items: list[dict[str, Any]] = self._cluster.get(kind, f"--namespace={self.namespace}")["items"]
        return items

    def names(self, kind: str) -> set[str]:
        """The names of these."""
        return {found["metadata"]["name"] for found in self.objects(kind)}

    @contextmanager
    def _jobs_completed(self) -> Iterator[None]:
        """Play the Job controller meanwhile. Raises what a Job's `run` raised."""
        stop = threading.Event()
        with ThreadPoolExecutor(max_workers=1) as pool:
            player = pool.submit(self._complete_jobs, stop)
            try:
                yield
            finally:
                stop.set()
                player.result()

    def _complete_jobs(self, stop: threading.Event) -> None:
        stopping = False
        while not stopping:
            stopping = stop.wait(_POLL_SECONDS)  # looked at once more then: not everything waits for its Jobs
            for job in self.objects("jobs"):
                if not job.get("status", {}).get("conditions"):
                    self._complete(job["metadata"]["name"], pod=job["spec"]["template"]["spec"])

    def _complete(self, job: str, *, pod: dict[str, Any]) -> None:
        if self._run is not None:
            self._run(pod)
        patch = json.dumps({"status": _DONE})
        place = (f"--namespace={self.namespace}", "--subresource=status", "--type=merge", f"--patch={patch}")
        try:
            self._cluster.kubectl("patch", "job", job, *place)
        except KubectlFailed:
            return  # deleted meanwhile
        self.jobs.append(job)
