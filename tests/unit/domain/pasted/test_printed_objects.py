"""What kubectl, logs and hosts print: the symptom with the kind of its object, the cause first, no names of objects."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from formulary_catalog.domain.pasted.reading import read_pasted

POD = """\
Name:             cart-7d9c8f6b5-abcde
Namespace:        shop
Service Account:  default
Node:             node1/10.1.2.3
Labels:           app=cart
Status:           {phase}
Containers:
  app:
    Image:          registry.example.com/cart:1.8.2
    Command:
      python3
      -c
      while True: error()
    State:          Waiting
      Reason:       {waiting}
    Last State:     Terminated
      Reason:       {last}
      Exit Code:    {code}
      Started:      Sat, 28 Nov 2026 17:04:00 +0000
    Ready:          False
    Restart Count:  5
    Environment:    <none>
Conditions:
  Type              Status
  Initialized       True
  Ready             False
  ContainersReady   False
  PodScheduled      True
Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
Events:
  Type     Reason     Age                From               Message
  ----     ------     ----               ----               -------
  Normal   Scheduled  2m12s              default-scheduler  Successfully assigned shop/cart to node1
  {event}
  Warning  BackOff    3s (x8 over 100s)  kubelet            Back-off restarting failed container app in pod c_s(0f)
"""


def described(
    *, waiting: str = "CrashLoopBackOff", last: str = "Error", code: int = 1, event: str = "", phase: str = "Running"
) -> str:
    return POD.format(waiting=waiting, last=last, code=code, event=event, phase=phase)


PODS = """\
NAME                                READY   STATUS             RESTARTS      AGE
ingress-nginx-controller-7d9c8f     0/1     CrashLoopBackOff   5 (20s ago)   3m
coredns-6f9                         1/1     Running            0             3m
"""
CLAIMS = """\
NAME                              READY   STATUS    RESTARTS   AGE
pod/transcoder-6b9f7c5d8-hx4vz    0/1     Pending   0          2m

NAME                                     STATUS    VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   AGE
persistentvolumeclaim/transcoder-cache   Pending                                      fast-ssd       2m
"""
CASES = yaml.safe_load(Path(__file__).with_name("printed_objects.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"].split("\n", 1)[0][:60])
def test_the_symptom_counts_with_the_kind_of_its_object(case: dict[str, Any]) -> None:
    problem = read_pasted(case["text"]).problems[0]
    assert problem.name == case["name"]
    assert case.get("says", "") in problem.words
    assert [word for word in case.get("silent", []) if word in problem.text] == []


ALERT: dict[str, Any] = {
    "status": "firing",
    "labels": {
        "alertname": "KubePodCrashLooping",
        "severity": "warning",
        "namespace": "shop",
        "job": "kube-state-metrics",
    },
    "annotations": {
        "description": "Pod shop/cart-7d9c8f6b5-abcde (app) is in waiting state.",
        "summary": "Pod is crash looping.",
    },
}


def pasted_by_an_agent(*outputs: str, alert: str = "KubePodCrashLooping") -> str:
    labels = {**ALERT["labels"], "alertname": alert}
    payload = json.dumps({"status": "firing", "receiver": "agents", "alerts": [{**ALERT, "labels": labels}]}, indent=1)
    return "\n\n".join([payload, *outputs])


@pytest.mark.parametrize(
    ("alert", "output", "name"),
    [
        ("KubePodCrashLooping", described(last="OOMKilled", code=137), "OOMKilled"),
        ("KubePodCrashLooping", described(), "KubePodCrashLooping"),
        ("KubeContainerWaiting", described(waiting="ErrImagePull", last="Completed", code=0), "ImagePullBackOff"),
        ("KubePodNotReady", CLAIMS, "CrashLoopBackOff"),
        ("KubePersistentVolumeFillingUp", described(last="OOMKilled", code=137), "KubePersistentVolumeFillingUp"),
    ],
)
def test_an_alert_and_what_kubectl_says_of_it_are_one_problem_named_by_its_cause(
    alert: str, output: str, name: str
) -> None:
    logs = "$ kubectl logs cart --previous\nstarting\nError: no such table: carts\nstopping"
    query = pasted_by_an_agent(f"$ kubectl get pods\n{PODS}", f"$ kubectl describe pod\n{output}", logs, alert=alert)
    (problem,) = read_pasted(query).problems
    assert (problem.name, problem.severity) == (name, "warning")
    assert {alert, "CrashLoopBackOff"} <= {*problem.text.split()}
    assert "no such table" in problem.words
    assert len(problem.words) <= 600
    silent = "kubectl stopping ingress registry Tolerations Initialized kube-state-metrics receiver".split()
    assert [word for word in silent if word in problem.text] == []


@pytest.mark.parametrize(
    ("alert", "name"), [("KubePodNotReady", "KubePodNotReady"), ("KubeDeploymentReplicasMismatch", "PodPending")]
)
def test_a_generic_alert_keeps_its_name_where_nothing_says_more(alert: str, name: str) -> None:
    (problem,) = read_pasted(pasted_by_an_agent(f"$ kubectl get pods,pvc\n{CLAIMS}", alert=alert)).problems
    assert problem.name == name


def test_what_a_person_wrote_around_an_output_is_kept() -> None:
    query = f"since the password was rotated\n$ kubectl get pods\n{PODS}\nwe already restarted the whole node once"
    (problem,) = read_pasted(query).problems
    assert "since the password was rotated" in problem.words
    assert "we already restarted the whole node once" in problem.words
