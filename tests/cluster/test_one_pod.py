"""The chart with no values: one pod, with its own rights and database, from the install to an agent's answer."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.control_plane import ControlPlane, control_plane
from support.embedded import passable_directory
from support.filling import starter_documents
from support.operator_process import Daemon
from support.pods import Container, container, running
from support.releases import Release
from support.waiting import wait_until

HOME, SHOP, AGENTS = "formulary", "shop", "agents"
TARGET = f"{SHOP}/Deployment/checkout"
_VOLUME = "/var/lib/formulary"
_JOB_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A release without values, whose containers run."""

    cluster: ControlPlane
    release: Release
    server: Daemon

    def active(self) -> int:
        """How many workflows say that they are served."""
        workflows = self.release.objects("rw")
        return sum(each.get("status", {}).get("catalogStatus") == "Active" for each in workflows)

    def asked(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        """What an agent with the roles of the notes is answered."""
        token = self.cluster.service_account(AGENTS, "holmes")
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.post(f"{self.server.url}{path}", json=body, headers=headers, timeout=60)


def _on_volume(found: Container, volume: Path) -> Container:
    """The same with the volume of the pod where it is here."""
    return Container(
        command=[part.replace(_VOLUME, str(volume)) for part in found.command],
        environment={name: value.replace(_VOLUME, str(volume)) for name, value in found.environment.items()},
        ports=found.ports,
    )


@pytest.fixture(scope="module")
def pod() -> Iterator[Pod]:
    """Installed, with the starter catalog applied by its Job, and an agent that may ask for dry runs in a shop."""
    with control_plane() as cluster, ExitStack() as stack:
        for namespace in (HOME, SHOP, AGENTS):
            cluster.create_namespace(namespace)

        def run(job: dict[str, Any]) -> None:
            with container(cluster, job, namespace=HOME) as ready:
                program = str(Path(sys.executable).with_name(ready.command[0]))
                done = subprocess.run(
                    [program, *ready.command[1:]],
                    env=ready.environment,
                    capture_output=True,
                    text=True,
                    timeout=_JOB_SECONDS,
                )
                assert done.returncode == 0, done.stderr

        release = Release(cluster, namespace=HOME, run=run)
        release.install({})
        spec = release.get("deployment", "formulary")["spec"]["template"]["spec"]
        volume = stack.enter_context(passable_directory()) / "data"
        daemons = {}
        for each in spec["containers"]:
            ready = stack.enter_context(container(cluster, {**spec, "containers": [each]}, namespace=HOME))
            probe = each["ports"][0]["containerPort"]
            daemons[each["name"]] = stack.enter_context(running(_on_volume(ready, volume), probe=probe))
            if each["name"] == "server":
                daemons["server"].wait_ready()  # a kubelet would restart the operator until the database is there
        daemons["operator"].wait_ready()
        cluster.service_account(AGENTS, "holmes")
        for namespace in (HOME, SHOP):
            for role in ("agent", "invoker"):
                account = f"--serviceaccount={AGENTS}:holmes"
                binding = f"--clusterrole={HOME}-formulary-{role}"
                cluster.kubectl("create", "rolebinding", f"holmes-{role}", binding, account, f"--namespace={namespace}")
        reader = ("create", "role", "reader", "--verb=get", "--resource=deployments.apps", f"--namespace={SHOP}")
        cluster.kubectl(*reader)
        bound = ("--role=reader", f"--serviceaccount={AGENTS}:holmes", f"--namespace={SHOP}")
        cluster.kubectl("create", "rolebinding", "reader", *bound)
        cluster.kubectl("label", "namespace", SHOP, "environment=production", "constraint.formulary.dev/restarts=no")
        cluster.kubectl("create", "deployment", "checkout", "--image=checkout", f"--namespace={SHOP}")
        yield Pod(cluster=cluster, release=release, server=daemons["server"])


def test_one_line_leads_to_an_agents_answer_under_the_constraints_of_a_namespace(
    pod: Pod, starter_catalog: Path
) -> None:
    documents = starter_documents(starter_catalog)
    wait_until(
        lambda: pod.active() == len(documents),
        what="the starter catalog to be served",
        shown=pod.server.output,
        seconds=120,
    )
    answer = pod.asked("/api/v1/workflows/search", {"query": "OOMKilled critical", "target": TARGET})

    assert answer.status_code == 200, answer.text
    restarting = {each["metadata"]["name"]: each["spec"]["customLabels"] for each in documents}
    found = [each["workflow_id"] for each in answer.json()["workflows"]]
    assert answer.json()["search_mode"] == "hybrid"
    assert found
    assert {str(restarting[name]["restarts"]) for name in found} == {"no"}
