"""Whatever is pasted is read: in time that grows with its length, bounded, and no object names a problem."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulary_catalog.domain.pasted.reading import read_pasted
from support import notifications
from support.notifications import Alert

LENGTH = 4000
PIECES = st.sampled_from(
    [
        *'{}[]"\t\n|',
        *(
            "[FIRING:1]",
            "[RESOLVED]",
            "alertname=stuck",
            "alertname: stuck",
            '{"alertname":"full",',
            "severity=critical",
        ),
        *("Labels:", "Annotations:", "5m", "Warning", "Evicted", "  ", "\n    ", "kubelet", "pod/x-1", "(x3 over 9m)"),
        *(
            "$ kubectl get pods",
            "$ kubectl describe pod",
            "NAME   READY   STATUS   RESTARTS   AGE",
            "NAME   STATUS   AGE",
        ),
        *("x-1   0/1   Pending   0   5m", "Reason:  Evicted", "Name:   x", "Events:", "Conditions:", "Ready   False"),
        *(
            "status:",
            "phase: Pending",
            "kind: Job",
            "- type: Ready",
            'status: "False"',
            "<tr><td>",
            "</td></tr>",
            "<none>",
        ),
        *("full", "error: gone", "2026-03-03T10:00:00Z", "systemd[1]: x.service: failed", "\\n", '\\"a\\":'),
    ]
)
HOSTILE = [
    *"[]{}()<>|\"'`*_-=:;,.\\/~#$&%@! \t\na1A",
    "[FIRING:1] ",
    "[FIRING:1, ",
    "alertname=",
    "alert: aA",
    "alert: ",
    "alertname\t",
    'alertname="',
    "a=b ",
    '"a": ',
    '{"a":',
    '{"a":[',
    "[[{",
    "<td>",
    "<table><tr>",
    "<!--",
    "&lt;",
    "a: b\n",
    "- a: b\n",
    "Reason: A ",
    "Reason:  ",
    "NAME  ",
    "NAME READY STATUS ",
    "a 1/1 ",
    "a  0/1  B  ",
    "Warning  ",
    "5m Warning A ",
    "1 (",
    "$ kubectl get ",
    "Ready  False  ",
    "LABELS = map[",
    "in pod ",
    "https://",
    "2026-03-03T",
    " \n",
    "a \t",
    "A\t",
    "Labels:\n - a = b\n",
    "\x1b[",
    "> ",
    "**a",
    "`a",
    '\\"a\\":',
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_text_of_one_delimiter_takes_no_time(piece: str) -> None:
    for text in (
        piece * (LENGTH // len(piece)),
        "alertname: A\n" + piece * (LENGTH // len(piece)),
        "a" * LENGTH + piece,
    ):
        began = process_time()
        read_pasted(text)
        assert process_time() - began < 0.5


PREFIXES = [
    "",
    "value: ",
    "$ kubectl get pods\n",
    "$ kubectl get pods\n\nWe see",
    "alertname=a ",
    "alertname=a b=c ",
    "[FIRING:1] ",
    "<p>",
    "Name:   x\nNamespace:  y\n",
    "Ab",
    "a:x",
]
UNITS = "-,:=./<>[]{}\"'\\ \taA0|*#$()"
SUFFIXES = ["x", " x", ":"]


def _seconds(text: str) -> float:
    began = process_time()
    read_pasted.__wrapped__(text)
    return process_time() - began


def _takes_linear_time(prefix: str, unit: str, suffix: str) -> bool:
    short, long = (
        prefix + (unit * length)[: length - len(prefix) - len(suffix)] + suffix for length in (LENGTH // 4, LENGTH)
    )
    if _seconds(long) < 0.02:
        return True
    return min(_seconds(long) for _ in range(3)) <= 10 * min(_seconds(short) for _ in range(3)) + 0.02


@pytest.mark.parametrize("prefix", PREFIXES)
def test_time_grows_linearly_with_what_is_repeated_before_the_end_of_a_line(prefix: str) -> None:
    assert [unit for unit in UNITS if not _takes_linear_time(prefix, unit, "x")] == []


@settings(max_examples=150)
@given(
    prefix=st.sampled_from(PREFIXES),
    unit=st.text(alphabet=UNITS + "\n", min_size=2, max_size=3),
    suffix=st.sampled_from(SUFFIXES),
)
def test_time_grows_linearly_with_repeated_pairs_and_triples(prefix: str, unit: str, suffix: str) -> None:
    assert _takes_linear_time(prefix, unit, suffix)


@pytest.mark.parametrize(
    ("prefix", "unit", "suffix"),
    [
        ("", "-", "x"),
        ("value: ", "a=b", " x"),
        ("value: ", "1=1 ", "x"),
        ("view in ", "1", " x"),
        ("<p>", "<a\n", ""),
        ("<p>", "<!--", ""),
        ("error", " ", "x"),
    ],
)
def test_time_grows_linearly_where_patterns_could_overlap(prefix: str, unit: str, suffix: str) -> None:
    assert _takes_linear_time(prefix, unit, suffix)


@given(
    text=st.lists(
        st.sampled_from(
            [
                *("<p>", "<br>", "<b>x</b>", "<![", "<![CDATA[a]]>", "<!--", "-->", "<!doctype", "<?", "</", "<", ">"),
                *("<td>", "</td>", "<style>", "</style>", "<none>", "&lt;", "&#", " if [ 1 ", "]", "\n", '<a href="'),
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_no_piece_of_html_fails(text: str) -> None:
    assert read_pasted(f"<p>{text}").problems


@given(
    query=st.lists(PIECES, max_size=40).map("".join)
    | st.lists(PIECES, max_size=30).map("\n".join)
    | st.text(max_size=80)
)
def test_each_text_has_a_problem_and_what_a_program_printed_is_short(query: str) -> None:
    pasted = read_pasted(query)
    assert pasted.problems
    assert len({each.text for each in pasted.problems}) == len(pasted.problems)
    if pasted.machine and len(pasted.problems) == 1:
        assert len(pasted.problems[0].words) <= max(600, len(query))


@given(
    form=st.sampled_from([*notifications.ANY, *notifications.FIRING_ONLY, *notifications.ONE_ALERT]),
    values=st.lists(st.from_regex(r"zqx[a-z0-9]{1,8}(-[a-z0-9]{1,5}){0,2}", fullmatch=True), min_size=6, max_size=6),
)
def test_no_label_of_an_object_or_of_scraping_names_a_problem_or_is_searched_for(
    form: notifications.Form, values: list[str]
) -> None:
    labels = dict(zip(("namespace", "pod", "job", "cluster", "service", "node"), values, strict=True))
    alert = Alert("KubeNodeUnreachable", "critical", "Node is unreachable.", extra=labels)
    (problem,) = read_pasted(form([alert])).problems
    assert problem.name == alert.name
    assert "zqx" not in problem.text
