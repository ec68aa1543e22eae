"""What a search demands, once the call, its query and its incident are put together."""

from dataclasses import replace

import pytest

from formulary_catalog.domain.audit.sealing import KeyedDigest
from formulary_catalog.domain.incidents import RequestContext
from formulary_catalog.domain.search.request import SearchRequest, search_request
from formulary_catalog.domain.workflows.labels import STANDARD_KEYS, Narrowing
from formulary_catalog.errors import InvalidInput
from formulary_catalog.kernel.search.planning import SearchPlan, applied_constraints, plan_search

INCIDENT = RequestContext(
    namespace="shop",
    name="checkout-oom",
    remediation_id="rr-1",
    environment="Production",
    priority="P0",
    custom_labels={"team": ("payments",)},
    detected_labels={"gitOpsTool": "argocd"},
)
DIGEST = KeyedDigest(b"key")
INCIDENT_LABELS = {"environment": frozenset({"production"}), "priority": frozenset({"p0"})}


def _plan(request: SearchRequest, *, context: RequestContext | None = None, strict: str = "") -> SearchPlan:
    return plan_search(request, context=context, strict_keys=frozenset({strict} - {""}))


@pytest.mark.parametrize("query", ["OOMKilled Critical memory grows", "oomkilled CRITICAL memory grows"])
def test_what_a_query_mentions_demands_nothing_and_its_severity_is_not_ranked_by(query: str) -> None:
    plan = _plan(search_request(query=query))

    assert (dict(plan.constraints.values), dict(plan.asked), plan.constraints.custom) == ({}, {}, {})
    assert (plan.parsed.signal, plan.parsed.severity) == ("OOMKilled", "critical")
    assert plan.parsed.text == "OOMKilled memory grows OOM Killed"
    assert "memory" in [term.word for term in plan.terms]
    assert "critical" not in [term.word for term in plan.terms]
    assert plan.notes == ()


def test_only_the_labels_of_the_call_demand_and_those_that_the_query_mentions_stay_out() -> None:
    plan = _plan(search_request(query="OOMKilled critical", labels={"severity": ["Low", "medium"]}))

    assert plan.constraints.values == plan.asked == {"severity": frozenset({"low", "medium"})}


def test_a_label_that_asks_for_anything_constrains_and_is_not_looked_for() -> None:
    plan = _plan(search_request(query="x", labels={"severity": ["*"], "cluster": ["*"]}))

    assert plan.constraints.values == {"severity": frozenset({"*"}), "cluster": frozenset({"*"})}
    assert plan.asked == {}


def test_the_incident_adds_its_labels_which_the_caller_did_not_ask_for() -> None:
    plan = _plan(search_request(query="OOMKilled", labels={"component": ["Pod"]}), context=INCIDENT)

    assert plan.constraints.values == {"component": frozenset({"pod"}), **INCIDENT_LABELS}
    assert plan.constraints.custom == {"team": frozenset({"payments"})}
    assert plan.constraints.detected == INCIDENT.detected_labels
    assert plan.asked == {"component": frozenset({"pod"})}
    assert plan.notes == ()
    assert plan.imposed.custom == plan.constraints.custom
    assert plan.imposed.values == INCIDENT_LABELS


def test_the_incident_wins_over_the_call_and_the_answer_says_so_of_each_label() -> None:
    request = search_request(query="x", labels={"priority": ["p3"], "environment": ["staging"], "severity": ["low"]})

    plan = _plan(request, context=INCIDENT)

    assert plan.constraints.values == {"severity": frozenset({"low"}), **INCIDENT_LABELS}
    assert plan.asked == {"severity": frozenset({"low"})}
    assert plan.notes == tuple(
        f"{label} was set by the incident's context, not by the call" for label in ("environment", "priority")
    )


def test_a_label_that_the_call_and_the_incident_agree_on_needs_no_note() -> None:
    plan = _plan(search_request(query="x", labels={"environment": ["Production"]}), context=INCIDENT)

    assert plan.notes == ()


def test_custom_labels_of_the_call_are_added_to_those_of_the_incident() -> None:
    request = search_request(query="x", custom_labels={"region": ("eu", "us"), "team": ("payments",)})

    plan = _plan(request, context=INCIDENT)

    assert plan.constraints.custom == {"region": frozenset({"eu", "us"}), "team": frozenset({"payments"})}


def test_custom_labels_that_contradict_the_incident_are_refused_without_repeating_them() -> None:
    request = search_request(query="x", custom_labels={"team": ("search",), "region": ("eu",)})

    with pytest.raises(InvalidInput) as refused:
        _plan(request, context=INCIDENT)

    assert refused.value.field == "filters.custom_labels"
    assert str(refused.value) == (
        "filters.custom_labels: 1 keys are set otherwise by the incident's context; leave them out"
    )


@pytest.mark.parametrize("context", [None, INCIDENT])
def test_strict_keys_hold_with_and_without_an_incident(context: RequestContext | None) -> None:
    plan = _plan(search_request(query="x"), context=context, strict="team")

    assert plan.constraints.strict_keys == {"team", *STANDARD_KEYS}


def test_excluded_words_are_compared_in_one_form_and_once() -> None:
    plan = _plan(search_request(query="x", exclude_keywords=["Roll-Back", "roll back", "--", "delete"]))

    assert plan.constraints.excluded_phrases == (" roll back ", " delete ")
    assert plan.notes == ("exclude_keywords entry '--' holds no word and excludes nothing",)


def test_what_a_search_is_narrowed_to_is_kept_with_its_keywords_in_one_form() -> None:
    asked = search_request(query="x", action_type="Restart", namespace="shop", keywords=["Roll-Back", "--"])

    plan = _plan(asked)

    assert plan.narrowing == Narrowing(action_type="Restart", namespace="shop", keywords=(" roll back ",))
    assert plan.notes == ("keywords entry '--' holds no word",)


def test_what_the_call_detected_is_added_to_what_the_incident_knows_which_wins() -> None:
    detected = {"gitOpsTool": "flux", "helmManaged": "true"}

    plan = _plan(search_request(query="x", detected_labels=detected), context=INCIDENT)

    assert plan.constraints.detected == {"gitOpsTool": "argocd", "helmManaged": "true"}


def test_the_answer_passes_on_what_there_is_to_note_of_the_incident() -> None:
    plan = _plan(search_request(query="x"), context=replace(INCIDENT, note="its target is gone"))

    assert plan.notes == ("its target is gone",)


def test_each_problem_of_a_pasted_query_is_searched_for_under_the_same_constraints() -> None:
    query = "alertname=NodeDown severity=high\nalertname=DiskFull severity=low"

    first, second = _plan(search_request(query=query, labels={"cluster": ["eu"]})).by_problem()

    assert [first.parsed.signal, second.parsed.signal] == ["NodeDown", "DiskFull"]
    assert "disk" in [term.word for term in second.terms]
    assert "disk" not in [term.word for term in first.terms]
    assert first.constraints == second.constraints
    assert second.by_problem() == [second]


def test_what_was_applied_is_told_by_where_it_came_from_and_custom_labels_only_as_digests() -> None:
    request = search_request(
        query="OOMKilled critical",
        labels={"priority": ["p3"], "component": ["Pod"], "signal_type": ["OOMKilled"]},
        exclude_keywords=["Delete", "--"],
        namespace="shop",
    )
    plan = _plan(request, context=INCIDENT, strict="team")

    applied = applied_constraints(
        request,
        context=INCIDENT,
        constraints=plan.constraints,
        inferred={"severity": "critical", "signal_type": ""},
        notes=plan.notes,
        digest=DIGEST,
    )

    assert applied == {
        "given": {"component": ["Pod"], "signal-type": ["OOMKilled"]},
        "incident": {"environment": "Production", "priority": "P0"},
        "detected": {"gitOpsTool": "argocd"},
        "excluded": [" delete "],
        "narrowed": {"namespace": "shop"},
        "custom_labels": DIGEST.of_labels({"team": frozenset({"payments"})}),
        "strict_keys": DIGEST.of_labels({"team": frozenset()}),
        "inferred": {"severity": "critical"},
        "notes": list(plan.notes),
    }


def test_of_strict_keys_only_those_count_that_the_incident_has() -> None:
    plan = _plan(search_request(query="x"), context=INCIDENT, strict="region")

    applied = applied_constraints(
        search_request(query="x"), context=INCIDENT, constraints=plan.constraints, inferred={}, notes=(), digest=DIGEST
    )

    assert "strict_keys" not in applied


def test_a_search_without_an_incident_tells_what_the_call_gave_and_nothing_that_is_empty() -> None:
    request = search_request(query="x", labels={"priority": ["p3"]})
    plan = _plan(request)

    applied = applied_constraints(
        request, context=None, constraints=plan.constraints, inferred={}, notes=(), digest=DIGEST
    )

    assert applied == {"given": {"priority": ["p3"]}}
