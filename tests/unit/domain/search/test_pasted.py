"""What programs print about a problem, pasted as a query: the name of the problem comes first, what is well goes."""

import json
from collections.abc import Callable

import pytest

from formulary_catalog.domain.search.pasted import is_resolved, problem_first
from formulary_catalog.domain.search.query import parse_query

DESCRIBED_POD = """\
Name:             cart-7d9
Namespace:        shop
Labels:           app=cart
Status:           Running
Containers:
  cart:
    Image:          registry.example.com/cart:1.8.2
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Tue, 03 Mar 2026 10:00:00 +0000
    Ready:          False
    Mounts:
      /var/run/secrets/kubernetes.io/serviceaccount from kube-api-access-x (ro)
Conditions:
  Type              Status
  Initialized       True
  Ready             False
Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
Events:
  Type     Reason   Age                From     Message
  ----     ------   ----               ----     -------
  Normal   Pulled   4m (x5 over 60m)   kubelet  Container image "cart:1.8.2" already present on machine
  Warning  BackOff  70s (x40 over 50m) kubelet  Back-off restarting failed container cart
"""
EVENTS = """\
NAMESPACE   LAST SEEN           TYPE      REASON        OBJECT          MESSAGE
shop        4m (x12 over 30m)   Warning   FailedMount   Pod/cart-7d9    secret "cart-creds" not found
shop        9m                  Normal    Scheduled     Pod/cart-7d9    Successfully assigned
"""
CONDITIONS = """\
Conditions:
  Type             Status  Reason                       Message
  MemoryPressure   False   KubeletHasSufficientMemory   kubelet has sufficient memory available
  DiskPressure     True    KubeletHasDiskPressure       kubelet has disk pressure
  Ready            True    KubeletReady                 kubelet is posting ready status
"""
NODES = """\
NAME     STATUS     ROLES    AGE   VERSION
node-1   Ready      <none>   40d   v1.31.2
node-3   NotReady   <none>   40d   v1.31.2
"""
PODS = """\
NAMESPACE   NAME       READY   STATUS             RESTARTS       AGE
shop        cart-7d9   0/1     {status}   14 (2m ago)    55m
shop        api-5c     1/1     Running            0              3d
"""


@pytest.mark.parametrize(
    ("pasted", "signal"),
    [
        (DESCRIBED_POD, "OOMKilled"),
        (EVENTS, "FailedMount"),
        (NODES, "NodeNotReady"),
        (PODS.format(status="CrashLoopBackOff"), "CrashLoopBackOff"),
        (PODS.format(status="Init:CrashLoopBackOff"), "CrashLoopBackOff"),
        (PODS.format(status="Pending"), "PodPending"),
        (PODS.format(status="ErrImagePull"), "ImagePullBackOff"),
        ("Warning  BackOff  5m  kubelet  Back-off restarting failed container cart", "CrashLoopBackOff"),
        ('Warning  Failed  5m  kubelet  Failed to pull image "cart:2": not found', "ImagePullBackOff"),
        ("status:\n  phase: Failed\n  reason: Evicted", "Evicted"),
        ('{"phase":"Failed","reason":"Evicted"}', "Evicted"),
        ("State: Waiting Reason: CrashLoopBackOff Last State: Terminated Reason: OOMKilled", "OOMKilled"),
        ("lastState:\n  terminated:\n    exitCode: 137\n    reason: OOMKilled", "OOMKilled"),
        ("<unknown>   Warning   FailedMount   pod/cart   secret not found", "FailedMount"),
        ("web-1   0/1   Pending   0   5s\n5s   Warning   FailedMount   pod/web-1   no secret", "FailedMount"),
        (NODES.replace("\n", "\r\n"), "NodeNotReady"),
        (NODES.replace("NotReady", "\x1b[31mNotReady\x1b[0m"), "NodeNotReady"),
        ("Warning  Failed  5m  kubelet  Error: ImagePullBackOff", "ImagePullBackOff"),
        ('{"phase":"Pending","conditions":[]}', "PodPending"),
        ("phase: Pending\nmessage: pod has unbound immediate PersistentVolumeClaims", "PodPending"),
        ("    " + NODES.replace("\n", "\n    "), "NodeNotReady"),
        ("```OOMKilled\n```", "OOMKilled"),
        ("Alert: OOMKilled", "OOMKilled"),
        ("- Evicted", "Evicted"),
        ("status:\n  phase: Pending", "PodPending"),
        ('{"type":"PodScheduled","status":"False","reason":"Unschedulable"}', "FailedScheduling"),
        ("NAME READY STATUS RESTARTS AGE cart-7d9 0/1 Evicted 3 5m", "Evicted"),
        (f"```console\n{NODES}```", "NodeNotReady"),
        ("\n".join(f"> {line}" for line in DESCRIBED_POD.splitlines()), "OOMKilled"),
        ("**Reason:** OOMKilled\n**Exit Code:** 137", "OOMKilled"),
        ("1. **reason**: OOMKilled", "OOMKilled"),
        ("- **Phase:** `Pending`", "PodPending"),
        ("~~~yml\nReason: OOMKilled\n~~~", "OOMKilled"),
        ("- **Status**: `Evicted`\n- **Reason**: `Evicted`", "Evicted"),
        ("| NAME | READY | STATUS | RESTARTS |\n|---|---|---|---|\n| cart-7d9 | 0/1 | OOMKilled | 14 |", "OOMKilled"),
        (r"{\"lastState\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\"}}}", "OOMKilled"),
    ],
)
def test_what_programs_print_names_the_signal_of_its_problem(pasted: str, signal: str) -> None:
    parsed = parse_query(pasted)
    assert parsed.inferred(signal_declared=False) == {"signal_type": signal}
    assert parsed.text.split()[0] == signal


@pytest.mark.parametrize(
    ("pasted", "left"),
    [
        (EVENTS, 'FailedMount  Pod/cart-7d9    secret "cart-creds" not found'),
        (CONDITIONS, "DiskPressure     True    KubeletHasDiskPressure       kubelet has disk pressure"),
        (NODES, "NodeNotReady node-3   NotReady   <none>   40d   v1.31.2"),
        (f"$ kubectl get nodes -o wide\n{NODES}", "NodeNotReady node-3   NotReady   <none>   40d   v1.31.2"),
        ("Warning  BackOff  5m  kubelet  Back-off restarting", "BackOff Back-off restarting"),
        ("it is FailedNow\nWarning  Failed  5m  kubelet  Error", "Failed it is FailedNow Error"),
        (
            "[FIRING:1] NodeDown\nLabels:\n - alertname = NodeDown\n - node = w1",
            "NodeDown NodeDown\n -   \n - node = w1",
        ),
    ],
)
def test_heads_of_tables_and_lines_that_report_no_problem_are_left_out(pasted: str, left: str) -> None:
    assert " ".join(problem_first(pasted).split()) == " ".join(left.split())


def test_the_marks_of_markdown_around_an_output_are_no_words() -> None:
    quoted = "what is wrong here?\n```text\n" + "\n".join(f"> {line}" for line in EVENTS.splitlines()) + "\n```"
    assert problem_first(quoted).split() == problem_first(f"what is wrong here?\n{EVENTS}").split()


@pytest.mark.parametrize(
    "query",
    [
        "*Alert:* KubePodCrashLooping\n*Severity:* critical",
        "Alert: KubePodCrashLooping\nSeverity: critical",
        "**Alert:** `KubePodCrashLooping` **Severity:** critical",
        "- KubePodCrashLooping critical",
        "&gt; **KubePodCrashLooping** critical",
    ],
)
def test_the_name_of_an_alert_is_found_inside_markup(query: str) -> None:
    parsed = parse_query(query)
    assert parsed.inferred(signal_declared=True) == {"signal_type": "KubePodCrashLooping", "severity": "critical"}


@pytest.mark.parametrize("pasted", [str, json.dumps, lambda text: json.dumps({"stdout": text})])
@pytest.mark.parametrize(
    ("printed", "signal"), [(DESCRIBED_POD, "OOMKilled"), (NODES, "NodeNotReady"), (EVENTS, "FailedMount")]
)
def test_what_is_in_a_string_of_json_is_read_as_it_was_printed(
    pasted: Callable[[str], str], printed: str, signal: str
) -> None:
    assert parse_query(pasted(printed)).inferred(signal_declared=False) == {"signal_type": signal}


@pytest.mark.parametrize(
    "query",
    [
        "[RESOLVED] NodeDown",
        "Alerts Resolved:\nLabels:\n - alertname = NodeDown",
        'status: "resolved"',
        "> **[RESOLVED]** NodeDown",
        "alertname: NodeDown\nStatus: resolved\nit has been firing for 15m",
        '{"status":"resolved","labels":{"alertname":"NodeDown"}}',
        r"{\"status\":\"resolved\",\"labels\":{\"alertname\":\"NodeDown\"}}",
    ],
)
def test_notifications_of_alerts_that_are_over_are_recognised(query: str) -> None:
    assert is_resolved(query)
    assert not is_resolved(f"{query}\n[FIRING:1] DiskFull")
    assert not is_resolved(f"{query}\n- status: firing")


@pytest.mark.parametrize(
    "query",
    [
        "[FIRING:1, RESOLVED:1] NodeDown",
        "DNS status=resolved-by-cache fails",
        "dig status: RESOLVED, but curl times out",
        "[not resolved yet] NodeDown",
        "error [host not resolved] in cart",
        "[" * 100_000 + "resolved",  # longer than a test may, if it is looked at again from each bracket
    ],
)
def test_what_is_not_said_of_an_alert_ends_none(query: str) -> None:
    assert not is_resolved(query)


def test_of_a_described_object_only_its_symptoms_are_left() -> None:
    words = problem_first(DESCRIBED_POD).split()
    assert {"OOMKilled", "CrashLoopBackOff", "137", "restarting", "Terminated"} <= set(words)
    assert {"app=cart", "cart-7d9", "Pulled", "op=Exists", "(ro)", "Initialized", "2026"}.isdisjoint(words)


def test_what_a_person_wrote_around_a_description_is_kept() -> None:
    words = problem_first(f"since the password was rotated\n{DESCRIBED_POD}\nand the database is full").split()
    assert {"password", "rotated", "database", "full", "OOMKilled"} <= set(words)
    assert "app=cart" not in words


@pytest.mark.parametrize(
    "healthy",
    [
        "\n" + NODES.splitlines()[1] + "\n\n",
        "Name:         web\nNamespace:    shop\nStatus:       Running",
        "NAME     READY   STATUS    RESTARTS   AGE",
    ],
)
def test_where_all_is_well_the_words_are_what_is_asked(healthy: str) -> None:
    assert problem_first(healthy).split() == healthy.split()


def test_an_alert_is_read_before_anything_is_left_out() -> None:
    query = "alertname: HighErrorRate\nName: checkout\nthe error rate is 40 %\nStatus: firing"
    assert problem_first(query).split() == "HighErrorRate Name: checkout the error rate is 40 % Status: firing".split()


def test_events_without_a_warning_are_kept() -> None:
    killed = "Normal  Killing  2m  kubelet  Container cart failed liveness probe, will be restarted"
    assert problem_first(killed).split() == "Killing Container cart failed liveness probe, will be restarted".split()


@pytest.mark.parametrize(
    "query",
    [
        "OOMKilled critical Reason: CrashLoopBackOff",
        "KubeDeploymentRolloutStuck Back-off restarting failed container",
        "the pods are OOMKilled and then in CrashLoopBackOff",
        "Reason: nobody knows",
        "1/2 of the nodes are full",
        "Name: cart",
        "everything is Ready",
        "Name: checkout\nProblem: DNS lookups return SERVFAIL\nStatus: high latency",
        "web 1/1 Running 0 5h but returns 502 from the ingress",
        "web   1/1   Running   37 (12m ago)   5h",
        "Ready True but the readiness probe flaps",
        "Since 2026-11-27T19:40:21Z the API answers 500",
        "Reason: Evicted pods remain after a drain, and DNS fails",
        NODES.splitlines()[1],
        "requests > limits, and 5 > 3 replicas",
        "a | b",
        r"C:\new\table is missing",
        r"the log says \"disk full\" in C:\new\nightly",
        "NAME RESOLUTION FAILS in the payments cluster",
        "NAMESPACE STUCK TERMINATING since yesterday",
        "NAME RESOLUTION FAILS",
        "READY STATUS AGE flaps between true and false",
        "$ kubectl drain node-1\nhangs for an hour",
        "we silenced the alert: PostgreSQL replication lags",
        "kind: Workflow\nstatus:\n  phase: Pending",
        "the rollout phase: Pending approvals block it",
        "kind: PersistentVolumeClaim\nstatus:\n  phase: Pending",
    ],
)
def test_a_query_that_begins_with_a_name_and_prose_stay_as_they_are(query: str) -> None:
    assert problem_first(query) == query
