"""What is wrong with a document, as its author reads it."""

from typing import Any

import pytest

from formulary_catalog.domain.entry import catalog_entry, contract_entry, incident_context
from formulary_catalog.errors import InvalidManifest
from support.manifest import analysis, contract, workflow

GIVEN: dict[str, Any] = {"source": "a.yaml", "default_namespace": "shop"}


def refused(document: dict[str, Any]) -> dict[str, str]:
    """Each field at fault and what is said of it."""
    read = {"RemediationWorkflow": catalog_entry, "GovernanceContract": contract_entry, "AIAnalysis": incident_context}
    with pytest.raises(InvalidManifest) as refusal:
        read[document["kind"]](document, **GIVEN)
    return dict(refusal.value.problems)


def renamed(part: dict[str, Any], *, name: str, to: str) -> None:
    part[to] = part.pop(name)


def test_an_optional_field_that_is_misspelt_is_named_as_it_should_be() -> None:
    said = refused(contract("c", match={"riskLevel": ["high"], "during": {"timezone": "UTC"}}))
    assert said["spec.rules.0.match.riskLevel"] == "is unknown; did you mean riskLevels?"
    assert said["spec.rules.0.match.during.timezone"] == "is unknown; did you mean timeZone?"


def test_a_required_field_that_is_misspelt_is_found_among_those_that_are_unknown() -> None:
    rules = contract("c")
    renamed(rules["spec"]["rules"][0], name="effect", to="efect")
    assert refused(rules) == {
        "spec.rules.0.effect": "is required; correct the name of efect if that is meant, else add it",
        "spec.rules.0.efect": "is unknown; did you mean effect?",
    }
    document = workflow("a")
    renamed(document["spec"]["description"], name="whenToUse", to="whenToUze")
    assert refused(document) == {
        "spec.description.whenToUse": "is required; correct the name of whenToUze if that is meant, else add it"
    }
    incident = analysis("ai", remediation_id="rr-1")
    renamed(incident["spec"], name="remediationId", to="remediationID")
    assert refused(incident) == {
        "spec.remediationId": "is required; correct the name of remediationID if that is meant, else add it"
    }


def test_a_field_that_is_like_none_and_a_name_that_is_a_field_itself_are_taken_for_nothing() -> None:
    document = contract("c")
    document["spec"]["rules"][0]["colour"] = "red"
    assert refused(document) == {"spec.rules.0.colour": "is unknown; correct its name or remove it"}
    document = workflow("a", steps=[{"name": "delete", "command": "true"}])
    del document["spec"]["version"]
    document["spec"]["versions"] = ["1.0.0"]
    said = refused(document)
    assert said["spec.version"] == "is required; correct the name of versions if that is meant, else add it"
    del document["spec"]["versions"]
    assert refused(document) == {"spec.version": "is required; add it"}


def test_one_of_fixed_choices_is_refused_with_all_of_them() -> None:
    assert refused(contract("c", effect="DENNY")) == {
        "spec.rules.0.effect": "must be 'ALLOW', 'REQUIRE_EVIDENCE', 'REQUIRE_APPROVAL', 'DEGRADE', 'DENY' or 'HALT' "
        "(got 'DENNY')"
    }


@pytest.mark.parametrize("name", ["\x1b[31meffect", "effect" + "x" * 300, 1])
def test_a_hostile_name_is_shown_cut_and_escaped(name: object) -> None:
    document = contract("c")
    renamed(document["spec"]["rules"][0], name="effect", to=name)  # type: ignore[arg-type]  # YAML keys may be numbers
    said = refused(document)
    assert "\x1b" not in str(said)
    assert max(map(len, [*said, *said.values()])) < 250
