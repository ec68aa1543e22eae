"""Whatever a run is given reaches it unchanged or is refused; whatever a cluster holds can be read."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.runs.run import Phase
from formulary_catalog.errors import InvalidInput, NotInvocable
from formulary_operator.engines import ENGINES, engine_of
from formulary_operator.engines.observations import MAX_BYTES
from support.plans import BUNDLE, INVOCATION, command, container, environment, plan

ENGINE_NAMES = st.sampled_from(sorted(ENGINES))
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
DOLLARS = st.text("$()ABC{} \n", max_size=20)
ANY_TEXT = st.text(st.characters(), max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)
NAMES = st.from_regex(r"[ABCN]{1,3}", fullmatch=True)
TIMES = st.sampled_from(["2026-01-01T10:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "now", ""])
STATUS_FIELDS = {
    "phase": st.sampled_from(["Succeeded", "Failed", "Error", "Running"]) | ANY_JSON,
    "startTime": TIMES | ANY_JSON,
    "startedAt": TIMES | ANY_JSON,
    "completionTime": TIMES | ANY_JSON,
    "finishedAt": TIMES | ANY_JSON,
    "message": ANY_JSON,
    "conditions": ANY_JSON
    | st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["Complete", "Failed", "Succeeded"]) | ANY_JSON,
                "status": st.sampled_from(["True", "False", "Unknown"]) | ANY_JSON,
                "reason": st.sampled_from(["DeadlineExceeded", "PipelineRunTimeout"]) | ANY_JSON,
                "message": ANY_JSON,
                "lastTransitionTime": TIMES | ANY_JSON,
            },
        ),
        max_size=3,
    ),
    "results": ANY_JSON
    | st.lists(st.fixed_dictionaries({"name": ANY_JSON, "value": ANY_JSON | st.text(min_size=9000)}), max_size=4),
}
DOCUMENTS = ANY_JSON.filter(lambda value: isinstance(value, dict)) | st.fixed_dictionaries(
    {"status": st.fixed_dictionaries({}, optional=STATUS_FIELDS) | ANY_JSON},
    optional={"spec": st.fixed_dictionaries({"activeDeadlineSeconds": ANY_JSON | st.just(300)}) | ANY_JSON},
)
PODS = st.lists(
    st.fixed_dictionaries(
        {
            "status": ANY_JSON
            | st.fixed_dictionaries(
                {
                    "containerStatuses": st.lists(
                        st.fixed_dictionaries(
                            {
                                "name": st.just("workflow") | ANY_JSON,
                                "state": st.fixed_dictionaries(
                                    {
                                        "terminated": st.fixed_dictionaries(
                                            {"message": ANY_JSON | ANY_JSON.map(json.dumps), "finishedAt": ANY_JSON}
                                        )
                                    }
                                )
                                | ANY_JSON,
                            }
                        ),
                        max_size=2,
                    )
                }
            )
        }
    ),
    max_size=2,
)


def storable(value: object) -> bool:
    """Whether PostgreSQL can keep it as jsonb."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()
    return "\\u0000" not in text.replace("\\\\", "")


@given(values=st.dictionaries(NAMES, DOLLARS | TEXT, max_size=5), script=DOLLARS | TEXT, name=DOLLARS)
def test_texts_and_commands_survive_what_kubernetes_does_to_them(
    values: dict[str, str], script: str, name: str
) -> None:
    steps = [{"name": f"n{name}", "command": f"{script} :"}]
    job = ENGINES["job"].manifest(plan(values=values, steps=steps))
    variables = environment(job)
    assert variables.items() >= values.items()
    assert command(job, variables=variables)[-2:] == [f"n{name}".strip(), f"{script} :"]


@given(
    values=st.dictionaries(NAMES | ANY_TEXT, ANY_JSON, max_size=4),
    sensitive=st.frozensets(NAMES, max_size=2),
    execution=st.fixed_dictionaries(
        {"engine": ENGINE_NAMES},
        optional={
            "bundle": st.just(BUNDLE),
            "bundleDigest": TEXT,
            "engineConfig": ANY_JSON,
            "serviceAccountName": TEXT,
        },
    ),
    dependencies=st.fixed_dictionaries(
        {"secrets": st.lists(st.fixed_dictionaries({"name": st.just("a")}), max_size=2)}
    ),
)
def test_any_run_becomes_json_or_an_error_with_a_meaning(
    values: dict[str, Any], sensitive: frozenset[str], execution: dict[str, Any], dependencies: dict[str, Any]
) -> None:
    run = plan(values=values, sensitive=sensitive, execution=execution, dependencies=dependencies)
    with suppress(NotInvocable, InvalidInput):
        manifest = engine_of(run.workflow).manifest(run)
        assert manifest["metadata"]["name"] == INVOCATION
        json.dumps(manifest)


@given(values=st.dictionaries(NAMES, TEXT, max_size=4), sensitive=st.frozensets(NAMES, max_size=3))
def test_each_variable_is_named_once_and_facts_are_what_they_are(
    values: dict[str, str], sensitive: frozenset[str]
) -> None:
    job = ENGINES["job"].manifest(plan(values=values, sensitive=sensitive))
    names = [variable["name"] for variable in container(job)["env"]]
    assert len(names) == len(set(names))
    told = environment(job, secrets=dict.fromkeys(sensitive, "secret"))
    assert told["FORMULARY_INVOCATION_ID"] == INVOCATION
    assert all(told[name] == "secret" for name in sensitive)
    assert not any(variable["name"] in sensitive and "value" in variable for variable in container(job)["env"])


@given(
    config=st.fixed_dictionaries(
        {},
        optional={
            "image": ANY_JSON,
            "resources": ANY_JSON
            | st.fixed_dictionaries({}, optional={"requests": ANY_JSON, "limits": st.dictionaries(TEXT, ANY_JSON)}),
            "runAsUser": ANY_JSON,
            "pipeline": ANY_JSON,
            "pipelineRef": ANY_JSON,
            "workflowTemplate": ANY_JSON,
            "clusterScope": ANY_JSON,
        },
    ),
    engine=ENGINE_NAMES,
)
def test_settings_of_any_type_are_used_or_refused(config: dict[str, Any], engine: str) -> None:
    run = plan(execution={"engine": engine, "engineConfig": config})
    with suppress(NotInvocable):
        json.dumps(engine_of(run.workflow).manifest(run))


@given(engine=ENGINE_NAMES, document=DOCUMENTS)
def test_any_object_of_a_cluster_can_be_read(engine: str, document: dict[str, Any]) -> None:
    found = ENGINES[engine].observe(document)
    assert found.phase in {Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED, Phase.TIMED_OUT}
    assert storable(found.message)
    assert all(moment is None or moment.tzinfo is not None for moment in (found.started_at, found.finished_at))


@given(engine=ENGINE_NAMES, document=DOCUMENTS, pods=PODS)
def test_outputs_can_be_stored_and_are_small_whatever_they_hold(
    engine: str, document: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    found = ENGINES[engine].outputs(document, pods)
    assert storable(found)
    assert len(json.dumps(found, ensure_ascii=False).encode()) <= MAX_BYTES
