"""Lines of logs, of kernels and of shells: read as what printed them, however the lines begin."""

import pytest

from formulary_catalog.domain.pasted.reading import read_pasted

JSON_LINES = """\
{"level":"info","ts":"2026-03-06T10:00:00Z","caller":"pub/pub.go:12","msg":"connected"}
{"level":"error","ts":"2026-03-06T10:00:01Z","caller":"pub:40","msg":"publish failed","error":"no broker: i/o timeout"}
"""


def words(query: str) -> str:
    (problem,) = read_pasted(query).problems
    return problem.words


@pytest.mark.parametrize("query", [JSON_LINES, JSON_LINES.splitlines()[1]], ids=["several lines", "one line"])
def test_lines_of_json_are_a_log_of_which_errors_count(query: str) -> None:
    assert read_pasted(query).machine
    assert words(query).endswith("publish failed no broker: i/o timeout")
    assert "connected" not in words(query)
    assert "caller" not in words(query)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            'Mar 13 10:53:52 w7 kubelet[3263]: E0313 10:53:52.844381 32 kubelet.go:20] "Wait" err="PLEG is slow"',
            "PLEG is slow",
        ),
        ("[Mon Mar 16 12:00:10 2026] nf_conntrack: table full, dropping packet", "table full, dropping packet"),
        ("[ERROR] plugin/errors: 2 a.example.com.\n[INFO] 10.1.2.3: NOERROR\n[ERROR] i/o", "plugin/errors: 2"),
    ],
    ids=["kubelet in a journal", "kernel with dates", "levels without times"],
)
def test_a_line_is_of_a_log_by_how_it_begins_and_tells_by_its_level(query: str, says: str) -> None:
    assert read_pasted(query).machine
    assert says in words(query)
    assert "NOERROR" not in words(query)


def test_a_long_line_keeps_what_failed_and_the_cause_at_its_end() -> None:
    chain = "failed to do that: " * 30
    said = words(f"2026-03-06T10:00:00Z ERROR pull failed {chain} 429 Too Many Requests\n2026-03-06T10:00:01Z INFO up")
    assert said.startswith("ERROR pull failed")
    assert said.endswith("429 Too Many Requests")
    assert len(said) <= 300


@pytest.mark.parametrize("prompt", ["$", "[root@bastion ~]#", "worker-8:~#", "jo@ci-host:~/src$", "root@cp-1:/etc#"])
def test_commands_behind_the_prompt_of_a_shell_are_no_words(prompt: str) -> None:
    nodes = "NAME     STATUS     ROLES    AGE   VERSION\nwork-1   NotReady   <none>   9d    v1.30.4"
    (problem,) = read_pasted(f"{prompt} kubectl get nodes\n{nodes}").problems
    assert (problem.name, problem.words) == ("NodeNotReady", "NotReady")

    disk = (
        "Filesystem  Size  Used Avail Use% Mounted on\n/dev/vda  40G  12G  26G  32% /\n/dev/vdb  9G  9G  0  100% /data"
    )
    assert words(f"{prompt} df -h\n{disk}") == "/dev/vdb 9G 9G 0 100% /data"


@pytest.mark.parametrize("said", ["# docker is slow", "# df shows a full disk, why?", "the prompt worker-8:~ is red"])
def test_what_a_person_says_of_a_program_is_no_command(said: str) -> None:
    assert not read_pasted(said).machine
    assert words(said) == said


def test_a_process_that_the_kernel_killed_for_the_limit_of_its_pod_is_oom_killed_and_one_of_the_node_is_not() -> None:
    killed = (
        "[88.1] oom-kill:constraint={},nodemask=(null),task_memcg=/kubepods.slice/kubepods-burstable.slice/x,task=py"
    )
    assert read_pasted(killed.format("CONSTRAINT_MEMCG")).problems[0].name == "OOMKilled"
    assert read_pasted(killed.format("CONSTRAINT_NONE")).problems[0].name == ""


EVENTS = """\
LAST SEEN   TYPE      REASON                  OBJECT         MESSAGE
2m          Normal    {reason}   pod/search-0   {message}
2m          Warning   FailedScheduling        pod/search-1   0/6 nodes are available: 6 Insufficient cpu.
"""


@pytest.mark.parametrize(
    ("reason", "message", "counts"),
    [
        ("Preempted", "Preempted by pod 7f1c on node worker-3", True),
        ("NotTriggerScaleUp", "pod didn't trigger scale-up: max node group size reached", True),
        ("FailedBinding", "no storage class is set", True),
        ("NodeHasNoDiskPressure", "Node status is now: NodeHasNoDiskPressure", False),
        ("Scheduled", "Successfully assigned shop/search-0", False),
    ],
)
def test_normal_events_count_beside_warnings_if_they_report_trouble(reason: str, message: str, counts: bool) -> None:
    (problem,) = read_pasted(EVENTS.format(reason=reason, message=message)).problems
    assert problem.name == "FailedScheduling"
    assert (message in problem.words) is counts


@pytest.mark.parametrize(
    "labels",
    [
        " - alertname = Container OOMKilled",
        " - alertname = Container restarts\n - reason = OOMKilled",
    ],
)
def test_an_alert_that_is_named_in_words_counts_by_the_signal_that_it_names(labels: str) -> None:
    (problem,) = read_pasted(f"**Firing**\nLabels:\n{labels}\n - severity = high").problems
    assert (problem.name, problem.severity) == ("OOMKilled", "high")
    assert problem.words.startswith("Container")
