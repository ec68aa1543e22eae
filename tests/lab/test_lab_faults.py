"""The faults of the lab, as files: what can be known of them without a cluster."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.evidence import MOST_CHARACTERS, alert_text, pasted
from lab.fault import FAULTS, Fault, read_faults

WORKFLOWS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())["spec"]
    for path in sorted((Path(__file__).parents[2] / "catalog" / "workflows").glob("*.yaml"))
}
ALL = read_faults()


@pytest.fixture(params=ALL, ids=lambda fault: fault.name)
def fault(request: pytest.FixtureRequest) -> Fault:
    found: Fault = request.param
    return found


def test_there_are_at_least_forty_and_each_has_a_namespace_of_its_own() -> None:
    assert len(ALL) >= 40
    assert [name for name, times in Counter(each.namespace for each in ALL).items() if times > 1] == []


def test_some_can_be_healed_by_nothing_of_the_starter_catalog() -> None:
    assert any(not each.right for each in ALL)


def test_both_parts_have_enough_kinds_to_fit_and_to_judge() -> None:
    kinds = {each.kind: each.part for each in ALL}
    for part in ("fit", "judge"):
        assert sum(of == part for of in kinds.values()) >= 10


def test_what_is_right_or_harmful_is_in_the_starter_catalog_and_not_both(fault: Fault) -> None:
    assert {*fault.right, *fault.harmful} <= WORKFLOWS.keys()
    assert not set(fault.right) & set(fault.harmful)


def test_the_facts_fill_the_parameters_of_each_right_workflow(fault: Fault) -> None:
    for workflow in fault.right:
        wanted = WORKFLOWS[workflow].get("parameters", [])
        values = fault.parameters(workflow, wanted)
        assert [each["name"] for each in wanted if each.get("required") and each["name"] not in values] == []
        assert [
            (each["name"], values[each["name"]])
            for each in wanted
            if each["name"] in values and not re.search(each.get("pattern", ""), values[each["name"]])
        ] == []


def test_its_words_give_no_workflow_away(fault: Fault) -> None:
    words = f"{alert_text(fault)} {fault.root_cause}"
    assert [workflow for workflow in WORKFLOWS if workflow in words] == []


def test_a_fault_says_how_to_heal_it_unless_nothing_is_broken(fault: Fault) -> None:
    assert fault.remedy or not fault.right


@given(st.dictionaries(st.text(min_size=1, max_size=40), st.text(max_size=6000), min_size=1, max_size=6))
def test_pasted_evidence_keeps_to_the_bound_of_queries_and_short_texts_are_whole(texts: dict[str, str]) -> None:
    query = pasted(texts)

    assert len(query) <= MOST_CHARACTERS
    assert all(text in query for text in texts.values() if len(text) < 500)


def test_what_is_too_long_gives_up_its_middle() -> None:
    query = pasted({"alert": "firing", "kubectl describe": f"first{'x' * 9000}last"})

    assert all(each in query for each in ("firing", "first", "last"))


def test_a_misspelt_member_is_refused(tmp_path: Path) -> None:
    path = next(FAULTS.glob("*.yaml"))
    broken = {"name": "broken", **yaml.safe_load(path.read_text()), "heald": "true"}
    with pytest.raises(ValueError, match="heald"):
        Fault.model_validate(broken)
