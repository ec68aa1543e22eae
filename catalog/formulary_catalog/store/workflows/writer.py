"""The writing side of the catalog: workflow versions, what searches find them by, and vectors, in one transaction each.

`loading` writes files with it, the operator objects of a cluster. Searches never see half of a workflow, and a version
that is stored never changes.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from formulary_catalog.domain.entry import CatalogEntry
from formulary_catalog.domain.stored import StoredWorkflow
from formulary_catalog.domain.workflows.manifest import meaning_of
from formulary_catalog.errors import InvalidManifest, TooLarge, VersionImmutable
from formulary_catalog.store.database.connection import Connection, Database
from formulary_catalog.store.database.tenancy import tenant_of
from formulary_catalog.store.embedding_models import keep_serving_model, save_vectors, serving_model
from formulary_catalog.store.workflows.search_rows import stored_vector, withdraw, write_search_rows

_CURRENT = """
select v.namespace, v.name, v.version, v.version_id, v.content_hash, v.status, v.source, v.owner, v.index_hash,
       coalesce(max(s.model_id), '') as model_id
from workflow_version v left join workflow_search s using (version_id)
where v.status in ('Active', 'Disabled') and {which}
group by v.version_id order by v.namespace, v.name
"""


class ApplyOutcome(StrEnum):
    """What `CatalogWriter.apply` did."""

    CREATED = "Created"
    UPDATED = "Updated"
    UNCHANGED = "Unchanged"
    SUPERSEDED = "Superseded"


class CatalogWriter:
    """Writes workflows, each in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def served(self) -> list[StoredWorkflow]:
        """All current workflows of all namespaces, in name order; `model_id` is that of the vector in use, or empty."""

        async def read(connection: Connection) -> list[StoredWorkflow]:
            return [StoredWorkflow(**row) for row in await connection.fetch(_CURRENT.format(which="true"))]

        return await self._database.read(read)

    async def current(self, *, namespace: str, name: str) -> StoredWorkflow | None:
        """The current version of one workflow, if there is one."""

        async def read(connection: Connection) -> StoredWorkflow | None:
            which = "v.namespace = $1 and v.name = $2"
            row = await connection.fetchrow(_CURRENT.format(which=which), namespace, name)
            return StoredWorkflow(**row) if row is not None else None

        return await self._database.read(read)

    async def check(self, entry: CatalogEntry) -> None:
        """Whether `apply` would take the entry; nothing is written.

        Raises:
            VersionImmutable: it would not.
            Unavailable: the database does not answer.
        """

        async def read(connection: Connection) -> None:
            tenant_id = await connection.fetchval("select id from tenant where namespace = $1", entry.namespace)
            if tenant_id is not None:
                await _refuse_changed_content(connection, entry=entry, tenant_id=tenant_id)

        await self._database.read(read)

    async def apply(
        self,
        entry: CatalogEntry,
        *,
        model_id: str = "",
        vector: npt.NDArray[np.float32] | None = None,
        owner: str = "",
        superseded: bool = False,
    ) -> ApplyOutcome:
        """Make this the served version of its workflow, or with `superseded` keep it as history only.

        `owner` is the uid of the object that it comes from: under another one the versions stored so far belong to
        an object that was deleted, and are removed as by `remove`.

        `vector`, float32 of shape (384,), is stored for (entry.text_hash, model_id). Searches compare the one of the
        model that serves, or of `model_id` while none does; where there is none the workflow is found by its words.

        Raises:
            VersionImmutable: the same version is known with other content. What is stored stays as it is.
            InvalidManifest: something of it does not fit into the database.
            Unavailable: the database does not answer; nothing was changed.
        """

        async def write(connection: Connection) -> ApplyOutcome:
            tenant_id = await tenant_of(connection, namespace=entry.namespace)
            await _lock(connection, namespace=entry.namespace, name=entry.name)
            if owner:
                await _remove(
                    connection, namespace=entry.namespace, name=entry.name, unless_owned_by=owner, ends_refusal=True
                )
            await _refuse_changed_content(connection, entry=entry, tenant_id=tenant_id)
            if vector is not None:
                await save_vectors(connection, vectors={entry.text_hash: vector}, model_id=model_id)
            serving = await serving_model(connection) or model_id
            outcome = await _store(
                connection, entry=entry, tenant_id=tenant_id, model_id=serving, superseded=superseded
            )
            if owner:
                await connection.execute(
                    "update workflow_version set owner = $2 where version_id = $1 and owner <> $2",
                    entry.version_id,
                    owner,
                )
            return outcome

        try:
            return await self._database.write(write)
        except TooLarge as error:
            raise InvalidManifest(f"{entry.source}: spec: {error}", source=entry.source, field="spec") from error

    async def remove(self, *, namespace: str, name: str, source: str = "", unless_owned_by: str = "") -> bool:
        """End serving a workflow; its versions stay as history. Whether there was one.

        `source` spares what came from elsewhere, `unless_owned_by` what belongs to the object with this uid. Without
        that there is no object any more, and none that is refused.
        """

        async def write(connection: Connection) -> bool:
            await _lock(connection, namespace=namespace, name=name)
            return await _remove(
                connection,
                namespace=namespace,
                name=name,
                source=source,
                unless_owned_by=unless_owned_by,
                ends_refusal=not unless_owned_by,
            )

        return await self._database.write(write)

    async def suspend(self, *, namespace: str, name: str) -> bool:
        """Stop serving the current version of a workflow, and keep it as Disabled. Whether it was served."""

        async def write(connection: Connection) -> bool:
            await _lock(connection, namespace=namespace, name=name)
            version = await connection.fetchval(
                """
                update workflow_version set status = 'Disabled', changed_at = now()
                where namespace = $1 and name = $2 and status = 'Active' returning version_id
                """,
                namespace,
                name,
            )
            await withdraw(connection, [version])
            return version is not None

        return await self._database.write(write)

    async def missing_texts(self, hashes: Iterable[str], *, model_id: str) -> set[str]:
        """The text hashes for which no vector of this model is stored."""
        wanted = set(hashes)

        async def read(connection: Connection) -> set[str]:
            rows = await connection.fetch(
                "select text_hash from embedding where model_id = $1 and text_hash = any ($2)", model_id, list(wanted)
            )
            return wanted - {row["text_hash"] for row in rows}

        return await self._database.read(read)

    async def save_vectors(self, vectors: Mapping[str, npt.NDArray[np.float32]], *, model_id: str) -> None:
        """Store vectors, float32 of shape (384,), by text hash."""

        await self._database.write(
            lambda connection: save_vectors(connection, vectors=vectors, model_id=model_id),
        )


async def _lock(connection: Connection, *, namespace: str, name: str) -> None:
    """One writer at a time for each workflow, and none during a change of the model: what it reads must still hold
    when it writes."""
    await keep_serving_model(connection)
    await connection.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", f"{namespace}/{name}")


async def _remove(
    connection: Connection,
    *,
    namespace: str,
    name: str,
    source: str = "",
    unless_owned_by: str = "",
    ends_refusal: bool,
) -> bool:
    """As `CatalogWriter.remove`. What was refused of the object is forgotten in the same round trip."""
    rows = await connection.fetch(
        """
        with forgotten as (delete from refused_workflow where namespace = $1 and name = $2 and $5)
        update workflow_version set status = 'Deleted', changed_at = now()
        where namespace = $1 and name = $2 and status <> 'Deleted' and ($3 = '' or source = $3)
          and ($4 = '' or owner not in ('', $4))
        returning version_id
        """,
        namespace,
        name,
        source,
        unless_owned_by,
        ends_refusal,
    )
    await withdraw(connection, [row["version_id"] for row in rows])
    return bool(rows)


async def _refuse_changed_content(connection: Connection, *, entry: CatalogEntry, tenant_id: int) -> None:
    """The same version with other content is refused, except that `suspend` may be switched."""
    rows = await connection.fetch(
        """
        select source, document from workflow_version
        where tenant_id = $1 and name = $2 and version = $3 and status <> 'Deleted' and version_id <> $4
        """,
        tenant_id,
        entry.name,
        entry.version,
        entry.version_id,
    )
    for row in rows:
        if _means_the_same(row["document"], entry.document):
            continue
        kind, _, file = row["source"].partition(":")
        origin = f" (from {file})" if kind == "file" else ""
        raise VersionImmutable(
            f"{entry.source}: spec.version: {entry.namespace}/{entry.name} {entry.version} is already stored with "
            f"other content{origin}; raise spec.version",
            source=entry.source,
            field="spec.version",
        )


def _means_the_same(stored: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    try:
        return meaning_of(stored["spec"]) == meaning_of(new["spec"])
    except ValidationError:  # stored by another release, whose rules differ
        return False


async def _store(
    connection: Connection, *, entry: CatalogEntry, tenant_id: int, model_id: str, superseded: bool
) -> ApplyOutcome:
    wanted = "Superseded" if superseded else "Disabled" if entry.workflow.spec.suspend else "Active"
    current = await connection.fetchrow(
        """
        select v.version_id, v.status, v.index_hash, s.model_id from workflow_version v
        left join workflow_search s on s.version_id = v.version_id and s.leading_row
        where v.tenant_id = $1 and v.name = $2 and v.status in ('Active', 'Disabled')
        """,
        tenant_id,
        entry.name,
    )
    if superseded:
        if current is not None and current["version_id"] == entry.version_id:
            return ApplyOutcome.UNCHANGED
        changed = await _upsert_version(connection, entry=entry, tenant_id=tenant_id, status=wanted)
        return ApplyOutcome.SUPERSEDED if changed else ApplyOutcome.UNCHANGED
    if current is not None and current["version_id"] != entry.version_id:
        await _supersede(connection, version_id=current["version_id"])
    await _upsert_version(connection, entry=entry, tenant_id=tenant_id, status=wanted)
    if current is None or (current["version_id"], current["status"]) != (entry.version_id, wanted):
        await write_search_rows(connection, entry=entry, tenant_id=tenant_id, model_id=model_id)
        return ApplyOutcome.CREATED if current is None else ApplyOutcome.UPDATED
    if current["index_hash"] != entry.index_hash or (
        current["model_id"] != model_id and await stored_vector(connection, entry=entry, model_id=model_id) is not None
    ):
        await write_search_rows(connection, entry=entry, tenant_id=tenant_id, model_id=model_id)
    return ApplyOutcome.UNCHANGED


async def _supersede(connection: Connection, *, version_id: str) -> None:
    await connection.execute(
        "update workflow_version set status = 'Superseded', changed_at = now() where version_id = $1", version_id
    )
    await withdraw(connection, [version_id])


async def _upsert_version(connection: Connection, *, entry: CatalogEntry, tenant_id: int, status: str) -> bool:
    """Write the version with its status; whether anything changed."""
    row = await connection.fetchval(
        """
        insert into workflow_version (version_id, tenant_id, namespace, name, version, content_hash, text_hash,
                                      index_hash, status, source, document)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        on conflict (version_id) do update
        set status = excluded.status, source = excluded.source, text_hash = excluded.text_hash,
            index_hash = excluded.index_hash, changed_at = now()
        where (workflow_version.status, workflow_version.source, workflow_version.index_hash)
              <> (excluded.status, excluded.source, excluded.index_hash)
        returning version_id
        """,
        entry.version_id,
        tenant_id,
        entry.namespace,
        entry.name,
        entry.version,
        entry.content_hash,
        entry.text_hash,
        entry.index_hash,
        status,
        entry.source,
        dict(entry.document),
    )
    return row is not None
