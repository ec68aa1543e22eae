"""What was copied, without what was around its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulary_catalog.domain.pasted.markup import plain_lines
from formulary_catalog.domain.text import words


@pytest.mark.parametrize(
    ("copied", "plain"),
    [
        ("> quoted\n>> twice", "quoted\ntwice"),
        ("look:\n```console\na  b\n```\nthanks", "look:\na  b\nthanks"),
        ("~~~\na\n~~~", "a\n"),
        ("**Reason:** `OOMKilled`, *really*", "Reason: OOMKilled, really"),
        ("- **Status**: Evicted\n* DiskFull\n- a point", "Status: Evicted\nDiskFull\n- a point"),
        ("| A | B |\n|---|:-:|\n| c | d |", "A\tB\nc\td"),
        ("&gt; a &lt;none&gt; &amp; b", "a <none> & b"),
        ("\x1b[31mred\x1b[0m\r\nline", "red\nline"),
        (r"{\"a\":\"b\"}", "a: b"),
        (r"{\"path\":\"C:\\new\"}", r"path: C:\new"),
        (r'"Name:  a\nStatus:  \"b\"\n"', 'Name:  a\nStatus:  "b"'),
        ("\x1b[01;31m\x1b[KNotReady\x1b[m\x1b[K", "NotReady"),
        ("```OOMKilled\n```", "OOMKilled\n"),
        ("what?\n```Evicted again```", "what?\nEvicted again"),
        ("<tr>\n<th>a</th>\n<td>b c</td>\n</tr>\nout&lt;none&gt;", "\na\tb c\n\nout<none>"),
        ("<p>x <pending></p>", "\nx <pending>\n"),
        ("<p> if [ 1 <![ 2 ]", "\n if [ 1 <![ 2 ]"),
        ("<br><![1]>", "\n<![1]>"),
        ("<b>x</b> <![foo[bar]]>", "x <![foo[bar]]>"),
        ("<p><![CDATA[a]]>", "\n<![CDATA[a]]>"),
        ("<p>a<!-- b --> <memory limit> <style>td {}</style><style>c", "\na <memory limit> c"),
        (
            'see {"alerts":[{"labels":{"severity":"low","alertname":"A"},"status":"firing"}]} now',
            "see\nalerts:\n  - status: firing\n    labels:\n      alertname: A\n      severity: low\n now",
        ),
        ('{"a":[1,[true,null]],"b":{}}', "a:\n  - 1\n  - - True\n    - None\nb:"),
        ("> 2 containers\n>> deeper", "> 2 containers\ndeeper"),
    ],
)
def test_words_and_lines_stay_and_marks_go(copied: str, plain: str) -> None:
    assert plain_lines(copied) == plain.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "5 > 3 and 2*3*4 = 24, kube-* and *.svc",
        r"C:\new\nightly and D:\Nodes\n2024\n10 full",
        "p99 latency\n> 500ms, replicas\n>= 3 expected",
        r"it says \"disk full\" in C:\new\nightly",
        "a | b",
        "R&D, AT&T",
        "- first - second",
        "x - *.example.com",
    ],
)
def test_what_marks_nothing_stays(text: str) -> None:
    assert plain_lines(text) == text.splitlines()


@given(text=st.text(alphabet="ab1 *`>|-_\n.:", max_size=60))
def test_no_word_is_lost(text: str) -> None:
    assert words(" ".join(plain_lines(text))) == words(text) or "```" in text  # the language of a fence is none of it
