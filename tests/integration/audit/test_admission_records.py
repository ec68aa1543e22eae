"""Who created an object, as it is kept in the real database."""

from typing import Any

import pytest

from formulary_catalog.errors import Unavailable
from formulary_catalog.store.database.connection import Database, Role
from formulary_catalog.store.workflows.authors import AdmissionRecords

RUN: dict[str, Any] = {"resource": "workflowinvocations", "namespace": "shop", "name": "one", "uid": "u-1"}


@pytest.fixture
def records(writing: Database) -> AdmissionRecords:
    return AdmissionRecords(writing)


async def test_the_first_record_of_an_object_stands(records: AdmissionRecords) -> None:
    await records.record(**RUN, username="jane")
    await records.record(**RUN, username="mallory")

    assert await records.username("u-1") == "jane"


async def test_nothing_is_known_of_an_object_that_no_webhook_saw(records: AdmissionRecords) -> None:
    await records.record(**RUN, username="jane")

    assert await records.username("u-2") == ""


async def test_the_server_can_neither_write_nor_read_them(database: str) -> None:
    serving = await Database.open(database, role=Role.SERVER)
    try:
        with pytest.raises(Unavailable):
            await AdmissionRecords(serving).record(**RUN, username="jane")
        with pytest.raises(Unavailable):
            await AdmissionRecords(serving).username("u-1")
    finally:
        await serving.close()
