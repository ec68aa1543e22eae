"""What people read: whole pages compared with golden files, and hostile text made harmless."""

import io
from pathlib import Path

import pytest

from formulary_catalog.domain.answers.catalog import (
    SearchAnswer,
    WorkflowDetails,
    WorkflowHit,
    WorkflowList,
    WorkflowSummary,
    WorkflowVersion,
)
from formulary_catalog.edges.cli.catalog.rendering import show_details, show_list, show_search
from formulary_catalog.runtime.terminal import Page, plain
from support.golden import assert_golden

GOLDEN = Path(__file__).parents[1] / "golden"


def hit(name: str, *, namespace: str = "formulary", confidence: float) -> WorkflowHit:
    return WorkflowHit(
        workflow_id=name,
        version="1.0.0",
        version_id="wf_ver_00000000000000000000",
        namespace=namespace,
        title="Raise the memory limit of an OOM-killed workload",
        description="Raises the memory limit of one container to a measured value and rolls the workload.",
        action_type="IncreaseMemoryLimits",
        signal_types=["OOMKilled"],
        labels={"environment": ["production"]},
        similarity_score=0.62,
        confidence=confidence,
        match_reasons=[
            "declared for signal-type oomkilled, severity critical",
            "words: oomkilled, oom, killed",
            "meaning: cosine 0.62",
        ],
        estimated_duration="10m",
        success_rate=0.8,
        success_interval=[0.49, 0.9433],
        runs_counted=10,
        median_duration_seconds=95.0,
        risk_level="low",
        caution="",
        uri=f"workflow://{namespace}/{name}",
    )


SEARCH = SearchAnswer(
    workflows=[
        hit("oom-raise-memory-limit", confidence=0.8125),
        hit("restart", namespace="shop", confidence=0.5),
        hit("restart", namespace="formulary", confidence=0.04),
    ],
    total_results=12,
    search_mode="lexical",
    inferred={"signal_type": "OOMKilled", "severity": "critical"},
    notes=["environment 'prod' is one that no workflow knows; known are: production, staging, development, test"],
    search_id="00000000-0000-4000-8000-000000000000",
)

DETAILS = WorkflowDetails(
    workflow_id="oom-raise-memory-limit",
    version="1.1.0",
    version_id="wf_ver_00000000000000000001",
    namespace="formulary",
    title="Raise the memory limit of an OOM-killed workload",
    status="Active",
    description="Raises the memory limit of one container to a measured value and rolls the workload, so that its "
    "normal working set fits again.",
    when_to_use="The container was last terminated as OOMKilled with exit code 137.",
    when_not_to_use="Not for memory that grows for ever.",
    preconditions="Peak usage is known.",
    action_type="IncreaseMemoryLimits",
    signal_types=["OOMKilled"],
    labels={"severity": ["critical", "high"], "risk-tolerance": ["low", "medium"]},
    risk_level="low",
    estimated_duration="10m",
    success_rate=0.75,
    success_interval=[0.4093, 0.9285],
    runs_counted=8,
    median_duration_seconds=None,
    invocable=False,
    not_invocable_because="its parameters are wrong",
    prerequisites=["Permission to patch the workload", "metrics-server for kubectl top"],
    steps=[
        {
            "name": "raise-limit",
            "description": "Set the new limit",
            "command": 'kubectl -n "${NAMESPACE}" set resources "${WORKLOAD}" -c "${CONTAINER}" '
            '--limits=memory="${MEMORY_LIMIT}" --record=false\nkubectl rollout status "${WORKLOAD}"\n',
        },
        {"name": "look"},
    ],
    rollback_steps=[{"name": "undo", "command": 'kubectl rollout undo "${WORKLOAD}"'}],
    parameters=[
        {"name": "NAMESPACE", "type": "string", "required": True, "description": "Namespace of the workload"},
        {"name": "REPLICAS", "type": "integer", "required": False, "description": "Replicas wanted"},
    ],
    input_schema={"type": "object"},
    execution={"engine": "job"},
    related=[{"name": "oom-scale-out", "relation": "escalatesTo"}],
    versions=[
        WorkflowVersion(version="1.1.0", version_id="wf_ver_00000000000000000001", status="Active"),
        WorkflowVersion(version="1.0.0", version_id="wf_ver_00000000000000000000", status="Superseded"),
    ],
    notes=[],
    uri="workflow://formulary/oom-raise-memory-limit@1.1.0",
)


def summary(name: str, *, namespace: str = "formulary") -> WorkflowSummary:
    return WorkflowSummary(
        workflow_id=name,
        namespace=namespace,
        version="1.0.0",
        version_id="wf_ver_00000000000000000000",
        title="Restart it",
        action_type="RestartPod",
        signal_types=["OOMKilled", "Evicted"],
        risk_level="low",
        status="Active",
        invocable=True,
        indexed_at="2026-11-01T12:00:00Z",
        uri=f"workflow://{namespace}/{name}",
    )


LISTING = WorkflowList(
    workflows=[summary("cordon"), summary("restart"), summary("restart", namespace="shop")],
    total=3,
    notes=["not invocable: cordon; the details of a workflow say why"],
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, *, columns: int) -> tuple[Page, io.StringIO]:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    return Page(stream), stream


@pytest.mark.parametrize("columns", [80, 120])
def test_a_search_reads_well_at_usual_widths(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    page, stream = printed(monkeypatch, columns=columns)
    show_search(SEARCH, query="OOMKilled critical", page=page)
    assert_golden(stream.getvalue(), GOLDEN / f"search_{columns}.txt")
    assert max(map(len, stream.getvalue().splitlines())) <= columns


def test_details_show_everything_and_leave_commands_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    page, stream = printed(monkeypatch, columns=80)
    show_details(DETAILS, page=page)
    assert_golden(stream.getvalue(), GOLDEN / "show_80.txt")


def test_a_list_is_a_table_that_programs_can_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    page, stream = printed(monkeypatch, columns=40)
    show_list(LISTING, page=page)
    assert_golden(stream.getvalue(), GOLDEN / "list.txt")


def test_an_empty_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    page, stream = printed(monkeypatch, columns=80)
    show_search(SEARCH.model_copy(update={"workflows": [], "notes": [], "search_mode": "hybrid"}), query="x", page=page)
    show_list(WorkflowList(workflows=[], total=0, notes=[]), page=page)
    assert (
        stream.getvalue()
        == "No workflow is allowed and fits 'x'.\nNo workflow matches. `formulary list` shows all that you may see.\n"
    )


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("a\x9b31mb", "a\ufffd31mb"),
        ("back\x08\x08space\rover", "back\ufffd\ufffdspace\ufffdover"),
        ("right\u202eto left\u2066", "right\ufffdto left\ufffd"),
        ("zero\u200bwidth", "zero\ufffdwidth"),
        ("two\nlines\tkept \N{GRINNING FACE}", "two\nlines\tkept \N{GRINNING FACE}"),
    ],
)
def test_control_sequences_of_others_never_reach_the_terminal(hostile: str, harmless: str) -> None:
    assert plain(hostile) == harmless


def test_markup_of_others_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    page, stream = printed(monkeypatch, columns=80)
    details = DETAILS.model_copy(update={"title": "[red]bold[/red] :smile: \x1b[2J"})
    show_details(details, page=page)
    assert stream.getvalue().splitlines()[1] == "[red]bold[/red] :smile:"


def test_a_value_that_is_wider_than_the_page_stays_whole_and_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    page, stream = printed(monkeypatch, columns=40)
    digest = f"sha256:{'0' * 64}"
    page.pair("digest", f"of the manifest {digest} as rendered")
    page.paragraph(f"see {digest}", indent=4)
    page.verbatim(f"kubectl get {digest}\n  --watch", indent=2)
    page.table(("NAME", "DIGEST"), [("one", digest)])

    assert stream.getvalue().splitlines() == [
        "digest          of the manifest",
        f"                {digest}",
        "                as rendered",
        "    see",
        f"    {digest}",
        f"  kubectl get {digest}",
        "    --watch",
        "NAME  DIGEST",
        f"one   {digest}",
    ]


def test_columns_are_aligned_by_the_width_that_characters_have_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    page, stream = printed(monkeypatch, columns=80)
    page.table(("TITLE", "RISK"), [("再起動", "low"), ("restart\nNAME  fake", "high")])

    assert stream.getvalue().splitlines() == [
        "TITLE              RISK",
        "再起動             low",
        "restart NAME fake  high",
    ]


def test_a_pipe_receives_no_colour_and_a_terminal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    page, piped = printed(monkeypatch, columns=80)
    page.pair("risk", "high", style="red")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = Terminal()
    Page(shown).pair("risk", "high", style="red")

    assert piped.getvalue() == "risk            high\n"
    assert shown.getvalue() == "\x1b[2mrisk            \x1b[0m\x1b[31mhigh\x1b[0m\n"


def test_a_table_is_cut_to_the_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = Terminal()
    Page(shown).table(("NAME", "TITLE"), [("cordon", "Cordon the node")])

    assert [plain(line) for line in shown.getvalue().splitlines()] == ["NAME    TIT…", "cordon  Cor…"]
