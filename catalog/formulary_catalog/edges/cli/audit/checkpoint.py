"""`formulary trace checkpoint` and `keygen`: signed statements about the trail, and the key for them."""

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.edges.cli.audit.source import TrailSource, trail_options
from formulary_catalog.edges.cli.options import DIRECTORY, json_option
from formulary_catalog.errors import StartupError

if TYPE_CHECKING:
    from formulary_catalog.domain.audit.checkpoint import Checkpoint

_PRIVATE, _PUBLIC = 0o600, 0o644
_DEADLINE = 60.0
"""Seconds for a checkpoint: the first one vouches for everything there is."""


@click.command("checkpoint")
@trail_options
@json_option
def checkpoint_command(*, trail: TrailSource, as_json: bool) -> None:
    """Write a checkpoint now.

    It covers every event since the last one. It is signed if FORMULARY_AUDIT_KEY_FILE names a key. The
    operator and `formulary up` write one every minute by default.

    \b
    Example:
      FORMULARY_AUDIT_KEY_FILE=audit.pem formulary trace checkpoint
    """
    from formulary_catalog.runtime.terminal import counted

    written = asyncio.run(_checkpointed(trail))
    if as_json:
        click.echo(json.dumps({"checkpoints": [_checkpoint_as_json(checkpoint) for checkpoint in written]}))
        return
    for checkpoint in written:
        signed = (
            f"signed by key {checkpoint.key_id}" if checkpoint.key_id else "NOT signed: no FORMULARY_AUDIT_KEY_FILE"
        )
        click.echo(f"checkpoint {checkpoint.id}: {counted(checkpoint.traces, 'trace')}, {signed}, {checkpoint.hash}")
    if not written:
        click.echo("nothing has happened since the last checkpoint")


@click.command("keygen")
@click.argument("file", type=DIRECTORY)
def keygen_command(*, file: Path) -> None:
    """Make a key that signs checkpoints.

    FILE gets the private key, readable by its owner alone; FILE.pub the public one, for verification. Nothing is
    overwritten.

    \b
    Example:
      formulary trace keygen audit.pem
    """
    from formulary_catalog.domain.audit.checkpoint import SigningKey

    key = SigningKey.generate()
    public = file.with_name(f"{file.name}.pub")
    if taken := [str(each) for each in (file, public) if each.exists()]:
        raise _taken(taken[0])
    _create(file, key.pem(), mode=_PRIVATE)
    _create(public, key.public.pem(), mode=_PUBLIC)
    click.echo(
        f"key {key.public.id}: {file} signs (FORMULARY_AUDIT_KEY_FILE), keep it from the database's administrators"
    )
    click.echo(f"{public} verifies (FORMULARY_AUDIT_PUBLIC_KEY_FILE), keep a copy where nobody can replace it")


async def _checkpointed(trail: TrailSource) -> "list[Checkpoint]":
    from formulary_catalog.store.audit.checkpoints import CheckpointStore, require_key
    from formulary_catalog.store.audit.keys import signing_key
    from formulary_catalog.store.database.connection import Database, Role
    from formulary_catalog.store.database.owner import owner_connection

    key = signing_key(trail.settings)
    async with trail.dsn() as dsn:
        async with owner_connection(dsn) as connection:
            await require_key(connection, key)
        database = await Database.open(dsn, role=Role.WRITER, size=1, deadline=_DEADLINE)
        try:
            return await CheckpointStore(database).checkpoint(key)
        finally:
            await database.close()


def _checkpoint_as_json(checkpoint: "Checkpoint") -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "traces": checkpoint.traces,
        "hash": checkpoint.hash,
        "key_id": checkpoint.key_id,
        "signed": bool(checkpoint.key_id),
    }


def _create(file: Path, content: bytes, *, mode: int) -> None:
    """Write a new file with these permissions from the first moment on.

    Raises:
        StartupError: it is there already, or cannot be written.
    """
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
    except FileExistsError:
        raise _taken(str(file)) from None
    except OSError as error:
        raise StartupError(f"{file} cannot be written: {error.strerror}; name another place") from error


def _taken(file: str) -> StartupError:
    return StartupError(f"{file} is there already, and a key is never overwritten; name another file")


COMMANDS = (checkpoint_command, keygen_command)
