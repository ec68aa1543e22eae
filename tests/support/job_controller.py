"""Plays the Job controller and the kubelet, which the tests' API server lacks: Jobs begin and end as a test says."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from formulary_catalog.errors import FormularyError
from formulary_operator.api.names import PODS, Json
from formulary_operator.engines.job import JOBS
from formulary_operator.kube.client import KubeClient
from support.control_plane import Cluster
from support.kube_clients import connected

_PASS_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the container of a Job ends: its exit code, and what it leaves in its termination message."""

    code: int = 0
    message: str = ""
    reason: str = "BackoffLimitExceeded"
    """Why the Job failed, if it did."""
    pulled: bool = True
    """Whether there was an image. Where its time is over without one, its pod is deleted."""


SUCCEEDS = Ending(message='{"restarted":["checkout-1"]}')
FAILS = Ending(code=3, message="step restart failed with exit code 3")
EXPIRES = Ending(code=143, reason="DeadlineExceeded")
NOT_PULLED = Ending(code=143, reason="DeadlineExceeded", pulled=False)

Ends = Callable[[Mapping[str, Any]], Ending | None]
"""How a Job ends; None while it goes on."""


def succeed(job: Mapping[str, Any]) -> Ending | None:
    """Every Job succeeds at once."""
    return SUCCEEDS


class JobController:
    """Carries out the Jobs of some namespaces. `seen` has the uid of each, by namespace and name.

    `waits` is why the container of a Job that goes on does not begin, in the word of a kubelet; empty where it does.
    """

    def __init__(self, cluster: Cluster, *namespaces: str, ends: Ends) -> None:
        self.ends = ends
        self.waits = ""
        self.seen: dict[str, set[str]] = {}
        self._cluster = cluster
        self._namespaces = namespaces
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="job-controller")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        async with connected(self._cluster.kubeconfig) as client:
            while not self._stop.is_set():
                with suppress(FormularyError):  # whatever does not answer now is asked again
                    await self._pass(client)
                await asyncio.sleep(_PASS_SECONDS)

    async def _pass(self, client: KubeClient) -> None:
        for namespace in self._namespaces:
            async for page in client.pages(JOBS.path(namespace=namespace)):
                for job in page:
                    await self._carry_out(client, job)

    async def _carry_out(self, client: KubeClient, job: Json) -> None:
        metadata, status = job["metadata"], job.get("status") or {}
        self.seen.setdefault(f"{metadata['namespace']}/{metadata['name']}", set()).add(metadata["uid"])
        if status.get("conditions"):
            return
        pod = PODS.path(namespace=metadata["namespace"], name=f"{metadata['name']}-pod")
        if "startTime" not in status:
            if await client.get(pod) is None:
                await client.create(PODS.path(namespace=metadata["namespace"]), _pod(job))
            await _set_status(client, job, {"startTime": _now(), "active": 1})
        ending = self.ends(job)
        path = PODS.path(namespace=metadata["namespace"], name=f"{metadata['name']}-pod", subresource="status")
        if ending is None:
            if self.waits:
                await client.merge(path, {"status": _pod_status(job, {"waiting": {"reason": self.waits}})})
            return
        if ending.pulled:
            ended = {"exitCode": ending.code, "message": ending.message, "finishedAt": _now()}
            phase = "Failed" if ending.code else "Succeeded"
            await client.merge(path, {"status": _pod_status(job, {"terminated": ended}, phase=phase)})
        elif (found := await client.get(pod)) is not None:
            await client.delete(pod, uid=found["metadata"]["uid"])
        await _set_status(client, job, _job_status(ending))


@contextmanager
def job_controller(cluster: Cluster, *namespaces: str, ends: Ends = succeed) -> Iterator[JobController]:
    """One that runs until the end of the block; all Jobs succeed at once unless `ends` says otherwise."""
    controller = JobController(cluster, *namespaces, ends=ends)
    controller.start()
    try:
        yield controller
    finally:
        controller.stop()


def _pod(job: Json) -> Json:
    metadata, template = job["metadata"], job["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-pod",
            "namespace": metadata["namespace"],
            "labels": template["metadata"]["labels"],
        },
        "spec": template["spec"],
    }


def _pod_status(job: Json, state: Json, *, phase: str = "Pending") -> Json:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {
        "phase": phase,
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": state,
            }
        ],
    }


def _job_status(ending: Ending) -> Json:
    condition = {"status": "True", "lastTransitionTime": _now(), "lastProbeTime": _now()}
    if ending.code == 0:
        complete = {**condition, "type": "Complete"}
        return {"active": None, "succeeded": 1, "completionTime": _now(), "conditions": [complete]}
    failed = {**condition, "type": "Failed", "reason": ending.reason, "message": "the pod failed"}
    return {"active": None, "failed": 1, "conditions": [failed]}


async def _set_status(client: KubeClient, job: Json, status: Json) -> None:
    metadata = job["metadata"]
    path = JOBS.path(namespace=metadata["namespace"], name=metadata["name"], subresource="status")
    await client.merge(path, {"status": status})


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
