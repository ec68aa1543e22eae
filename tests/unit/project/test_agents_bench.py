"""FormularyBench: its judge against truths made by hand, and that its questions are always the same ones."""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import jsonschema
import pytest
import yaml

from agents import healing, page
from agents.annotating import kappa, official, sheet
from agents.arms import Offer
from agents.choosers import CHOOSERS, Choice, words
from agents.healed_table import healed
from agents.inputs import example_input, matching
from agents.live import as_line, chosen_of, results, totals
from agents.questions import FURTHER, Demand, Judge, Question, cases, questions, sample
from agents.remedies import ENVIRONMENTS, HERE, catalog
from agents.scores import Tally, on_the_cases_of, outcomes, scores, share, tallies
from agents.truth import allowed
from lab.fault import read_faults

PLAIN = {"environment": "production", "custom": {"team": ["shop"]}, "strict": [], "detected": {"gitOpsManaged": False}}


@pytest.mark.parametrize(
    ("declared", "demanded", "accepted"),
    [
        ({}, {}, True),
        ({"environment": ["Production"]}, {}, True),
        ({"environment": ["test"]}, {}, False),
        ({"environment": ["*"]}, {}, True),
        ({"customLabels": {"team": "shop"}}, {}, True),
        ({"customLabels": {"team": ["data", "shop"]}}, {}, True),
        ({"customLabels": {"team": "data"}}, {}, False),
        ({"customLabels": {"team": "*"}}, {"strict": ["team"]}, True),
        ({}, {"strict": ["team"]}, False),
        ({"customLabels": {"restarts": "no"}}, {"custom": {"restarts": ["no"]}}, True),
        ({"customLabels": {"restarts": "yes"}}, {"custom": {"restarts": ["no"]}}, False),
        ({}, {"custom": {"restarts": ["no"]}}, False),
        ({"customLabels": {"restarts": "no"}}, {"custom": {"restarts": ["yes"]}}, True),
        ({}, {"custom": {"data-loss": ["no"]}}, False),
        ({"detectedLabels": {"gitOpsManaged": False}}, {}, True),
        ({"detectedLabels": {"gitOpsManaged": False}}, {"detected": {"gitOpsManaged": True}}, False),
        ({"detectedLabels": {"gitOpsManaged": True}}, {}, False),
        ({"detectedLabels": {"hpaEnabled": True}}, {}, True),
    ],
)
def test_the_matcher_of_the_judge_says_what_a_person_says(
    declared: Mapping[str, Any], demanded: Mapping[str, Any], accepted: bool
) -> None:
    labels = {"environment": declared.get("environment", [])}
    assert allowed({**declared, "labels": labels}, {**PLAIN, **demanded}) is accepted


def test_the_matcher_is_short_and_imports_nothing_of_the_product() -> None:
    written = (HERE / "truth.py").read_text(encoding="utf-8")

    assert len(written.splitlines()) <= 40
    assert "formulary_catalog" not in written


def test_the_same_questions_are_made_each_time_and_each_case_has_its_kinds() -> None:
    remedies = catalog(150)
    once = [(each.id, each.query, each.incident.right) for each in questions(Judge(remedies), cases()[:20])]
    again = [(each.id, each.query, each.incident.right) for each in questions(Judge(catalog(150)), cases()[:20])]

    assert once == again
    assert len({id_ for id_, _, _ in once}) == len(once)
    assert len({each.name for each in remedies}) == 150


def test_every_case_has_an_act_that_a_starter_workflow_does_or_none() -> None:
    starter = catalog(0)

    assert len(cases()) == 98
    assert [each.id for each in cases() if each.right and not any(one.acts & each.right for one in starter)] == []


def test_choosers_take_what_their_policy_says() -> None:
    texts = {"a": "one", "b": "two words asked", "c": "three"}
    choice = Choice(
        question="q",
        query="words asked",
        offered=("a", "b", "c"),
        words={name: words(text) for name, text in texts.items()},
        allowed={"b", "c"},
        right={"c"},
    )

    taken = {name: chooser(choice) for name, chooser in CHOOSERS.items()}

    assert {name: taken[name] for name in ("first", "keyword", "careful", "adversarial")} == {
        "first": "a",
        "keyword": "b",
        "careful": "b",
        "adversarial": "a",
    }
    assert taken == {name: chooser(choice) for name, chooser in CHOOSERS.items()}


def test_what_is_chosen_is_counted_and_a_refused_choice_is_made_again() -> None:
    remedies = catalog(0)
    judge = Judge(remedies)
    question = next(each for each in questions(judge, cases()[:1]) if each.incident.right)
    right = min(question.incident.right)
    forbidden = min({each.name for each in remedies} - judge.allowed(question.incident.demand))
    answered = [(question, Offer(names=(forbidden, right), tokens=10, calls=1))]
    split = {each.name: words(each.text) for each in remedies}

    (alone,) = outcomes(answered, "first", judge=judge, words=split, accepts=None)
    (tried,) = outcomes(answered, "first", judge=judge, words=split, accepts=lambda _, name: (name != forbidden, 5))

    assert (alone.chosen, alone.forbidden, alone.right) == (forbidden, True, False)
    assert (tried.chosen, tried.forbidden, tried.right) == (right, False, True)
    assert (tried.tokens, tried.calls) == (20, 3)
    (counted,) = scores(tallies([alone, tried], size=1, arm="X", chooser="first"))
    assert (counted.right.mean, counted.forbidden.mean, counted.abstained.of) == (0.5, 0.5, 0)


def test_intervals_are_over_cases_and_always_the_same() -> None:
    counted = [(2, 2), (0, 1), (1, 1), (0, 0)]

    found = share(counted)

    assert found == share(counted)
    assert (found.mean, found.of) == (0.75, 4)
    assert found.low < 0.75 < found.high


def test_an_input_is_made_for_every_starter_workflow() -> None:
    assert matching("^(deployment|statefulset)/[a-z0-9][-a-z0-9.]*$") == "deployment/0"
    assert all(isinstance(example_input(each.spec), dict) for each in catalog(0))


def test_two_readings_are_compared_and_the_sheet_gives_nothing_away() -> None:
    assert kappa({"a": "x", "b": "none"}, {"a": "x", "b": "none"}) == 1
    assert kappa({"a": "x", "b": "y"}, {"a": "y", "b": "x"}) < 0
    assert "right" not in sheet()
    assert len(official()) == 48


def test_the_page_says_how_far_the_two_readings_agree_with_each_other_and_with_the_judge() -> None:
    one, two = (yaml.safe_load((HERE / "readings" / f"{name}.yaml").read_text()) for name in ("one", "two"))
    told = f"(Cohen's kappa {kappa(one, two):.2f}) and with that judge ({kappa(one, official()):.2f} and "
    assert f"{told}{kappa(two, official()):.2f};" in " ".join((HERE / "page.md").read_text(encoding="utf-8").split())


def test_a_live_model_is_asked_over_an_openai_compatible_url() -> None:
    asked: list[dict[str, Any]] = []

    class Scripted(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            said = f"I choose {forbidden}." if len(asked) == 1 else "none"
            body = {"model": "scripted-1", "choices": [{"message": {"content": said}}], "usage": {"total_tokens": 7}}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    remedies = catalog(0)
    judge = Judge(remedies)
    question: Question = next(iter(questions(judge, cases()[:1])))
    permitted = judge.allowed(question.incident.demand)
    forbidden = min({each.name for each in remedies} - permitted)
    offer = Offer(names=(forbidden, *sorted(question.incident.right)), tokens=0, calls=1)
    line = as_line(118, "B", question, offer, allowed=permitted)
    descriptions = json.dumps({"descriptions": {each.name: each.text for each in remedies}})
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        one, two = results([descriptions, line, line], url=url, model="any", key="k")
        server.shutdown()

    assert (one["chosen"], one["right"], one["forbidden"], one["model"]) == (forbidden, False, True, "scripted-1")
    assert (two["chosen"], two["right"], two["tokens"]) == ("", False, 7)
    assert forbidden in asked[0]["messages"][1]["content"]
    assert "Team" in asked[0]["messages"][1]["content"]
    assert list(totals([one, two])) == ["118/B: 0 right, 1 forbidden of 2"]
    schema = json.loads((HERE / "result.schema.json").read_text(encoding="utf-8"))
    for result in (one, two):
        jsonschema.validate(result, schema)


def test_only_the_questions_whose_ids_begin_so_are_asked() -> None:
    line = json.dumps({"id": "500/E/rr-1/cause"})

    assert list(results([json.dumps({"descriptions": {}}), line], url="", model="", key="", only=["118/"])) == []


def test_the_longest_name_at_the_first_place_is_the_chosen_one() -> None:
    assert (
        chosen_of("take web-restart-shop, not web-restart", ["web-restart", "web-restart-shop"]) == "web-restart-shop"
    )
    assert chosen_of("none", ["web-restart"]) == ""


def test_demands_in_words_and_in_terms_are_of_one_source() -> None:
    demand = Demand("shop", "production", ("team", "restarts"))

    assert demand.terms["strict"] == ["team"]
    assert demand.terms["custom"] == {"team": ["shop"], "restarts": ["no"]}
    assert demand.words == "Team shop, production. Only what the shop team itself declares. Nothing may restart."


def _tally(arm: str, chooser: str, *, right: int, forbidden: int = 0, case: str = "a") -> Tally:
    """Ten answerable questions of a case."""
    return Tally(
        size=500, arm=arm, chooser=chooser, case=case, questions=10, answerable=10, right=right, forbidden=forbidden,
        abstained=0, offered=5, tokens=900 if arm == "B" else 1000, listed=100, calls=10,
    )  # fmt: skip


def test_the_page_says_first_where_another_arm_is_ahead_and_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    counted = [
        _tally(arm, chooser, right=right, forbidden=forbidden)
        for arm, right, forbidden in (("B", 6, 4), ("E", 5, 0), ("F", 5, 0))
        for chooser in ("first", "careful")
    ]
    written = []
    for place in (tmp_path / "one", tmp_path / "two"):
        place.mkdir()
        page.write(counted, place / "agents.md")
        written.append(((place / "agents.md").read_text(encoding="utf-8"), (place / "agents.svg").read_bytes()))

    assert written[0] == written[1]
    text = written[0][0]
    ours = "than Formulary: first 0.60 against 0.50 with 500; careful 0.60 against 0.50 with 500."
    assert f"* **B**, mcp-server-qdrant, chooses right more often {ours}" in text
    assert "takes fewer tokens than Formulary: 90 against 100 with 500." in text
    assert text.index("Where another arm is ahead") < text.index("What was chosen")
    assert "With Formulary, 0% of the choices were forbidden, for every chooser." in text
    assert "Not measured in this run: 118 workflows, 5,000 workflows, arm A, arm B2, arm C, arm D." in text
    assert "$" not in text


def test_an_arm_that_is_asked_about_a_sample_is_compared_on_the_same_cases() -> None:
    counted = [_tally("B2", "first", right=5), _tally("E", "first", right=4), _tally("E", "first", right=9, case="b")]

    assert on_the_cases_of(counted, ours="E")[500, "B2", "first"].right.mean == 0.4
    (line,) = page.ahead(scores(counted), on_the_cases_of(counted, ours="E"))
    assert "first 0.50 against 0.40 with 500" in line


def test_the_sample_has_every_environment_and_every_demand() -> None:
    sampled = sample(cases())

    assert len(sampled) == 33
    assert {each.place % len(ENVIRONMENTS) for each in sampled} == {*range(len(ENVIRONMENTS))}
    assert {each.place % len(FURTHER) for each in sampled} == {*range(len(FURTHER))}


def test_the_page_has_what_the_first_offers_did_on_a_node(tmp_path: Path) -> None:
    trial = {"fault": "quota-pods", "curable": True, "demand": "restarts", "right": True, "forbidden": False}
    trials = [
        {
            **trial,
            "arm": "B",
            "remedy": "restart-all",
            "forbidden": True,
            "run": "completed",
            "healed": True,
            "harmed": True,
        },
        {**trial, "arm": "E", "remedy": "", "right": False, "run": "nothing", "healed": False, "harmed": False},
    ]
    file = tmp_path / "healed.json"
    file.write_text(json.dumps({"date": "2026-11-29", "trials": trials}), encoding="utf-8")

    lines = list(healed(file))

    assert "| B, mcp-server-qdrant | 1 of 1 | 1 of 1 | 1 of 1 | 1 of 1 | 1 of 1 | 1 of 1 |" in lines
    assert "| E, Formulary | 0 of 1 | 0 of 1 | 0 of 1 | 0 of 1 | 0 of 1 | 0 of 1 |" in lines
    assert "| quota-pods | restart | B: restart-all, completed, forbidden, healed, harmed; E: nothing |" in lines
    assert list(healed(tmp_path / "none.json")) == ["Not measured yet."]


def test_the_faults_that_are_put_on_a_node_are_those_of_the_rule() -> None:
    faults = healing.sampled(read_faults())
    questions_of = healing.questions(faults, catalog(0))

    assert [bool(each.right) for each in faults] == [True] * (len(faults) - 1) + [False]
    assert 10 <= len(faults) <= 13
    assert [each.incident.demand.further for each in questions_of[:4]] == [(), ("restarts",), (), ("restarts",)]
    assert all(
        each.query == " ".join(fault.root_cause.split()) for each, fault in zip(questions_of, faults, strict=True)
    )
