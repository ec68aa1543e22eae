"""What people read of alerts that a source sent and that became nothing."""

from formulary_catalog.domain.runs.input_keys import InputKeys
from formulary_catalog.store.database.connection import Database
from formulary_catalog.store.incident_sources import IncidentSourceWriter
from support.alerts import report


async def test_a_day_after_the_last_alert_that_became_nothing_all_are_said_to_be_mapped(writing: Database) -> None:
    await report(writing, namespace="shop")
    sources = IncidentSourceWriter(writing, origin="file", keys=InputKeys())
    found = []
    for hours in (20, 30):
        await writing.execute(
            "update incident_source set problem = 'no name', problem_at = now() - make_interval(hours => $1)", hours
        )
        found.append((await sources.problem(namespace="shop", name="alerts"))[0])

    assert found == ["no name", ""]
