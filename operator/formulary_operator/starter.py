"""The starter catalog in a cluster: the manifests that ship with the product, applied as objects.

The command `apply-starter` calls it, as a Job of the chart. Where there is an admission webhook it is waited for: the
author of what is applied before it answers is unknown for good, and each run of it awaits an approval.
"""

import asyncio
import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from formulary_catalog.domain.workflows.annotated import annotated
from formulary_catalog.errors import StartupError, Unavailable
from formulary_operator.api.names import WORKFLOWS, Json
from formulary_operator.kube.client import NOT_DECLARED, KubeClient, KubernetesRefused

MANAGER = "formulary-starter"
"""Field manager of what is applied here."""

CRD_SECONDS = 60.0
WEBHOOK_SECONDS = 240.0
"""How long the webhook is waited for: the operator starts once the database is made and migrated. Helm waits for five
minutes, since the Job is a hook."""

_POLL_SECONDS = 1.0
_DENIED = 'admission webhook "workflows.formulary.dev" denied the request'
_HIDDEN = "\u202e"
"""A character that the webhook refuses in a workflow and that any schema of the kind lets pass."""


@dataclass(slots=True, kw_only=True)
class StarterReport:
    """Names of workflows: applied, left alone because somebody changed them, refused by the API server."""

    applied: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        refused = f", {len(self.refused)} refused" if self.refused else ""
        return f"{len(self.applied)} workflows applied, {len(self.kept)} left as others changed them{refused}"


async def apply_starter_command(*, manifests: Path, namespace: str, webhook: bool, echo: Callable[[str], None]) -> None:
    """Apply with the identity of this process, a line for each object and one for all.

    With a `webhook` that is waited for first.

    Raises:
        StartupError: the manifests, the API server or the kind are not there, or an object was refused.
        KubernetesUnavailable: the API server went away.
    """
    client = await KubeClient.connect()
    try:
        report = await apply_starter(
            client,
            manifests=manifests,
            namespace=namespace,
            echo=echo,
            webhook_seconds=WEBHOOK_SECONDS if webhook else 0,
        )
    finally:
        await client.close()
    echo(str(report))
    if report.refused:
        raise StartupError(f"refused: {', '.join(report.refused)}; see the reasons above")


async def apply_starter(
    client: KubeClient,
    *,
    manifests: Path,
    namespace: str,
    echo: Callable[[str], None] = print,
    crd_seconds: float = CRD_SECONDS,
    webhook_seconds: float = 0,
) -> StarterReport:
    """Apply every manifest of a directory into a namespace; what others changed of an object stays theirs.

    Waits up to `crd_seconds` for the kind to be served, then up to `webhook_seconds` for the webhook. After that it
    goes on without the webhook.

    Raises:
        StartupError: the directory holds no manifests, or the kind is not served in time.
        KubernetesUnavailable: the API server went away.
    """
    documents = await asyncio.to_thread(_documents, manifests)
    await _served(client, seconds=crd_seconds)
    if webhook_seconds and not await _judged(client, documents[0], namespace=namespace, seconds=webhook_seconds):
        echo(
            f"warning  the admission webhook did not answer within {webhook_seconds:g} s; the author of what is "
            "applied now stays unknown, so that its runs await an approval"
        )
    report = StarterReport()
    for document in documents:
        await _apply(client, document, namespace=namespace, report=report, echo=echo)
    return report


async def _apply(
    client: KubeClient,
    document: Json,
    *,
    namespace: str,
    report: StarterReport,
    echo: Callable[[str], None],
) -> None:
    name = document["metadata"]["name"]
    path = WORKFLOWS.path(namespace=namespace, name=name)
    body = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    try:
        try:
            await client.apply(path, body, manager=MANAGER)
        except KubernetesRefused as error:
            if NOT_DECLARED not in str(error):
                raise
            await client.apply(path, annotated(body), manager=MANAGER)  # under the CRD of Kubernaut
    except KubernetesRefused as error:
        if error.status == 409:
            report.kept.append(name)
            echo(f"kept     {name}: changed by others, left as it is")
        else:
            report.refused.append(name)
            echo(f"refused  {name}: {error}")
        return
    report.applied.append(name)
    echo(f"applied  {name} {document['spec']['version']}")


async def _served(client: KubeClient, *, seconds: float) -> None:
    """Wait until the API server serves RemediationWorkflow: its CRD may have been created a moment ago."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if await _is_served(client):
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise StartupError(
            f"the API server serves no {WORKFLOWS.plural} of {WORKFLOWS.api_version} after {seconds:g} s; install the "
            "CRDs first"
        ) from None


async def _judged(client: KubeClient, document: Json, *, namespace: str, seconds: float) -> bool:
    """Wait until the API server asks the webhook, and return whether it does.

    It proves that by refusing, in a dry run, a workflow that nothing else refuses.
    """
    probe = copy.deepcopy(document)
    probe["metadata"] = {"name": f"{MANAGER}-probe", "namespace": namespace}
    probe["spec"]["description"]["what"] += _HIDDEN
    try:
        async with asyncio.timeout(seconds):
            while True:
                with suppress(Unavailable):
                    try:
                        await client.create(WORKFLOWS.path(namespace=namespace), probe, dry_run=True)
                    except KubernetesRefused as error:
                        if _DENIED in str(error):
                            return True
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return False


async def _is_served(client: KubeClient) -> bool:
    try:
        return await client.offers(WORKFLOWS)
    except Unavailable:
        return False


def _documents(directory: Path) -> list[Json]:
    """The manifests in the order of their file names; each file holds one."""
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise StartupError(f"{directory} holds no manifests; name the directory of the starter catalog")
    try:
        return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    except (OSError, yaml.YAMLError) as error:
        raise StartupError(f"the manifests in {directory} cannot be read: {error}") from error
