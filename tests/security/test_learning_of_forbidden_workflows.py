"""An agent asks around, to learn of workflows that the constraints of its incident forbid."""

import pytest

from formulary_catalog.domain.access import EVERYTHING, Caller
from formulary_catalog.domain.entry import incident_context
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.services.search.service import CatalogService
from formulary_catalog.store.incidents import ContextWriter
from formulary_catalog.store.workflows.writer import CatalogWriter
from support import manifest
from support.filling import fill

CALLER = Caller(name="agent", access=EVERYTHING)
MINE = ContextReference(remediation_id="rr-mine")


@pytest.fixture(autouse=True)
async def incident(contexts: ContextWriter) -> None:
    """The incident of the agent: of the payments team, in production."""
    document = manifest.analysis("mine", remediation_id="rr-mine", labels={"team": ["payments"]})
    await contexts.save(incident_context(document, source="test", default_namespace="shop"))


async def test_the_versions_that_are_listed_are_those_that_the_incident_allows(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    teams = {"1.0.0": "payments", "1.1.0": "treasury", "1.2.0": "payments"}
    entries = await fill(
        workflows,
        [manifest.workflow("drain", version=each, customLabels={"team": team}) for each, team in teams.items()],
    )
    details = await service.details("drain", context=MINE, caller=CALLER)
    assert [line.version for line in details.versions] == ["1.2.0", "1.0.0"]
    assert entries[1].version_id not in details.model_dump_json()
    browsed = await service.details("drain", context=ContextReference(), caller=CALLER, browsing=True)
    assert [line.version for line in browsed.versions] == ["1.2.0", "1.1.0", "1.0.0"]


@pytest.mark.parametrize(
    ("label", "others"),
    [
        ("component", {"customLabels": {"team": "treasury"}}),
        ("risk_tolerance", {"customLabels": {"team": "treasury"}}),
        ("business_category", {"customLabels": {"team": "treasury"}}),
        ("signal_type", {"customLabels": {"team": "treasury"}}),
        ("severity", {"environment": ["staging"]}),
    ],
)
async def test_notes_on_a_label_value_are_the_same_whether_a_forbidden_workflow_declares_it_or_nobody(
    service: CatalogService, workflows: CatalogWriter, label: str, others: dict[str, dict[str, str] | list[str]]
) -> None:
    mine = manifest.workflow("mine")
    mine["spec"]["labels"][_written(label)] = ["mine"]
    theirs = manifest.workflow("theirs")
    labels = theirs["spec"]["labels"]
    labels[_written(label)] = ["known"]
    if "environment" in others:
        labels["environment"] = others["environment"]
    else:
        theirs["spec"] |= others
    await fill(workflows, [mine, theirs])

    async def notes(value: str) -> list[str]:
        request = search_request(query="restart it", labels={label: [value]}, context=MINE)
        answer = await service.search(request, caller=CALLER)
        assert "theirs" not in [hit.workflow_id for hit in answer.workflows]
        return [note.replace(value, "…") for note in answer.notes]

    assert any("check the spelling" in note for note in await notes("nobodys"))
    known, unknown = await notes("known"), await notes("nobodys")
    assert known == unknown


async def test_a_value_that_an_allowed_workflow_declares_is_not_called_misspelt_beside_another_that_excludes_it(
    service: CatalogService, workflows: CatalogWriter
) -> None:
    await fill(workflows, [manifest.workflow("mine")])
    request = search_request(
        query="restart it", labels={"component": ["v1/Pod"], "severity": ["critcal"]}, context=MINE
    )
    (note,) = [each for each in (await service.search(request, caller=CALLER)).notes if "spelling" in each]
    assert "severity critcal" in note


def _written(label: str) -> str:
    head, *rest = label.split("_")
    return head + "".join(word.capitalize() for word in rest)
