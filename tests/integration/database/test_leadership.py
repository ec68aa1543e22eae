"""The fence: of two operators that overlap, the former writes nothing any more, however late it wakes up."""

import asyncio

import pytest

from formulary_catalog.store.database.connection import Connection, Database, Role
from formulary_catalog.store.database.fencing import Superseded, fence
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import entry

NAME = "formulary-system/formulary-operator"


async def test_a_former_leader_neither_brings_back_nor_overwrites_anything(database: str, writing: Database) -> None:
    former = await Database.open(database, role=Role.WRITER)
    try:
        await fence(former, name=NAME)
        await CatalogWriter(former).apply(entry(manifest.workflow("restart")))
        await fence(writing, name=NAME)
        await CatalogWriter(writing).apply(entry(manifest.workflow("restart", version="2.0.0")))
        for write in (
            CatalogWriter(former).apply(entry(manifest.workflow("restart"))),
            CatalogWriter(former).apply(entry(manifest.workflow("another"))),
            CatalogWriter(former).remove(namespace="formulary", name="restart"),
            ContextWriter(former, source="cluster").purge(gone_for_seconds=0),
        ):
            with pytest.raises(Superseded):
                await write
        assert [workflow.version for workflow in await CatalogWriter(writing).served()] == ["2.0.0"]
    finally:
        await former.close()


async def test_leaders_of_other_names_do_not_hinder_each_other(database: str, writing: Database) -> None:
    other = await Database.open(database, role=Role.WRITER)
    try:
        await fence(writing, name="team-a/formulary-operator")
        await fence(other, name="team-b/formulary-operator")
        await CatalogWriter(writing).apply(entry(manifest.workflow("one")))
        await CatalogWriter(other).apply(entry(manifest.workflow("two")))
    finally:
        await other.close()


async def test_who_begins_to_lead_waits_for_the_write_that_is_under_way(database: str, writing: Database) -> None:
    former = await Database.open(database, role=Role.WRITER)
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(connection: Connection) -> None:
        began.set()
        await go_on.wait()

    try:
        await fence(former, name=NAME)
        under_way = asyncio.create_task(former.write(slow))
        await began.wait()
        taking_over = asyncio.create_task(fence(writing, name=NAME))
        done, _ = await asyncio.wait([taking_over], timeout=0.3)
        assert not done
        go_on.set()
        async with asyncio.timeout(30):
            await under_way
            await taking_over
    finally:
        await former.close()
