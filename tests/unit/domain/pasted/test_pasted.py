"""What programs print about a problem, pasted as a query: the name of the problem comes first, what is well goes."""

import json
from collections.abc import Callable

import pytest

from formulary_catalog.domain.pasted.reading import read_pasted
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
        (EVENTS, 'FailedMount secret "cart-creds" not found'),
        (CONDITIONS, "DiskPressure KubeletHasDiskPressure kubelet has disk pressure"),
        (NODES, "NodeNotReady NotReady"),
        (f"$ kubectl get nodes -o wide\n{NODES}", "NodeNotReady NotReady"),
        ("Warning  BackOff  5m  kubelet  Back-off restarting", "BackOff Back-off restarting"),
        ("it is FailedNow\nWarning  Failed  5m  kubelet  Error", "Failed it is FailedNow Error"),
        ("[FIRING:1] NodeDown\nLabels:\n - alertname = NodeDown\n - node = w1", "NodeDown"),
        (
            "alertname: HighErrorRate\nName: checkout\nthe error rate is 40 %\nStatus: firing",
            "HighErrorRate the error rate is 40 %",
        ),
        (
            "Normal  Killing  2m  kubelet  Container cart failed liveness probe, will be restarted",
            "Killing Container cart failed liveness probe, will be restarted",
        ),
        (DESCRIBED_POD, "OOMKilled CrashLoopBackOff exit code 137"),
        (
            f"since the password was rotated\n{DESCRIBED_POD}\nand the database is full",
            "OOMKilled since the password was rotated and the database is full CrashLoopBackOff exit code 137",
        ),
    ],
)
def test_only_what_reports_the_problem_is_left(pasted: str, left: str) -> None:
    assert read_pasted(pasted).problems[0].text.split() == left.split()


def test_the_marks_of_markdown_around_an_output_are_no_words() -> None:
    quoted = "what is wrong here?\n```text\n" + "\n".join(f"> {line}" for line in EVENTS.splitlines()) + "\n```"
    assert read_pasted(quoted) == read_pasted(f"what is wrong here?\n{EVENTS}")


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
        "> **[RESOLVED]** NodeDown",
        "alertname: NodeDown\nStatus: resolved\nit has been firing for 15m",
        '{"status":"resolved","labels":{"alertname":"NodeDown"}}',
        '{"status":"resolved","alerts":[{"labels":{"alertname":"NodeDown"}}]}',
        r"{\"status\":\"resolved\",\"labels\":{\"alertname\":\"NodeDown\"}}",
    ],
)
def test_notifications_of_alerts_that_are_over_are_recognised(query: str) -> None:
    assert read_pasted(query).is_over
    assert not read_pasted(f"{query}\n[FIRING:1] DiskFull").is_over


@pytest.mark.parametrize(
    "query",
    [
        "[FIRING:1, RESOLVED:1] NodeDown",
        "DNS status=resolved-by-cache fails",
        "dig status: RESOLVED, but curl times out",
        "[not resolved yet] NodeDown",
        "error [host not resolved] in cart",
    ],
)
def test_what_is_not_said_of_an_alert_ends_none(query: str) -> None:
    assert not read_pasted(query).is_over


def test_where_all_is_well_what_a_person_wrote_is_what_is_asked() -> None:
    query = "$ kubectl get pods\nNAME    READY   STATUS    RESTARTS   AGE\nweb-1   1/1     Running   0          5m\n\n"
    (problem,) = read_pasted(f"{query}users get 502 from the ingress though").problems
    assert problem.text == "users get 502 from the ingress though"


@pytest.mark.parametrize(
    "healthy",
    [
        "\n" + NODES.splitlines()[1] + "\n\n",
        "Name:         web\nNamespace:    shop\nStatus:       Running",
        "NAME     READY   STATUS    RESTARTS   AGE",
    ],
)
def test_where_all_is_well_the_words_are_what_is_asked(healthy: str) -> None:
    assert read_pasted(healthy).problems[0].text.split() == healthy.split()


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
        "the rollout phase: Pending approvals block it",
    ],
)
def test_a_query_that_begins_with_a_name_and_prose_stay_as_they_are(query: str) -> None:
    (problem,) = read_pasted(query).problems
    assert problem.text == query


@pytest.mark.parametrize(
    "query",
    [
        "Redis pods restart every hour and clients lose connections. Reason: Unknown",
        "Pods of payments are stuck. State: Pending",
        "Why do pods get OOM killed? Exit Code: 137",
        "Issue: pods are stuck. State: Pending",
        "# k is slow",
        "# kubectl pods crash",
        "our payments.service: pods time out when calling it",
        "What does systemd[1]: say?",
        "level=error what does that mean in coredns logs",
        "2024-01-02T10:00:00Z payments service started failing after the deploy",
        "etcd latency is high\nReason: slow",
        "why does it fail\nkind: Database",
    ],
)
def test_what_a_person_wrote_is_not_printed_and_keeps_its_words(query: str) -> None:
    pasted = read_pasted(query)
    assert (pasted.problems[0].text, pasted.machine) == (query, False)


def test_a_sentence_right_below_an_output_stays() -> None:
    said = "I think the readiness probe is misconfigured because the port changed"
    assert said in read_pasted(f"$ kubectl get pods\nweb 0/1 Running 0 5m\n{said}").problems[0].words


@pytest.mark.parametrize(
    "evidence", ["panic: runtime error: index out of range", "FATAL: password authentication failed"]
)
def test_evidence_below_an_alert_and_a_blank_line_stays(evidence: str) -> None:
    (problem,) = read_pasted(f"alertname: KubePodCrashLooping\nseverity: warning\n\n{evidence}").problems
    assert (problem.name, problem.severity, problem.words) == ("KubePodCrashLooping", "warning", evidence)
