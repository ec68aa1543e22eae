"""Whatever a cluster holds: owners of workloads narrow, demands narrow, and what cannot be read gives nothing more."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.incidents import AIAnalysis, RequestContext, constraints_of, request_context
from formulary_catalog.domain.targets.context import UNKNOWN, target_context
from formulary_catalog.domain.targets.mapping import DEFAULT_MAPPING
from formulary_catalog.domain.targets.surroundings import Surroundings
from formulary_catalog.domain.workflows.labels import WorkflowLabels, declared
from formulary_catalog.domain.workflows.matching import allowed
from support.manifest import analysis
from support.targets import surroundings

_VALUES = {
    "environment": ["production", "dev"],
    "formulary.dev/priority": ["P0", "P3"],
    "team": ["payments", "platform"],
    "constraint.formulary.dev/team": ["payments", "platform"],
    "constraint.formulary.dev/restarts": ["no", "yes", "No", "never"],
    "constraint.formulary.dev/data-loss": ["no", "yes"],
    "constraint.formulary.dev/zone": ["a", "b"],
    "argocd.argoproj.io/instance": ["shop"],
}
labels = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in _VALUES.items()})
namespaces = labels.map(lambda drawn: {"environment": "production", **drawn})
clusters = st.builds(
    lambda namespace, pod, owner, node, budgets: surroundings(
        namespace=namespace, pod=pod, owner=owner, node=node, budgets=budgets
    ),
    namespaces,
    labels,
    labels,
    labels,
    st.sampled_from([None, ()]),
)
workflows = st.builds(
    lambda environment, priority, custom, facts: WorkflowLabels(
        values={"environment": frozenset(environment), "priority": frozenset(priority)},
        custom=declared({key: frozenset(values) for key, values in custom.items()}),
        detected=facts,
    ),
    st.sets(st.sampled_from(["production", "dev", "*"]), max_size=2),
    st.sets(st.sampled_from(["p0", "p3", "*"]), max_size=2),
    st.dictionaries(
        st.sampled_from(["team", "restarts", "data-loss", "zone"]),
        st.sets(st.sampled_from(["payments", "platform", "no", "yes", "a", "*"]), min_size=1, max_size=2),
    ),
    st.dictionaries(
        st.sampled_from(["gitOpsManaged", "pdbProtected", "gitOpsTool"]), st.sampled_from(["true", "false", "*"])
    ),
)
catalogs = st.lists(workflows, min_size=1, max_size=8)
_examples = settings(max_examples=200, deadline=None)


def _context(around: Surroundings) -> RequestContext:
    return target_context(around, mapping=DEFAULT_MAPPING)


def _answer(around: Surroundings, catalog: list[WorkflowLabels]) -> set[int]:
    constraints = constraints_of(_context(around), strict_keys=frozenset())
    return {number for number, each in enumerate(catalog) if allowed(each, constraints)}


@_examples
@given(namespaces, labels, labels, labels, catalogs)
def test_labels_of_workloads_and_nodes_never_widen_what_the_namespace_allows(
    namespace: dict[str, str],
    pod: dict[str, str],
    owner: dict[str, str],
    node: dict[str, str],
    catalog: list[WorkflowLabels],
) -> None:
    # Who manages it is no demand: facts stay as they are.
    facts = {"argocd.argoproj.io/instance": "shop"}
    alone = surroundings(namespace=namespace | facts)
    labelled = surroundings(namespace=namespace | facts, pod=pod, owner=owner, node=node)

    assert _answer(labelled, catalog) <= _answer(alone, catalog)


@_examples
@given(clusters, st.sampled_from(["restarts", "data-loss"]), st.sampled_from(["namespace", "node"]), catalogs)
def test_one_more_demand_never_makes_an_answer_larger(
    around: Surroundings, key: str, where: str, catalog: list[WorkflowLabels]
) -> None:
    labelled = getattr(around, where)
    label = f"constraint.formulary.dev/{key}"
    if label in labelled.labels and labelled.labels[label] != "yes":
        return  # it demands something already
    demanding = replace(around, **{where: replace(labelled, labels={**labelled.labels, label: "no"})})

    assert _answer(demanding, catalog) <= _answer(around, catalog)


@_examples
@given(clusters, st.sampled_from(["namespace", "node", "found"]), catalogs)
def test_a_demand_that_nobody_made_before_never_makes_an_answer_larger(
    around: Surroundings, where: str, catalog: list[WorkflowLabels]
) -> None:
    labelled = getattr(around, where)
    demanding = replace(
        around, **{where: replace(labelled, labels={**labelled.labels, "constraint.formulary.dev/new": "a"})}
    )

    assert _answer(demanding, catalog) <= _answer(around, catalog)


@_examples
@given(clusters, catalogs)
def test_what_could_not_be_read_never_gives_more(around: Surroundings, catalog: list[WorkflowLabels]) -> None:
    assert _answer(replace(around, budgets=None), catalog) <= _answer(around, catalog)


@_examples
@given(clusters, catalogs)
def test_a_target_allows_what_an_incident_with_the_mapped_labels_allows(
    around: Surroundings, catalog: list[WorkflowLabels]
) -> None:
    mapped = _context(around)
    document = analysis(
        "same",
        remediation_id="rr-same",
        labels={key: list(values) for key, values in mapped.custom_labels.items()},
        environment=mapped.environment,
    )
    signal = document["spec"]["analysisRequest"]["signalContext"]
    signal["businessPriority"] = mapped.priority
    known = {key: value for key, value in mapped.detected_labels.items() if value != UNKNOWN}
    signal["enrichmentResults"]["kubernetesContext"]["detectedLabels"] = known
    context = request_context(AIAnalysis.model_validate(document), namespace="shop")
    constraints = constraints_of(replace(mapped, detected_labels=known), strict_keys=frozenset())

    assert constraints == constraints_of(context, strict_keys=frozenset())
