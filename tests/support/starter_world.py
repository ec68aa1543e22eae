"""A namespace in which the commands of the starter catalog run for real: an API server, but no nodes and controllers.

What they act on is in `starter/objects.yaml` and `starter/cluster.yaml`, the values of their parameters in
`starter/values.yaml`. Programs that need a node or a controller (`kubectl exec`, `kubectl wait`, `ssh`, …) are stood in
for by programs that do nothing.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from formulary_catalog.domain.workflows.manifest import Step
from support.control_plane import Cluster, KubectlFailed

_FILES = Path(__file__).parent / "starter"
_CUSTOM = """
remedy.test/v1/Thing security.istio.io/v1/AuthorizationPolicy security.istio.io/v1/PeerAuthentication
metallb.io/v1beta1/IPAddressPool cert-manager.io/v1/CertificateRequest cert-manager.io/v1/Certificate
cert-manager.io/v1/Issuer cert-manager.io/v1/ClusterIssuer acme.cert-manager.io/v1/Order
acme.cert-manager.io/v1/Challenge helm.toolkit.fluxcd.io/v2/HelmRelease argoproj.io/v1alpha1/Application
monitoring.coreos.com/v1/ServiceMonitor monitoring.coreos.com/v1/PodMonitor monitoring.coreos.com/v1/PrometheusRule
cluster.x-k8s.io/v1beta1/MachineDeployment cluster.x-k8s.io/v1beta1/Machine crd.projectcalico.org/v1/IPPool
snapshot.storage.k8s.io/v1/VolumeSnapshot
""".split()
_INSIDE = (
    "configmaps,secrets,services,serviceaccounts,persistentvolumeclaims,pods,resourcequotas,limitranges,deployments,"
    "statefulsets,daemonsets,jobs,cronjobs,horizontalpodautoscalers,poddisruptionbudgets,ingresses,networkpolicies,roles,"
    "rolebindings,things,authorizationpolicies,ipaddresspools,certificaterequests,certificates,helmreleases,applications,"
    "servicemonitors,prometheusrules,machinedeployments,machines"
)
_OUTSIDE = "nodes,persistentvolumes,validatingwebhookconfigurations,namespaces,ippools,volumeattachments"
_KUBECTL = """#!/bin/sh
# What needs a kubelet or a controller succeeds at once; all else goes to the API server.
for each in "$@"; do
  case "$each" in
    exec|logs|top|debug|run|wait|drain) exit 0;;
    rollout) rollout=yes;;
    # Replaced objects come from the server; reading its schema first takes a second each.
    replace) set -- "$@" --validate=false;;
    status) test -z "$rollout" || exit 0;;
    # Two restarts in one second are refused; where nothing has to get ready, they are as near.
    restart) test -z "$rollout" || /bin/sleep 1.1;;
  esac
done
images='{{"imageFs": {{"capacityBytes": 1, "availableBytes": 1}}}}'
case "$*" in *"/proxy/"*) echo "{{\"node\": {{\"runtime\": $images}}, \"pods\": []}}"; exit 0;; esac
exec {kubectl} "$@"
"""
_STOOD_IN = {
    "sleep": "exit 0",
    "curl": "exit 0",
    "cmctl": "exit 0",
    "timeout": 'shift; exec "$@"',
    # Scripts for another machine are read, not run.
    "ssh": 'case "$*" in *" sh -"*) exec sh -n;; esac; echo yes',
}
_READY = [{"name": "app", "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": {}}]
_RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": _READY}
_NODE = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_STEP_SECONDS = 30.0
_VOLATILE = ("kubectl.kubernetes.io/", "deprecated.", "deployment.kubernetes.io/", "remedy-before", "restarted")


class StarterWorld:
    """The namespace, its objects, and a shell with the programs."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        self._cluster, self.namespace = cluster, namespace
        self._programs = directory / "programs"
        self._home = directory / "home"
        self.pristine: dict[str, Any] = {}
        """The state that `restore` has made."""
        for made in (self._programs, self._home):
            made.mkdir()
        self._write_program("kubectl", _KUBECTL.format(kubectl=cluster.kubectl_program))
        for name, script in _STOOD_IN.items():
            self._write_program(name, f"#!/bin/sh\n{script}\n")
        cluster.create_namespace(f"{namespace}-source")
        cluster.create_namespace("kube-system")
        cluster.create_namespace("kube-node-lease")
        cluster.apply(*map(_definition, _CUSTOM))
        definitions = [f"crd/{_plural(kind)}" for kind in _CUSTOM]
        cluster.kubectl("wait", "--for=condition=Established", *definitions, "--timeout=20s")
        self.restore()

    def run(self, step: Step, values: Mapping[str, str]) -> str:
        """Run one step as the Job of a run does. Returns why it failed, empty if it did not."""
        environment = {
            "PATH": f"{self._programs}:{os.defpath}",
            "HOME": str(self._home),
            "KUBECONFIG": str(self._cluster.kubeconfig),
        }
        process = subprocess.Popen(
            ["sh", "-ceu", step.command],
            env={**environment, **values},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=_STEP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "it goes on for ever"
        return f"{process.returncode}: {said}" if process.returncode else ""

    def values(self, workflow: str) -> dict[str, str]:
        """The values of all parameters for one workflow."""
        given = yaml.safe_load(self._text("values"))
        found: dict[str, str] = given["all"] | given["of"].get(workflow, {})
        return found

    def state(self) -> dict[str, Any]:
        """What there is, without what an API server or a restart changes."""
        inside = self._cluster.get(_INSIDE, f"--namespace={self.namespace}")["items"]
        nodes = self._cluster.get(_OUTSIDE)["items"]
        system = self._cluster.get("configmaps,deployments", "--namespace=kube-system")["items"]
        return {self._named(each): _content(each) for each in [*inside, *nodes, *system]}

    def _named(self, document: Mapping[str, Any]) -> str:
        return f"{document['kind']}/{document['metadata']['name']}".replace(self.namespace, "NS")

    @contextmanager
    def stale_api(self) -> Iterator[None]:
        """With an aggregated API whose backend is not there; it breaks the discovery of all, so only for one test."""
        spec = {
            "group": "remedy.example", "version": "v1alpha1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": True, "service": {"name": "builds", "namespace": self.namespace},
        }  # fmt: skip
        name = "v1alpha1.remedy.example"
        kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}}
        # An API server of 1.20 ends the connection where such an object is applied on the server.
        self._cluster.kubectl("apply", "--filename=-", input=json.dumps({**kind, "spec": spec}))
        try:
            yield
        finally:
            self._cluster.kubectl("delete", "apiservice", name, "--ignore-not-found")

    def restore(self) -> None:
        """Make everything as it is in the files, again."""
        self._strip_finalizers()
        whole, inside = self._objects("cluster"), self._objects("objects")
        at = f"--namespace={self.namespace}"
        for group in (whole, inside):
            documents = {"apiVersion": "v1", "kind": "List", "items": group}
            self._cluster.kubectl(
                "replace",
                "--force",
                "--validate=false",
                "--grace-period=0",
                "--filename=-",
                *([at] if group is inside else []),
                input=json.dumps(documents),
            )
        self._strip_finalizers("pvc/data", f"pv/{self.namespace}-disk")
        self._write_statuses()
        self._write_history()
        self._cluster.kubectl("delete", "thing/leftover", at, "--wait=false")
        self.pristine = self.state()

    def _text(self, file: str) -> str:
        return re.sub(r"\bNS\b", self.namespace, (_FILES / f"{file}.yaml").read_text())

    def _objects(self, file: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = yaml.safe_load(self._text(file))
        return found

    def _strip_finalizers(self, *names: str) -> None:
        """Nobody is there to lift the protection of volumes, and a deletion would wait for ever."""
        for name in names or ("thing/leftover", "pvc/data", f"pv/{self.namespace}-disk"):
            with suppress(KubectlFailed):
                patch = '--patch={"metadata":{"finalizers":null}}'
                self._cluster.kubectl("patch", name, f"--namespace={self.namespace}", "--type=merge", patch)

    def _write_statuses(self) -> None:
        here = f"--namespace={self.namespace}"
        for name, status, at in (
            ("pod/db-0", _RUNNING, here),
            ("pod/db-1", _RUNNING, here),
            ("pod/evicted", {"phase": "Failed", "reason": "Evicted"}, here),
            ("pdb/web", {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2}, here),
            (f"node/{self.namespace}-ready", {"conditions": [_NODE]}, "--namespace=default"),
            (f"node/{self.namespace}-worker", {"conditions": [_NODE]}, "--namespace=default"),
            (f"node/{self.namespace}-down", {"conditions": [_NODE | {"status": "Unknown"}]}, "--namespace=default"),
            (f"pv/{self.namespace}-disk", {"phase": "Released"}, "--namespace=default"),
        ):
            patch = json.dumps({"status": status})
            self._cluster.kubectl("patch", name, at, "--subresource=status", "--type=merge", f"--patch={patch}")

    def _write_history(self) -> None:
        """Two revisions of each workload, with the template that it has."""
        at = f"--namespace={self.namespace}"
        owners = self._cluster.get("deployment/web", "deployment/zero", "statefulset/db", "daemonset/agent", at)[
            "items"
        ]
        made = [_revision(owner, number) for owner in owners for number in (1, 2)]
        documents = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
        self._cluster.kubectl(
            "replace", "--force", "--validate=false", "--grace-period=0", "--filename=-", at, input=documents
        )

    def _write_program(self, name: str, text: str) -> None:
        program = self._programs / name
        program.write_text(text)
        program.chmod(0o755)


def _revision(owner: Mapping[str, Any], number: int) -> dict[str, Any]:
    name, kind, template = owner["metadata"]["name"], owner["kind"], owner["spec"]["template"]
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata: dict[str, Any] = {"name": f"{name}-{number}", "ownerReferences": [reference], "labels": {"app": "web"}}
    if kind == "Deployment":
        metadata["annotations"] = {"deployment.kubernetes.io/revision": str(number)}
        spec = {"replicas": 0, "selector": owner["spec"]["selector"], "template": template}
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    return {
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": number, "data": data,
    }  # fmt: skip


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    annotations = {k: v for k, v in metadata.get("annotations", {}).items() if not k.startswith(_VOLATILE)}
    rest = {name: value for name, value in document.items() if name not in ("metadata", "status")}
    template = (
        rest.get("spec", {}).get("template", {}).get("metadata", {}) if isinstance(rest.get("spec"), dict) else {}
    )
    template.pop("annotations", None)
    return rest | {"annotations": annotations, "labels": metadata.get("labels", {})}


def _plural(kind: str) -> str:
    group, _, name = kind.split("/")
    word = name.lower()
    return f"{word[:-1]}ies.{group}" if word.endswith("y") else f"{word}s.{group}"


@cache
def _definition(kind: str) -> dict[str, Any]:
    """A definition of a custom resource that takes any content."""
    group, version, name = kind.split("/")
    plural = _plural(kind)
    scope = "Cluster" if name in ("IPPool", "ClusterIssuer") else "Namespaced"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served: dict[str, Any] = {"name": version, "served": True, "storage": True, "schema": schema}
    if name == "MachineDeployment":
        served["subresources"] = {
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Groups under k8s.io are for those who were approved.
        "metadata": {"name": plural, "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": name, "plural": plural.partition(".")[0], "singular": name.lower()},
            "versions": [served],
        },
    }
