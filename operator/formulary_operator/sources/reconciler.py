"""One IncidentSource: from the cluster's object to the source whose alerts are taken, and back to its status.

The work queue calls it with a name, `runtime` builds it. Each resync looks at every source again, since its Secret may
be another one. A source that cannot be used takes nothing: its alerts would reach incidents that nobody vouches for.
"""

import asyncio
import base64
import binascii
from collections.abc import Coroutine
from typing import Any

import structlog

from formulary_catalog.domain.alerts.source import MIN_SECRET, SecretKey, not_allowed, source_spec
from formulary_catalog.errors import FormularyError, InvalidInput, NotInvocable, StartupError
from formulary_catalog.store.database.fencing import Superseded
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_operator.api.names import INCIDENT_SOURCES, SECRETS, Json, Resource
from formulary_operator.kube.client import KubeClient, KubernetesRefused
from formulary_operator.kube.conditions import Said
from formulary_operator.reporting import Reporter, timestamp
from formulary_operator.sources.status import mapped, receiving, refused, source_change, source_status
from formulary_operator.watch.queue import SOURCE_KINDS, ObjectKey, Priority, WorkQueue

_LOOK_SECONDS = 5.0
_KIND_SECONDS = 30.0
_log = structlog.get_logger(__name__)


class SourceReconciler:
    """Keeps the stored sources in step with the objects."""

    def __init__(
        self,
        *,
        client: KubeClient,
        sources: IncidentSourceWriter,
        reporter: Reporter,
        queue: WorkQueue[ObjectKey],
        shared_namespace: str,
        any_namespace: str,
    ) -> None:
        self.kinds: tuple[Resource, ...] = ()
        """The kind, once it is known that it is there for us."""
        self._client = client
        self._sources = sources
        self._reporter = reporter
        self._queue = queue
        self._shared_namespace = shared_namespace
        self._any_namespace = any_namespace

    async def find_kinds(self) -> None:
        """Find out whether the kind is there for us; serving a catalog does not wait for it."""
        if reason := await self._why_not_served():
            _log.warning("no_alerts_are_taken", reason=reason)
        else:
            self.kinds = SOURCE_KINDS

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What has to be done all the time so that people learn which alerts could not be used, or until any can be."""
        return [self._keep_reporting() if self.kinds else self._until_served()]

    async def _why_not_served(self) -> str:
        """Why the kind is not there for us; empty if it is."""
        try:
            if await self._client.serves(INCIDENT_SOURCES.path(namespace=self._any_namespace)):
                return ""
        except KubernetesRefused as error:
            return str(error)
        return "the cluster does not serve incidentsources.formulary.dev; apply its CRD"

    async def _until_served(self) -> None:
        """Look at once, since a standby may have started long ago, and then again and again.

        Raises:
            StartupError: the kind is there now; only a new process watches it.
        """
        while True:
            if not await self._why_not_served():
                raise StartupError("the kind IncidentSource is there now; a restart begins to take alerts")
            await asyncio.sleep(_KIND_SECONDS)

    async def stored(self) -> list[tuple[str, str]]:
        """What the database holds of objects that may be gone."""
        return await self._sources.stored()

    async def reconcile(self, *, namespace: str, name: str) -> str:
        """Bring one object in step. What was found: `Receiving`, `Gone`, or why no alerts are taken.

        Raises:
            Unavailable: the database or the API server does not answer; try again later.
        """
        document = await self._client.get(INCIDENT_SOURCES.path(namespace=namespace, name=name))
        if document is None or "deletionTimestamp" in document["metadata"]:
            await self._sources.remove(namespace=namespace, name=name)
            return "Gone"
        said = [await self._take(document, namespace=namespace, name=name)]
        problem, problem_at = await self._sources.problem(namespace=namespace, name=name)
        if said[0].met:
            said.append(mapped(problem))
        else:
            await self._sources.refuse(namespace=namespace, name=name)
        wanted = source_status(document, said, now=timestamp())
        await self._reporter.report(document, wanted, change=source_change(document, said))
        if problem_at is not None:
            await self._sources.reported(namespace=namespace, name=name, at=problem_at)
        return said[0].reason

    async def _take(self, document: Json, *, namespace: str, name: str) -> Said:
        spec = document.get("spec")
        try:
            read = source_spec(spec if isinstance(spec, dict) else {})
        except InvalidInput as error:
            return refused("Invalid", str(error))
        if problem := not_allowed(read, namespace=namespace, shared_namespace=self._shared_namespace):
            return refused("NamespaceNotAllowed", problem)
        if read.auth is None:
            return refused("AuthMissing", "spec.auth: is required in a cluster; name a Secret with the sender's token")
        secret = await self._secret(read.auth.secret_ref, namespace=namespace)
        if isinstance(secret, Said):
            return secret
        try:
            await self._sources.save(namespace=namespace, name=name, spec=document["spec"], secret=secret)
        except NotInvocable:
            problem = "a signing secret is kept encrypted, and there is no key; set FORMULARY_INPUT_KEY_FILE"
            return refused("KeyMissing", f"{problem} for the server and the operator")
        return receiving(f"/api/v1/incidents/{namespace}/{name}")

    async def _secret(self, named: SecretKey, *, namespace: str) -> str | Said:
        """The secret of a source, or why it is not known."""
        where = f"Secret {namespace}/{named.name}"
        try:
            document = await self._client.get(SECRETS.path(namespace=namespace, name=named.name))
        except KubernetesRefused:
            return refused(
                "SecretForbidden",
                f"spec.auth.secretRef: the operator may not read {where}; allow that one Secret with a Role and a "
                f"RoleBinding in {namespace} (verb get, resource secrets, resourceNames [{named.name}]) for its "
                "ServiceAccount",
            )
        try:
            encoded = ((document or {}).get("data") or {}).get(named.key, "")
            secret = base64.b64decode(encoded, validate=True).decode().strip()
        except (binascii.Error, UnicodeDecodeError):
            secret = ""
        if not secret:
            return refused(
                "SecretMissing", f"spec.auth.secretRef: {where} with text under the key {named.key} is missing"
            )
        if len(secret) < MIN_SECRET:
            return refused("SecretWeak", f"spec.auth.secretRef: {where} has fewer than {MIN_SECRET} characters")
        return secret

    async def _keep_reporting(self) -> None:
        """Have sources looked at whose alerts could not be used since their status said so."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                for key in await self._sources.unreported():
                    self._queue.add(ObjectKey(INCIDENT_SOURCES.plural, *key), Priority.CHANGED)
            except Superseded:
                raise
            except FormularyError as error:
                _log.warning("sources_not_looked_at", reason=str(error))
