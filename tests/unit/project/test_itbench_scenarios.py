"""The scenarios of ITBench: each with an official remedy has a starter workflow that does it."""

from typing import Literal

import pytest

from bench_itbench import Result, read_scenarios, result
from command_acts import acts
from formulary_catalog.domain.entry import CatalogEntry
from quality_judgements import STARTER, Judgement, read_entries
from quality_summary import OURS, Answered
from quality_variants import Variant


@pytest.fixture(scope="module")
def workflows() -> dict[str, CatalogEntry]:
    return {entry.name: entry for entry in read_entries(STARTER.workflows)}


def test_each_of_31_scenarios_with_a_remedy_has_a_workflow_and_19_have_none() -> None:
    scenarios = read_scenarios()
    of_kind = {kind: [each for each in scenarios if each.kind == kind] for kind in ("root-cause", "nothing")}

    assert len({each.id for each in scenarios}) == len(scenarios) == 50
    assert [len(each) for each in of_kind.values()] == [31, 19]
    assert [each.id for each in of_kind["root-cause"] if not each.best] == []


@pytest.mark.parametrize(
    ("workflow", "done"),
    [
        ("service-correct-selector", {("change", "service")}),
        ("networkpolicy-allow-ingress", {("change", "networkpolicy")}),
        ("mesh-remove-deny-policy", {("delete", "authorizationpolicy")}),
        ("workload-scale-from-zero", {("scale", "deployment")}),
        ("workload-undo-last-change", {("rollout-undo", "deployment")}),
        ("secret-correct-credentials", {("change", "secret"), ("rollout-restart", "deployment")}),
        ("quota-exceeded-raise", {("change", "resourcequota")}),
        ("node-uncordon", {("uncordon", "node")}),
    ],
)
def test_the_acts_of_a_workflow_are_those_of_its_commands(
    workflows: dict[str, CatalogEntry], workflow: str, done: set[tuple[str, str]]
) -> None:
    assert done <= acts(workflows[workflow].workflow)


def test_looking_is_no_act(workflows: dict[str, CatalogEntry]) -> None:
    assert ("change", "deployment") not in acts(workflows["service-correct-selector"].workflow)
    assert ("change", "secret") not in acts(workflows["node-uncordon"].workflow)


def test_hits_are_counted_by_their_places_and_belief_where_nothing_is_right() -> None:
    def answered(best: tuple[str, ...], ranking: list[str], confidence: float) -> Answered:
        kind: Literal["root-cause", "nothing"] = "root-cause" if best else "nothing"
        judgement = Judgement(
            id="itbench-1", kind=kind, part="held", query="q", best=best, acceptable=(), labels={}
        )  # fmt: skip
        return Answered(
            judgement=judgement, variant=Variant.PLAIN, rankings={OURS: ranking}, confidences=[confidence],
            mode="hybrid", allowed=3, notes=(), caution="",
        )  # fmt: skip

    found = result(
        [
            answered(("a",), ["a", "b"], 0.9),
            answered(("a",), ["b", "c", "a"], 0.9),
            answered((), ["a"], 0.5),
            answered((), ["a"], 0.4),
        ]
    )

    assert found == Result(
        with_remedy=2, coverable=2, first=1, in_three=2, nothing=2, believed_nothing=1, missed=["itbench-1: b, c, a"]
    )
