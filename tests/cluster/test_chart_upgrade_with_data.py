"""The release before, with its programs and what they stored, is upgraded to this one by `helm upgrade`.

It is the last tag, or before the first one a commit whose database no later one refuses. Its chart, CRDs and programs
are taken from git and run with the packages of today.
"""

import asyncio
import dataclasses
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import helm_python
import pytest

from formulary_catalog.domain.access import INVOKE, SEE_WORKFLOWS, USE_CONTEXTS
from formulary_catalog.embedding.model import BUNDLED_DIRECTORY
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import charts, databases
from support.agent import answer_of, call, found
from support.cluster import condition
from support.cluster_runs import approve, await_phase, incident, remedy, status
from support.control_plane import ControlPlane, control_plane
from support.job_controller import job_controller
from support.manifest import workflow
from support.operator_process import Daemon
from support.pods import Container, container, running
from support.releases import Release
from support.roles import bind, rbac
from support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
FIRST = "4d0641e2"
HOME, SHOP = "formulary", "shop"
VALUES: dict[str, Any] = {
    "database": charts.EXTERNAL["database"],
    "execution": {"enabled": True, "namespaces": [SHOP]},
    "webhook": {"enabled": False},
}
INCIDENT = {"X-Remediation-Id": "rr-production"}
SEARCH = ("search_workflow_catalog", {"query": "OOMKilled critical restart"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A release on an API server and a database, whose programs are those of `tree`."""

    cluster: ControlPlane
    release: Release
    dsn: str
    token: str

    def served(self) -> dict[str, tuple[str, str, str]]:
        """Uid, standing and version id of each workflow."""
        workflows = self.release.objects("rw")
        states = {each["metadata"]["name"]: each.get("status", {}) for each in workflows}
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in workflows}
        return {
            name: (uids[name], state.get("catalogStatus", ""), state.get("versionId", ""))
            for name, state in states.items()
        }

    def called(self, server: Daemon, tool: str, arguments: dict[str, Any]) -> Any:
        """What an agent is answered for the incident."""
        headers = {"Authorization": f"Bearer {self.token}", **INCIDENT}
        return asyncio.run(call(server.url, tool, arguments, headers=headers))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the release before."""
    tags = _git("tag", "--list", "v*", "--sort=-version:refname", "--merged").split()
    archive = _git("archive", next(iter(tags), FIRST), "catalog", "charts", "operator", "pyproject.toml", binary=True)
    home = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(archive)) as members:
        members.extractall(home, filter="data")
    model = home / BUNDLED_DIRECTORY.relative_to(ROOT)
    model.symlink_to(BUNDLED_DIRECTORY)
    return home


@pytest.mark.parametrize("reuse_values", [True, False], ids=["reuse-values", "reset-then-reuse-values"])
def test_what_was_served_and_what_waits_goes_on_after_an_upgrade(
    before: Path, postgres: EmbeddedPostgres, reuse_values: bool
) -> None:
    with ExitStack() as stack:
        installed = stack.enter_context(_installed(before, postgres=postgres))
        cluster, release = installed.cluster, installed.release
        with _running(installed, tree=before) as server:
            served = installed.served()
            assert "restart" in found(installed.called(server, *SEARCH))
            wanted = {"workflow_id": "restart", "input": {"REPLICAS": 2, "TOKEN": "hush"}}
            run = answer_of(installed.called(server, "invoke_workflow", wanted))["invocation_id"]
            await_phase(cluster, run, "AwaitingApproval", namespace=SHOP)
        key = release.get("secret", "formulary-input-key")["data"]

        release.upgrade({}, chart=charts.chart(), reuse_values=reuse_values)

        with _running(installed, tree=ROOT) as server:
            assert {state[1] for state in served.values()} == {"Active"}
            assert installed.served() == served
            assert release.get("secret", "formulary-input-key")["data"] == key
            answer = installed.called(server, *SEARCH)
            assert "restart" in found(answer)
            assert answer_of(answer)["search_mode"] == "hybrid"
            assert status(cluster, run, namespace=SHOP)["phase"] == "AwaitingApproval"
            approve(installed.dsn, run, namespace=SHOP)
            with job_controller(cluster, SHOP):
                await_phase(cluster, run, "Succeeded", namespace=SHOP)
            cluster.apply(workflow("new"), namespace=HOME)
            wait_until(lambda: installed.served()["new"][1] == "Active", what="a new workflow to be served")
        asyncio.run(_require_sound_trail(installed.dsn))


@contextmanager
def _installed(tree: Path, *, postgres: EmbeddedPostgres) -> Iterator[Installed]:
    """The release of a tree, without running programs, with workflows, an incident and an agent."""
    with ExitStack() as stack:
        dsn = stack.enter_context(_database(postgres))
        cluster = stack.enter_context(control_plane())
        for namespace in (HOME, SHOP):
            cluster.create_namespace(namespace)
        addresses = {
            key: dsn.replace("//postgres@", f"//{user}@")
            for key, user in {
                "uri": "postgres",
                "server-uri": "formulary_server",
                "operator-uri": "formulary_writer",
            }.items()
        }
        trees = [tree]

        def run(job: dict[str, Any]) -> None:
            with container(cluster, job, namespace=HOME) as found:
                ready = _of_tree(found, trees.pop() if trees else ROOT)
                done = subprocess.run(
                    [sys.executable, *ready.command[1:]],
                    env=os.environ | ready.environment,
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                assert done.returncode == 0, done.stderr

        chart = helm_python.Chart.load(tree / "charts" / "formulary")
        release = Release(cluster, namespace=HOME, addresses=addresses, chart=chart, run=run)
        release.install(VALUES)
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        token = cluster.service_account(HOME, "agent")
        rules = [
            {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
            for right in (SEE_WORKFLOWS, USE_CONTEXTS, INVOKE)
        ]
        cluster.apply(rbac("ClusterRole", "agent", rules=rules))
        bind(cluster, "agent", to=("agent", HOME))
        cluster.apply(remedy(), workflow("told-in-words"), namespace=HOME)
        cluster.apply(incident("production", namespace=SHOP, environment="production"), namespace=SHOP)
        yield Installed(cluster=cluster, release=release, dsn=dsn, token=token)


@contextmanager
def _database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """An empty database with the roles of server and operator."""
    with asyncio.Runner() as runner:
        empty = databases.empty_database(postgres)
        dsn = runner.run(empty.__aenter__())
        try:
            runner.run(databases.create_roles(dsn))
            yield dsn
        finally:
            runner.run(empty.__aexit__(None, None, None))


@contextmanager
def _running(installed: Installed, *, tree: Path) -> Iterator[Daemon]:
    """The server, beside its operator, both of this tree, once all workflows are served."""
    with ExitStack() as stack:
        daemons = {}
        for name, probe in (("operator", 8081), ("server", 8080)):
            pod = installed.release.get("deployment", f"formulary-{name}")["spec"]["template"]["spec"]
            ready = stack.enter_context(container(installed.cluster, pod, namespace=HOME, name=f"{name}-0"))
            daemons[name] = stack.enter_context(running(_of_tree(ready, tree), probe=probe))
        for daemon in daemons.values():
            daemon.wait_ready()
        wait_until(
            lambda: all(
                condition(each, kind).get("status") == "True"
                for each in installed.release.objects("rw")
                for kind in ("Ready", "Indexed")
            ),
            what="the workflows to be served",
            shown=daemons["operator"].output,
        )
        yield daemons["server"]
        assert [line for daemon in daemons.values() for line in daemon.crashes()] == []


def _of_tree(ready: Container, tree: Path) -> Container:
    """The same with the packages of this tree, whose commands may begin elsewhere in them."""
    packages = os.pathsep.join(str(tree / package) for package in ("catalog", "operator"))
    program, *arguments = ready.command
    commands = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = commands[program].partition(":")
    start = f"import sys; from {module} import {function}; sys.argv[0] = {program!r}; {function}()"
    return dataclasses.replace(
        ready,
        command=["python", "-c", start, *arguments],
        environment={**ready.environment, "PYTHONPATH": packages},
    )


async def _require_sound_trail(dsn: str) -> None:
    async with TraceReader.open(dsn) as reader:
        assert (await reader.examine(keys=[])).findings == ()


def _git(*arguments: str, binary: bool = False) -> Any:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=not binary).stdout
