"""The query grammar: signal type, severity, keywords, or natural language."""

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from formulary_catalog.domain.pasted.markup import plain_lines
from formulary_catalog.domain.pasted.reading import read_pasted
from formulary_catalog.domain.search.query import ParsedQuery, as_declared, cause_rarity, parse_problems, parse_query
from formulary_catalog.domain.text import words
from formulary_catalog.domain.workflows.labels import CANONICAL_SIGNAL_TYPES, SEVERITIES

queries = st.text(max_size=60)
in_any_case = st.sampled_from([str, str.lower, str.upper, str.capitalize])


@given(
    signal=st.sampled_from(CANONICAL_SIGNAL_TYPES),
    severity=st.sampled_from(SEVERITIES),
    in_case=in_any_case,
    around=st.sampled_from(["{}", "{}:", "{},", "{}.", "({})", "[{}]:", '"{}"', "`{}`.", "{}!", "({}),"]),
    rest=st.sampled_from(["", "memory grows", "exit code 137"]),
    declared=st.booleans(),
)
def test_a_canonical_signal_and_a_severity_in_front_are_inferred_in_any_case(
    signal: str, severity: str, in_case: Callable[[str], str], around: str, rest: str, declared: bool
) -> None:
    parsed = parse_query(f"  {around.format(in_case(signal))}\t{around.format(in_case(severity))} {rest}")
    assert parsed.inferred(signal_declared=declared) == {"signal_type": signal, "severity": severity}


@given(
    signal=st.sampled_from([each for each in CANONICAL_SIGNAL_TYPES if each != "Evicted"]),
    severity=st.sampled_from(SEVERITIES),
    in_case=in_any_case,
    colon=st.sampled_from(["", ":", ","]),
    rest=st.sampled_from(["", "memory grows", "exit code 137"]),
)
def test_a_severity_after_what_looks_like_a_signal_is_not_ranked_by(
    signal: str, severity: str, in_case: Callable[[str], str], colon: str, rest: str
) -> None:
    parsed = parse_query(f"  {in_case(signal)}{colon}\t{in_case(severity)}{colon} {rest}")
    assert severity not in parsed.text.casefold().split()
    assert parsed.text == parse_query(f"{signal}{colon} {rest}").text


@pytest.mark.parametrize(("query", "severity"), [("disk low on space", "low"), ("memory high since noon", "high")])
def test_a_severity_after_any_other_word_stays_in_the_text(query: str, severity: str) -> None:
    parsed = parse_query(query)
    assert severity in parsed.text.split()
    assert parsed.inferred(signal_declared=False) == {}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Evicted high disk pressure", "Evicted disk pressure"),
        ("CheckoutTooSlow critical: since noon", "CheckoutTooSlow since noon Checkout Too Slow"),
        ("DiskFull critical since noon", "DiskFull since noon Disk Full"),
        ("CheckoutTooSlow high since noon", "CheckoutTooSlow high since noon Checkout Too Slow"),
        ("checkout critical since noon", "checkout critical since noon"),
        ("CheckoutTooSlow noon critical", "CheckoutTooSlow noon critical Checkout Too Slow"),
        ("CheckoutTooSlow", "CheckoutTooSlow Checkout Too Slow"),
    ],
)
def test_a_severity_is_left_out_of_the_text_only_behind_a_name_of_which_it_is_no_adjective(
    query: str, text: str
) -> None:
    assert parse_query(query).text == text


@pytest.mark.parametrize("word", ["CheckoutTooSlow", "checkouttooslow", "Evicting", "disk", "the"])
def test_another_first_word_is_a_signal_only_where_an_allowed_workflow_declares_it(word: str) -> None:
    parsed = parse_query(f"{word}, HIGH: since noon")
    assert parsed.inferred(signal_declared=False) == {}
    assert parsed.inferred(signal_declared=True) == {"signal_type": word, "severity": "high"}


@pytest.mark.parametrize("second", ["memory", "criticality", "p0"])
def test_a_second_word_that_is_no_severity_stays_in_the_text(second: str) -> None:
    parsed = parse_query(f"OOMKilled {second} critical")
    assert parsed == ParsedQuery("OOMKilled", "", f"OOMKilled {second} critical OOM Killed")
    assert parsed.inferred(signal_declared=False) == {"signal_type": "OOMKilled"}


@given(query=queries.filter(lambda query: not any(severity in query.casefold() for severity in SEVERITIES)))
def test_a_query_without_a_severity_keeps_every_word(query: str) -> None:
    assume(not read_pasted(query).machine)
    parsed = parse_query(query)
    assert parsed.severity == ""
    said = words(" ".join(plain_lines(query)).casefold())
    assert words(parsed.text.casefold())[: len(said)] == said


@given(signal=st.sampled_from(CANONICAL_SIGNAL_TYPES), in_case=in_any_case)
def test_a_name_in_another_case_is_ranked_by_as_the_name(signal: str, in_case: Callable[[str], str]) -> None:
    parsed = parse_query(f"the pod: {in_case(signal)}, since 3")
    named = parse_query(f"the pod: {signal}, since 3")
    assert parsed.inferred(signal_declared=False) == {}
    assert parsed.text == (named.text if signal != "Evicted" else f"the pod: {in_case(signal)}, since 3")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("kubehpamaxedout", "KubeHpaMaxedOut Kube Hpa Maxed Out"),
        ("ImagePullBackoff", "ImagePullBackOff Image Pull Back Off"),
        ("CRASH_LOOP_BACK_OFF", "CrashLoopBackOff Crash Loop Back Off"),
        ("backoff, setup and cleanup of a statefulset", "backoff, setup and cleanup of a statefulset"),
        ("notoomkilled oomkilleds", "notoomkilled oomkilleds"),
    ],
)
def test_names_of_the_synonyms_are_restored_and_other_words_kept(query: str, text: str) -> None:
    assert parse_query(query).text == text


@given(query=queries)
def test_the_word_that_may_name_a_signal_has_no_space_and_no_punctuation_around_it(query: str) -> None:
    word = parse_query(query).signal
    assert not word or word == word.strip()
    assert not word.endswith((":", ",", ";", ".", "!", "?", ")"))
    assert not word.startswith(("(", "[", '"'))
    first = "".join(read_pasted(query).problems[0].text.split()[:1])
    assert word.casefold() in first.casefold()


@pytest.mark.parametrize("query", ["* OOMKilled critical", "- OOMKilled critical"])
def test_the_bullet_of_a_list_names_no_signal(query: str) -> None:
    assert parse_query(query).inferred(signal_declared=True) == {"signal_type": "OOMKilled", "severity": "critical"}
    assert parse_query("* memory grows").inferred(signal_declared=True) == {}


def test_an_empty_query_names_nothing() -> None:
    assert parse_query(" \n") == parse_query("") == ParsedQuery("", "", "")


@pytest.mark.parametrize(
    ("query", "inferred"),
    [
        ("[FIRING:2] NodeDown shop/cart", {"signal_type": "NodeDown"}),
        ("alertname=NodeDown severity=critical node=w1", {"signal_type": "NodeDown", "severity": "critical"}),
        ("severity: high, alertname: NodeDown", {"signal_type": "NodeDown", "severity": "high"}),
        ('{"alertname":"NodeDown","severity":"critical"}', {"signal_type": "NodeDown", "severity": "critical"}),
        ("Warning  NodeDown  5m (x3 over 9m)  node-controller  it is gone", {"signal_type": "NodeDown"}),
        ("5m   Warning   NodeDown   node/w1   it is gone", {"signal_type": "NodeDown"}),
    ],
)
def test_a_pasted_alert_or_event_names_its_signal(query: str, inferred: dict[str, str]) -> None:
    assert parse_query(query).inferred(signal_declared=True) == inferred


@pytest.mark.parametrize("source", ["kubelet", "kubelet,", "default-scheduler", "statefulset-controller"])
def test_what_reported_an_event_is_no_symptom(source: str) -> None:
    assert parse_query(f"Warning  BackOff  {source}  Back-off restarting").text.split()[:3] == [
        "BackOff",
        "Back-off",
        "restarting",
    ]


@pytest.mark.parametrize(
    "query", ["Warning signs in the cluster", "firing squad", "severity: critical", "the alertname is missing"]
)
def test_words_of_alerts_in_a_sentence_stay_where_they_are(query: str) -> None:
    assert parse_query(query).text == query


@pytest.mark.parametrize(
    ("query", "signal"),
    [
        ('{"alertname":"kube-api-down","severity":"critical"}', "kube-api-down"),
        ("alertname=Kube-Pod.Down", "Kube-Pod.Down"),
        ("[FIRING:1, RESOLVED:1] NodeDown", "NodeDown"),
        ("[firing:1] [critical] NodeDown", "NodeDown"),
        ("Warning Node kubelet is down", "Warning"),
    ],
)
def test_the_whole_name_of_an_alert_is_read_and_prose_is_no_event(query: str, signal: str) -> None:
    assert parse_query(query).signal == signal


def test_the_most_severe_problems_of_a_notification_are_parsed_and_the_first_is_the_query() -> None:
    given_ = [
        ("NodeDown", "high"),
        ("DiskFull", "low"),
        ("TooSlow", "medium"),
        ("CartLost", "info"),
        ("Gone", "critical"),
    ]
    query = "\n".join(f"alertname={name} severity={severity}" for name, severity in given_)
    parsed = parse_problems(query)
    assert [(each.signal, each.severity) for each in parsed] == [each for each in given_ if each[1] != "info"]
    assert parsed[0] == parse_query(query)
    assert parse_problems("the disk is full") == (parse_query("the disk is full"),)


symptoms = st.lists(
    st.sampled_from(["disk", "full", "OOMKilled", "KubeJobFailed", "HighErrorRate", "pods", "crash", "probe", "mtls"]),
    unique=True,
)


@given(symptoms)
def test_a_word_more_never_tells_less_and_a_word_again_nothing(said: list[str]) -> None:
    before = cause_rarity(" ".join(said))
    assert cause_rarity(" ".join([*said, "certificate"])) >= before >= 0
    assert cause_rarity(" ".join([*said, *said])) == pytest.approx(before)


@pytest.mark.parametrize(
    ("query", "as_much_as"),
    [
        ("HighErrorRate", "high error rate"),
        ("HighErrorRate high error rate", "HighErrorRate"),
        ("KubePodCrashLooping CrashLoopBackOff Pod shop/web-7f9c8d", "CrashLoopBackOff"),
    ],
)
def test_the_name_of_an_alert_tells_no_more_than_its_words(query: str, as_much_as: str) -> None:
    assert cause_rarity(query) == pytest.approx(cause_rarity(as_much_as))


@pytest.mark.parametrize(
    ("query", "is_symptom"),
    [
        ("OOMKilled critical", True),
        ("OOMKilled critical payments zzledger-7f9c8d in namespace shop", True),
        ("CrashLoopBackOff high in the payments team since this morning", True),
        ("certificate expired", True),
        ("OOMKilled Java heap", False),
        ("KubePersistentVolumeFillingUp warning", False),
        ("CrashLoopBackOff high OOMKilled exit code 137", False),
    ],
)
def test_a_query_that_names_a_symptom_alone_is_told_from_one_that_tells_more(query: str, is_symptom: bool) -> None:
    assert parse_query(query).signs.no_cause == is_symptom


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ("CrashLoopBackOff OOMKilled", "OOMKilled"),
        ("CrashLoopBackOff: exit code 137 (oomkilled), FailedMount", "OOMKilled"),
        ("CrashLoopBackOff BackOff FailedMount", "FailedMount"),
        ("CrashLoopBackOff no OOMKilled", ""),
        ("CrashLoopBackOff Not yet OOMKilled", ""),
        ("CrashLoopBackOff without it being OOMKilled", "OOMKilled"),
        ("CrashLoopBackOff never OOMKilled but FailedMount", "FailedMount"),
        ("CrashLoopBackOff memory grows", ""),
        ("CrashLoopBackOff", ""),
        ("NodeNotReady OOMKilled", ""),
        ("FailedMount OOMKilled", ""),
    ],
)
def test_behind_a_symptom_the_first_cause_that_is_not_denied_is_ranked_by(query: str, cause: str) -> None:
    parsed = parse_query(query)

    assert parsed.cause == cause
    assert parsed.ranking_signal == (cause or parsed.signal).casefold()


def test_a_problem_is_called_by_its_name_where_a_program_printed_it_and_only_there() -> None:
    printed = parse_query("alertname=NodeDown severity=high node=w1")
    typed = parse_query("NodeDown high")

    assert (printed.problem, printed.pasted) == ("NodeDown", True)
    assert (typed.problem, typed.pasted) == ("", False)


def test_words_that_no_text_holds_tell_nothing_of_a_cause() -> None:
    assert cause_rarity("certificate zzledger") == cause_rarity("certificate") > 0


@pytest.mark.parametrize(
    ("inferred", "declared", "signal"),
    [
        ({"signal_type": "nodedown", "severity": "high"}, ["DiskFull", "NodeDown", "NODEDOWN"], "NodeDown"),
        ({"signal_type": "nodedown"}, ["DiskFull"], "nodedown"),
        ({"signal_type": "OOMKilled"}, ["oomkilled"], "OOMKilled"),
        ({"severity": "high"}, ["", "NodeDown"], None),
    ],
)
def test_a_signal_is_spelled_as_the_first_workflow_spells_it(
    inferred: dict[str, str], declared: list[str], signal: str | None
) -> None:
    assert as_declared(inferred, declared=declared) == inferred | ({"signal_type": signal} if signal else {})
