"""Makes stored request contexts and incident sources what the AIAnalysis and IncidentSource documents of files say.

`loading.loader` calls it after each load, for `formulary up` and `formulary stdio`. It is the way of custom labels into
a catalog without a cluster; the operator's `incidents` is the one with a cluster. The secret of a source is that of a
Secret in the files. Without it the source takes no alerts: what is to prove its sender is missing.
"""

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from formulary_catalog.domain.alerts.source import MIN_SECRET, not_allowed
from formulary_catalog.domain.entry import SourceEntry
from formulary_catalog.errors import NotInvocable
from formulary_catalog.loading.documents import ManifestDocument, Rejection, file_of
from formulary_catalog.loading.manifests import FoundContext, FoundSource, Manifests
from formulary_catalog.loading.report import LoadReport
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from formulary_catalog.store.incidents import ContextWriter

_FIELD = "spec.auth.secretRef"


class ContextSync:
    """Remembers which contexts came from the files, because the store does not record where contexts came from.

    `owns_all` says that nobody else writes contexts to this database: then those of earlier runs are ours as well.
    """

    def __init__(self, contexts: ContextWriter, *, owns_all: bool) -> None:
        self._contexts = contexts
        self._owns_all = owns_all
        self._ours: dict[tuple[str, str], FoundContext | None] | None = None

    async def run(
        self, manifests: Manifests, *, complete: bool, broken_files: Collection[str], report: LoadReport
    ) -> None:
        """Write new and changed contexts and remove those that no file describes any more.

        Nothing is removed unless the files were listed completely, nor while the file it came from is broken.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._ours is None:
            self._ours = dict.fromkeys(await self._contexts.stored()) if self._owns_all else {}
        for found in manifests.contexts:
            await self._save(found, ours=self._ours, report=report)
        described = {(found.context.namespace, found.context.name) for found in manifests.contexts}
        for key, earlier in list(self._ours.items()) if complete else ():
            if key in described or (earlier is not None and file_of(earlier.source) in broken_files):
                continue
            namespace, name = key
            await self._contexts.remove(namespace=namespace, name=name)
            del self._ours[key]
            report.removed_contexts.append(f"{namespace}/{name}")
        report.contexts = len(self._ours)

    async def _save(
        self, found: FoundContext, *, ours: dict[tuple[str, str], FoundContext | None], report: LoadReport
    ) -> None:
        key = (found.context.namespace, found.context.name)
        earlier = ours.get(key)
        if earlier is None or earlier.context != found.context:
            await self._contexts.save(found.context)
            report.changed_contexts.append("/".join(key))
        ours[key] = found


class IncidentSourceSync:
    """Remembers which sources came from the files. `owns_all`: those of earlier runs are ours as well."""

    def __init__(self, sources: IncidentSourceWriter, *, shared_namespace: str, owns_all: bool) -> None:
        self._sources = sources
        self._shared_namespace = shared_namespace
        self._owns_all = owns_all
        self._ours: dict[tuple[str, str], tuple[FoundSource, str] | None] | None = None

    async def run(
        self, manifests: Manifests, *, complete: bool, broken_files: Collection[str], report: LoadReport
    ) -> None:
        """Write new and changed sources and remove those that no file describes any more, or that cannot be used.

        Nothing is removed unless the files were listed completely, nor while the file it came from is broken.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._ours is None:
            self._ours = dict.fromkeys(await self._sources.stored()) if self._owns_all else {}
        usable = set()
        for found in manifests.sources:
            entry = found.entry
            secret = _secret(entry, manifests.ignored, default_namespace=self._shared_namespace)
            problem = not_allowed(entry.spec, namespace=entry.namespace, shared_namespace=self._shared_namespace)
            problem = problem or await self._save(found, secret=secret, ours=self._ours, report=report)
            if problem:
                report.rejections.append(
                    Rejection(
                        source=found.source, field=problem.partition(":")[0], message=f"{found.source}: {problem}"
                    )
                )
            else:
                usable.add((entry.namespace, entry.name))
        refused = {(each.entry.namespace, each.entry.name) for each in manifests.sources} - usable
        for key, earlier in list(self._ours.items()) if complete else ():
            # Of one from an earlier run nobody knows the file: a broken one may hold it.
            is_kept = bool(broken_files) if earlier is None else file_of(earlier[0].source) in broken_files
            if key in usable or (is_kept and key not in refused):
                continue
            await self._sources.remove(namespace=key[0], name=key[1])
            del self._ours[key]
            report.removed_sources.append("/".join(key))
        report.sources = len(self._ours)

    async def _save(
        self,
        found: FoundSource,
        *,
        secret: str | None,
        ours: dict[tuple[str, str], tuple[FoundSource, str] | None],
        report: LoadReport,
    ) -> str:
        """Store a source, unless it is as it was. Why it cannot be used; empty if it can."""
        entry = found.entry
        if secret is None and entry.spec.auth is not None:
            named = entry.spec.auth.secret_ref
            place = f"{entry.namespace}/{named.name} with the key {named.key}"
            return f"{_FIELD}: no Secret {place} is in the manifests; add it"
        if secret is not None and len(secret) < MIN_SECRET:
            return f"{_FIELD}: the secret has {len(secret)} characters; make one of at least {MIN_SECRET}"
        key = (entry.namespace, entry.name)
        earlier = ours.get(key)
        if earlier is None or (earlier[0].entry, earlier[1]) != (entry, secret or ""):
            try:
                await self._sources.save(
                    namespace=entry.namespace, name=entry.name, spec=entry.document, secret=secret or ""
                )
            except NotInvocable:
                return f"{_FIELD}: there is no key to encrypt the signing secret with; set FORMULARY_INPUT_KEY_FILE"
            report.changed_sources.append("/".join(key))
        ours[key] = (found, secret or "")
        return ""


def _secret(entry: SourceEntry, documents: Iterable[ManifestDocument], *, default_namespace: str) -> str | None:
    """The secret of a source, from a Secret of its namespace; None where there is none of that name and key."""
    if entry.spec.auth is None:
        return None
    named = entry.spec.auth.secret_ref
    for each in documents:
        content = each.content
        metadata = content.get("metadata")
        if content.get("kind") != "Secret" or not isinstance(metadata, Mapping) or metadata.get("name") != named.name:
            continue
        if (metadata.get("namespace") or default_namespace) == entry.namespace:
            return _value(content, key=named.key)
    return None


def _value(secret: Mapping[str, Any], *, key: str) -> str | None:
    plain, encoded = secret.get("stringData"), secret.get("data")
    if isinstance(plain, Mapping) and isinstance(plain.get(key), str):
        return str(plain[key]).strip()
    if not isinstance(encoded, Mapping) or not isinstance(encoded.get(key), str):
        return None
    try:
        return base64.b64decode(encoded[key], validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return None
