"""Sources of alerts: written from IncidentSource objects and files, read by the one that an address names.

A bearer token is kept as a digest, a signing secret encrypted with the keys of sensitive input. The server sees one
source at a time, that which a message names.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from formulary_catalog.domain.alerts.source import SourceSpec
from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.errors import NotInvocable
from formulary_catalog.store.database.connection import Connection, Database

_PURPOSE = "incident source"
_FIND = """
select found.* from (
    select set_config('formulary.incident_source', $1 || '/' || $2, true) as named
) as session, lateral (
    select spec, token_digest, sealed_secret from incident_source
    where namespace = $1 and name = $2 and session.named is not null offset 0
) as found
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """A source, and what proves its sender."""

    namespace: str
    name: str
    spec: SourceSpec
    token_digest: str = field(default="", repr=False)
    sealed_secret: bytes | None = field(default=None, repr=False)

    @property
    def asks_for_proof(self) -> bool:
        """Whether its sender has to prove itself."""
        return bool(self.token_digest or self.sealed_secret)

    def is_token(self, token: str) -> bool:
        """Whether this is its bearer token."""
        salt, _, digest = self.token_digest.partition(":")
        return bool(digest) and hmac.compare_digest(_digest(token, salt=salt), digest)

    def signing_secret(self, keys: InputKeys) -> str:
        """What its sender signs with. Raises NotInvocable where no key decrypts it."""
        return keys.decrypt(self.sealed_secret or b"", run=f"{self.namespace}/{self.name}", purpose=_PURPOSE)


class IncidentSourceWriter:
    """Keeps the stored sources in step with the objects of one origin, such as files or a cluster."""

    def __init__(self, database: Database, *, origin: str, keys: InputKeys) -> None:
        self._database = database
        self._origin = origin
        self._keys = keys

    async def save(self, *, namespace: str, name: str, spec: Mapping[str, Any], secret: str) -> None:
        """Store or replace a source, unless it is as it was; `secret` proves its sender, without one nothing does.

        Raises:
            NotInvocable: it is to check signatures, and there is no key to encrypt its secret with.
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch(
            "select spec, token_digest, sealed_secret from incident_source "
            "where namespace = $1 and name = $2 and source = $3",
            namespace,
            name,
            self._origin,
        )
        if rows and rows[0]["spec"] == dict(spec) and self._has_secret(_stored(namespace, name, rows[0]), secret):
            return
        signs = spec.get("type") == "pagerduty"
        sealed = self._keys.encrypt(secret, run=f"{namespace}/{name}", purpose=_PURPOSE) if signs and secret else None
        salt = secrets.token_hex(16)
        await self._database.execute(
            """
            insert into incident_source (namespace, name, spec, namespaces, token_digest, sealed_secret, source)
            values ($1, $2, $3, $4, $5, $6, $7)
            on conflict (namespace, name) do update
            set spec = excluded.spec, namespaces = excluded.namespaces, token_digest = excluded.token_digest,
                sealed_secret = excluded.sealed_secret, source = excluded.source, changed_at = now(),
                problem = case when incident_source.spec = excluded.spec then incident_source.problem else '' end
            """,
            namespace,
            name,
            dict(spec),
            list(spec["namespaces"]),
            f"{salt}:{_digest(secret, salt=salt)}" if secret and not signs else "",
            sealed,
            self._origin,
        )

    def _has_secret(self, source: StoredSource, secret: str) -> bool:
        """Whether a stored source is proven by this secret."""
        if source.sealed_secret is None:
            return source.is_token(secret) if source.token_digest else not secret
        try:
            return source.signing_secret(self._keys) == secret
        except NotInvocable:
            return False

    async def refuse(self, *, namespace: str, name: str) -> None:
        """Take no more alerts from a source that cannot be used; what it reported stays as it is."""
        await self._database.execute(
            "delete from incident_source where namespace = $1 and name = $2 and source = $3",
            namespace,
            name,
            self._origin,
        )

    async def unreported(self) -> list[tuple[str, str]]:
        """The sources of which alerts became nothing since that was reported, by namespace and name."""
        rows = await self._database.fetch(
            "select namespace, name from incident_source "
            "where source = $1 and problem_at > coalesce(reported_at, '-infinity')",
            self._origin,
        )
        return [(row["namespace"], row["name"]) for row in rows]

    async def problem(self, *, namespace: str, name: str) -> tuple[str, datetime | None]:
        """Why alerts of a source became nothing in the last day, and when; empty where all could be used.

        Senders repeat what still fires within hours: a day later somebody has repaired it.
        """
        rows = await self._database.fetch(
            "select case when problem_at > now() - interval '1 day' then problem else '' end as problem, problem_at "
            "from incident_source where namespace = $1 and name = $2",
            namespace,
            name,
        )
        return (rows[0]["problem"], rows[0]["problem_at"]) if rows else ("", None)

    async def reported(self, *, namespace: str, name: str, at: datetime) -> None:
        """Note that the problem of this time was reported."""
        await self._database.execute(
            "update incident_source set reported_at = $3 where namespace = $1 and name = $2", namespace, name, at
        )

    async def remove(self, *, namespace: str, name: str) -> None:
        """Take no more alerts from a source. What it reported ends, since nobody will resolve it."""

        async def write(connection: Connection) -> None:
            removed = await connection.execute(
                "delete from incident_source where namespace = $1 and name = $2 and source = $3",
                namespace,
                name,
                self._origin,
            )
            if removed.endswith(" 0"):
                return
            await connection.execute(
                "update alert set firing = false, changed_at = now() "
                "where source_namespace = $1 and source_name = $2 and firing",
                namespace,
                name,
            )
            await connection.execute(
                "update alert_episode set ended_at = now() "
                "where source_namespace = $1 and source_name = $2 and ended_at is null",
                namespace,
                name,
            )

        await self._database.write(write)

    async def stored(self) -> list[tuple[str, str]]:
        """The sources of this origin, by namespace and name."""
        rows = await self._database.fetch("select namespace, name from incident_source where source = $1", self._origin)
        return [(row["namespace"], row["name"]) for row in rows]


class IncidentSourceReader:
    """Finds the source that a message is for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, *, namespace: str, name: str) -> StoredSource | None:
        """The source of this name, None for none.

        Raises:
            Unavailable: the database does not answer.
        """
        rows = await self._database.fetch(_FIND, namespace, name)
        if not rows:
            return None
        return _stored(namespace, name, rows[0])


def _stored(namespace: str, name: str, row: asyncpg.Record) -> StoredSource:
    return StoredSource(
        namespace=namespace,
        name=name,
        spec=SourceSpec.model_validate(row["spec"]),
        token_digest=row["token_digest"],
        sealed_secret=row["sealed_secret"],
    )


def _digest(token: str, *, salt: str) -> str:
    return hashlib.sha256(f"{salt}\0{token}".encode()).hexdigest()
