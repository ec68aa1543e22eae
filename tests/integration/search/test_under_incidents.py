"""Under an incident, constraints narrow what is allowed and never bury what fits (DESIGN sections 4 and 5)."""

import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench_warned import quotes, read_situations
from formulary_catalog.domain.access import Caller
from formulary_catalog.domain.answers.catalog import SearchAnswer
from formulary_catalog.domain.search.request import ContextReference, search_request
from formulary_catalog.embedding import Embedder
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from quality_judgements import read_judgements
from support import manifest
from support.access import Rights
from support.served import PAYMENTS, Served, incident_of, names, noted, written
from support.services import service_on
from support.serving import catalog

EXAMPLES = Path(__file__).parents[3] / "examples"
JUDGEMENTS = Path(__file__).parents[3] / "benchmarks" / "judgements"
DNS = "DNS lookups fail, SERVFAIL from CoreDNS"
BREAD = "how do I bake bread"


# Order and confidence (point 1)


async def test_a_label_of_the_team_does_not_put_its_workflow_above_one_that_clearly_fits(served: Served) -> None:
    alone = await served.tool(DNS)
    of_the_team = await served.tool(DNS, incident=PAYMENTS)
    for answer in (alone, of_the_team):
        assert answer["workflows"][0]["workflow_id"] == "dns-coredns-restart-scale"
        assert not noted(answer["notes"], "perhaps nothing here fits")
    assert of_the_team["total_results"] == alone["total_results"]


async def test_the_right_workflow_of_nobody_is_as_sure_under_the_incident_of_a_team_as_without(served: Served) -> None:
    alone = await served.ask(DNS)
    of_the_team = await served.ask(DNS, incident=PAYMENTS)
    assert of_the_team.workflows[0].confidence == alone.workflows[0].confidence
    assert of_the_team.workflows[0].confidence >= 0.85


async def test_a_least_confidence_keeps_the_right_workflow_under_the_incident_of_a_team(served: Served) -> None:
    answer = await served.tool(DNS, incident=PAYMENTS, min_confidence=0.3)
    assert answer["workflows"][0]["workflow_id"] == "dns-coredns-restart-scale"


async def test_under_the_whole_example_what_is_returned_is_in_the_order_in_which_it_fits(served: Served) -> None:
    """Its strict key leaves the workflow of the team alone, which does not fit and says so."""
    answer = await served.ask(DNS, incident="rr-checkout-oom", top_k=10)
    assert names(answer) == ["checkout-oom-shed-carts"]
    assert answer.workflows[0].confidence < 0.1
    assert noted(answer.notes, "perhaps nothing here fits")
    fits = await served.ask(
        "checkout pods OOMKilled while the cart cache grew during a sale", incident="rr-checkout-oom"
    )
    assert names(fits) == ["checkout-oom-shed-carts"]
    assert not noted(fits.notes, "perhaps nothing here fits")


@pytest.mark.smoke
async def test_no_note_recommends_what_the_incident_excludes(served: Served) -> None:
    query = "OOMKilled, the cart cache grew during a sale or leaks without bound"
    excluded = "oom-restart-leaking-process"
    under_none = await served.ask(query, action_type="TrimCache")
    assert noted(under_none.notes, excluded)
    under_it = await served.ask(query, incident="rr-checkout-oom")
    assert names(under_it) == names(under_none) == ["checkout-oom-shed-carts"]
    assert not noted(under_it.notes, excluded)
    assert noted(under_it.notes, "[not allowed here]")


QUERIES_WITH_RIVALS = (
    "java service OOMKilled although its heap charts look healthy",
    "OOMKilled critical exit code 137",
    "JVM off-heap memory and metaspace push the container over its limit",
    "java.lang.OutOfMemoryError: Java heap space",
)


@pytest.mark.parametrize("query", QUERIES_WITH_RIVALS)
async def test_confidence_does_not_rise_because_an_environment_filters_rivals_away(served: Served, query: str) -> None:
    whole = await served.ask(query, top_k=50)
    before = {hit.workflow_id: hit.confidence for hit in whole.workflows}
    narrowed = await served.ask(query, top_k=50, labels={"environment": ["development"]})
    assert "oom-right-size-jvm-heap" in names(narrowed)
    assert narrowed.total_results < whole.total_results
    # What declares the environment by name has that in its favour; all others have gained nothing.
    not_made_for_it = [
        hit for hit in narrowed.workflows if hit.workflow_id in before and hit.labels.get("environment", ["*"]) == ["*"]
    ]
    assert "oom-right-size-jvm-heap" in [hit.workflow_id for hit in not_made_for_it]
    for hit in not_made_for_it:
        assert hit.confidence <= before[hit.workflow_id] + 0.05, hit.workflow_id


# What a query mentions (point 2)


async def test_a_mentioned_signal_does_not_hide_the_workflows_for_what_the_words_say(served: Served) -> None:
    answer = await served.ask("CrashLoopBackOff high OOMKilled exit code 137")
    assert answer.inferred == {"signal_type": "CrashLoopBackOff", "severity": "high"}
    assert answer.total_results == (await served.ask("anything")).total_results
    assert {"oom-raise-memory-limit", "oom-restart-leaking-process"} <= set(names(answer))


async def test_a_first_word_that_one_workflow_declares_does_not_hide_the_others(served: Served) -> None:
    answer = await served.tool("Unhealthy nodes: kubelet stopped posting status")
    assert answer["inferred"] == {"signal_type": "Unhealthy"}
    assert answer["workflows"][0]["workflow_id"].startswith("node-notready-")
    assert answer["total_results"] == (await served.ask("anything")).total_results


async def test_a_mentioned_severity_does_not_hide_the_right_workflow(served: Served) -> None:
    answer = await served.tool("OOMKilled critical memory grows without bound, leak")
    assert answer["inferred"] == {"signal_type": "OOMKilled", "severity": "critical"}
    assert answer["workflows"][0]["workflow_id"] == "oom-restart-leaking-process"


@pytest.mark.parametrize(
    "query",
    [
        "OOMKilled critical exit code 137",
        "CrashLoopBackOff high: back-off restarting",
        "ImagePullBackOff",
        "Evicted low",
    ],
)
async def test_upper_and_lower_case_mean_the_same(served: Served, query: str) -> None:
    given, lower, upper = [
        await served.ask(written_so, top_k=20) for written_so in (query, query.lower(), query.upper())
    ]
    assert given.inferred == lower.inferred == upper.inferred
    assert given.inferred["signal_type"] == query.split()[0]
    assert names(given) == names(lower) == names(upper)
    assert [hit.confidence for hit in given.workflows] == [hit.confidence for hit in lower.workflows]


@pytest.mark.parametrize("word", ["Unhealthy", "UNHEALTHY", "unhealthy"])
async def test_a_signal_that_a_workflow_declares_is_inferred_in_any_case(served: Served, word: str) -> None:
    answer = await served.ask(f"{word} Critical liveness probe fails")
    assert answer.inferred["signal_type"] == "Unhealthy"
    assert answer.inferred["severity"] == "critical"
    liveness = next(hit for hit in answer.workflows if hit.workflow_id == "crashloop-relax-liveness-probe")
    assert any("signal-type" in reason for reason in liveness.match_reasons)


@pytest.mark.parametrize(
    ("query", "inferred"),
    [
        (
            "kubepodcrashlooping critical: the container was OOMKilled",
            {"signal_type": "KubePodCrashLooping", "severity": "critical"},
        ),
        ("NoSuchAlertAtAll critical: the container was OOMKilled", {}),
    ],
)
async def test_the_name_of_an_alert_is_inferred_where_a_workflow_declares_it_though_a_cause_follows(
    served: Served, query: str, inferred: dict[str, str]
) -> None:
    answer = await served.ask(query)
    assert answer.inferred == inferred
    assert "oom" in answer.workflows[0].workflow_id


async def test_a_label_of_the_call_still_excludes(served: Served) -> None:
    answer = await served.ask("OOMKilled critical exit code 137", labels={"signal_type": ["Evicted"]}, top_k=50)
    assert answer.inferred == {"signal_type": "OOMKilled", "severity": "critical"}
    assert "evicted-clean-and-rebalance" in names(answer)
    assert not any(name.startswith("oom-") for name in names(answer))


TEMPTING = ("Pod", "The", "Java")
TEMPTED = (
    "Pod high memory usage since the last release",
    "The critical node stopped posting status",
    "Java heap space",
    "pod",
    "the registry says manifest unknown",
)


@pytest.fixture(scope="module")
async def tempted(
    postgres: EmbeddedPostgres, embedder: Embedder, starter_catalog: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """The same as `served`, with workflows that declare common words as signals and that nobody may have."""
    spec = manifest.workflow("")["spec"]
    labels = spec["labels"] | {"signalType": [*TEMPTING], "severity": "*", "environment": "*"}
    hidden = manifest.workflow("of-hidden-namespace", labels=labels)
    hidden["metadata"]["namespace"] = "hidden"
    documents = [
        manifest.workflow("of-another-team", labels=labels, customLabels={"team": ["search"]}),
        manifest.workflow("of-another-environment", labels=labels | {"environment": "moon"}),
        hidden,
        incident_of("payments", labels={"team": ["payments"]}),
        incident_of("nobody", labels={}),
    ]
    directory = written(documents, into=tmp_path_factory.mktemp("tempted"))
    async with catalog([starter_catalog, EXAMPLES, directory], postgres=postgres, embedder=embedder) as parts:
        yield Served(service=service_on(parts), url="")


@pytest.mark.parametrize("query", TEMPTED)
async def test_what_the_constraints_exclude_cannot_influence_how_a_query_is_read(
    served: Served, tempted: Served, query: str
) -> None:
    asked: dict[str, Any] = {"labels": {"environment": ["production"]}, "top_k": 50}
    caller = Caller(name="agent", access=Rights(see={"formulary", "payments", "shop"}, use={"shop"}))
    context = ContextReference(remediation_id=PAYMENTS)
    request = search_request(query=query, context=context, **asked)
    without, beside = [
        (await each.service.search(request, caller=caller)).model_dump(exclude={"search_id", "time_ms"})
        for each in (served, tempted)
    ]
    assert beside == without
    assert beside["inferred"] == {}
    assert len(beside["workflows"]) > 10


@pytest.mark.parametrize("query", TEMPTED)
async def test_nor_does_one_that_is_allowed_empty_an_answer(served: Served, tempted: Served, query: str) -> None:
    alone = await served.ask(query, top_k=50)
    beside = await tempted.ask(query, top_k=50)
    assert beside.total_results == alone.total_results + 3
    assert names(alone)[0] in names(beside)[:4]
    if query.split()[0] in TEMPTING:
        assert beside.inferred["signal_type"] == query.split()[0]


# What was missed once (point 8)


async def test_an_alert_that_one_workflow_declares_is_no_proof_that_it_fits(served: Served) -> None:
    answer = await served.ask("KubeAPIErrorBudgetBurn etcd disk is slow", top_k=50)
    webhook = next(hit for hit in answer.workflows if hit.workflow_id == "certificate-webhook-ca-refresh")
    assert any("signal-type KubeAPIErrorBudgetBurn" in reason for reason in webhook.match_reasons)
    assert webhook.confidence < 0.5


@pytest.mark.parametrize(
    ("query", "right"),
    [
        ("storage class does not exist", "pending-bind-volume-claim"),
        ("the kubelet is dead", "node-notready-restart-kubelet"),
    ],
)
async def test_the_words_of_people_find_what_is_called_otherwise(served: Served, query: str, right: str) -> None:
    assert names(await served.ask(query))[0] == right


# What the author says that it is not for (point 4)


JAVA_HEAP = "java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize("labels", [{}, {"environment": ["development"]}], ids=["anywhere", "in development"])
async def test_a_workflow_that_is_not_for_what_the_query_says_is_shown_with_a_caution(
    served: Served, labels: dict[str, list[str]]
) -> None:
    answer = await served.ask(JAVA_HEAP, labels=labels, top_k=10)
    warned = next(hit for hit in answer.workflows if hit.workflow_id == "oom-right-size-jvm-heap")
    assert warned.caution.startswith("its when_not_to_use speaks of: ")
    assert {"Java", "heap", "space"} <= set(warned.caution.split())


async def test_an_answer_quotes_the_clause_that_excludes_its_first_hit(served: Served) -> None:
    """Half of the situations that authors of the starter catalog warn of, as the tool answers within its size."""
    excluded, quoted = 0, []
    for situation in read_situations("starter")[::2]:
        answer = await served.tool(situation.query, incident=PAYMENTS)
        first, *_ = answer["workflows"] or [None]
        if first and first["workflow_id"] in situation.warned and first["confidence"] >= 0.5:
            excluded += 1
            quoted += [situation.id] * quotes(answer["notes"], clause=situation.clause)
    assert excluded > 10
    assert len(quoted) >= 0.95 * excluded


async def test_hardly_any_right_answer_carries_a_caution_where_the_query_comes_near_what_excludes_it(
    served: Served,
) -> None:
    near = [each for each in read_situations("starter") if not each.warned]
    answers = [await served.ask(each.query) for each in near]
    right = [
        answer.workflows[0]
        for each, answer in zip(near, answers, strict=True)
        if answer.workflows and answer.workflows[0].workflow_id in each.best
    ]
    assert len(right) > 40
    assert sum(hit.caution != "" for hit in right) <= 2


# The tail (point 5)


async def test_what_fits_nothing_is_not_shown_and_is_counted(served: Served) -> None:
    answer = await served.tool(BREAD)
    everything = (await served.ask("anything", top_k=1)).total_results
    assert answer["workflows"] == []
    assert answer["total_results"] == everything > 40
    assert noted(answer["notes"], "nothing that is allowed here fits this query")


async def test_a_length_of_the_page_shows_what_fits_nothing_too(served: Served) -> None:
    answer = await served.ask(BREAD, top_k=7)
    assert len(answer.workflows) == 7
    assert noted(answer.notes, "perhaps nothing here fits")


async def test_the_same_holds_under_the_incident_of_a_team(served: Served) -> None:
    answer = await served.tool(BREAD, incident=PAYMENTS)
    assert answer["workflows"] == []
    assert noted(answer["notes"], "nothing that is allowed here fits this query")


async def test_some_that_fit_nothing_are_counted_in_a_note(served: Served) -> None:
    answer = await served.ask("etcd database space exceeded, defragment")
    shown = len(answer.workflows)
    assert answer.workflows[0].workflow_id == "etcd-defragment"
    (note,) = noted(answer.notes, "do not match well and are left out")
    assert int(note.split()[0]) + shown == answer.total_results


@pytest.mark.parametrize("incident", ["", PAYMENTS])
@pytest.mark.parametrize("query", ["pod", "node", "memory", "failed pods in billing", "my node has a problem"])
async def test_a_vague_query_is_answered_with_what_fits_best(served: Served, query: str, incident: str) -> None:
    first, *_ = (await served.ask(query, incident=incident)).workflows
    assert first.version_id == (await served.ask(query, incident=incident, top_k=1)).workflows[0].version_id


@pytest.mark.parametrize("incident", ["", PAYMENTS])
@pytest.mark.parametrize("query", ["OOMKilled critical", "pod stuck in ContainerCreating, secret not found", "pod"])
async def test_an_answer_ends_where_its_hits_stop_being_worth_reading(
    served: Served, query: str, incident: str
) -> None:
    answer = await served.ask(query, incident=incident)
    whole = await served.ask(query, incident=incident, top_k=10)
    shown = [hit.confidence for hit in answer.workflows]
    assert answer.workflows == whole.workflows[: len(shown)]
    assert min(shown[1:], default=1.0) >= 0.1
    following = whole.workflows[len(shown)].confidence
    assert following < 0.1 or following / (1 - following) * 10 < shown[-1] / (1 - shown[-1])
    assert answer.total_results == whole.total_results


@pytest.mark.parametrize("query", ["it is broken", "pod broken", "pods are weird", "something is wrong with the node"])
async def test_nothing_is_believed_of_a_query_that_says_only_that_something_is_wrong(
    served: Served, query: str
) -> None:
    for incident in ("", PAYMENTS):
        answer = await served.ask(query, incident=incident, top_k=5)
        assert len(answer.workflows) == 5
        assert all(hit.confidence < 0.5 for hit in answer.workflows)


async def test_the_event_of_a_container_that_crashes_is_not_taken_for_one_of_its_node(served: Served) -> None:
    answer = await served.ask("Warning  BackOff  2m (x7 over 5m)  kubelet  Back-off restarting failed container")
    assert answer.workflows[0].workflow_id.startswith("crashloop-")
    assert all(hit.confidence < 0.5 for hit in answer.workflows if not hit.workflow_id.startswith("crashloop-"))


@pytest.fixture(scope="module")
async def judged(served: Served) -> list[SearchAnswer]:
    """Answers to every fourth judged query, without an incident and under that of a team."""
    queries = [judgement.query for judgement in read_judgements(JUDGEMENTS)[::4]]
    return [await served.ask(query, incident=incident) for query in queries for incident in ("", PAYMENTS)]


async def test_that_hits_fit_about_equally_is_said_only_where_it_is_true(judged: list[SearchAnswer]) -> None:
    said = 0
    for answer in judged:
        confidences = [hit.confidence for hit in answer.workflows]
        for note in noted(answer.notes, "fit about equally"):
            said += 1
            count = int(note.split()[2])
            assert 2 <= count <= len(confidences)
            assert confidences[0] >= 0.5
            # The odds of the first are at most twice those of the last.
            first, last = (
                math.log((each + 1e-4) / (1.0001 - each)) for each in (confidences[0], confidences[count - 1])
            )
            assert first - last <= math.log(2) + 0.05 or last > math.log(99)
    assert said > 0


async def test_it_is_said_of_at_most_three_by_name_in_300_bytes(judged: list[SearchAnswer]) -> None:
    for answer in judged:
        for note in noted(answer.notes, "fit about equally"):
            assert len(note.encode()) <= 300
            named = note.partition("to choose, check ")[2]
            by_name = [
                hit for hit in answer.workflows if re.search(rf"(^|; )(\w+ of )?{hit.workflow_id}( \(|; |$)", named)
            ]
            assert 1 <= len(by_name) <= 3


@pytest.mark.parametrize("incident", ["", PAYMENTS])
@pytest.mark.parametrize("query", [DNS, BREAD])
async def test_it_is_not_said_of_a_clear_first_and_not_where_nothing_fits(
    served: Served, query: str, incident: str
) -> None:
    assert not noted((await served.ask(query, incident=incident)).notes, "fit about equally")
