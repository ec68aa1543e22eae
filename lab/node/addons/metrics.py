"""metrics.k8s.io from the kubelet's summary, for `kubectl top` and autoscalers. Stands in for metrics-server."""

import json
import ssl
import subprocess
import tempfile
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.node.addons.service import get

_GROUP = "metrics.k8s.io/v1beta1"
_ROOT = f"/apis/{_GROUP}"
_PORT = 4443
_VERBS = ["get", "list"]
_RESOURCES = [
    {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": _VERBS},
    {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": _VERBS},
]

Object = dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    """Answers discovery, nodes and pods."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        path = url.path.rstrip("/")
        try:
            status, body = 200, self._answer(path, urllib.parse.parse_qs(url.query))
        except KeyError:
            reason = {"status": "Failure", "reason": "NotFound", "code": 404, "message": "no metrics known"}
            status, body = 404, {"kind": "Status", "apiVersion": "v1", **reason}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of single requests."""

    def _answer(self, path: str, query: dict[str, list[str]]) -> Object:
        """What is asked for. Raises KeyError if it is not there."""
        if path == _ROOT:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _GROUP, "resources": _RESOURCES}
        if not path.startswith(_ROOT):
            return {"paths": []}
        parts = path.removeprefix(_ROOT).strip("/").split("/")
        summary = read_summary()
        if parts[0] == "nodes":
            found = {summary["node"]["nodeName"]: node_metrics(summary["node"])}
            return found[parts[1]] if len(parts) > 1 else _list("NodeMetricsList", found)
        namespace = parts[1] if parts[0] == "namespaces" else ""
        pods = {
            each["podRef"]["name"]: pod_metrics(each)
            for each in summary["pods"]
            if namespace in ("", each["podRef"]["namespace"])
        }
        if len(parts) > 3:
            return pods[parts[3]]
        if selector := query.get("labelSelector", [""])[0]:
            chosen = select_pods(namespace, selector)
            pods = {name: each for name, each in pods.items() if name in chosen}
        return _list("PodMetricsList", pods)


def read_summary() -> Object:
    """What the kubelet of the only node measures."""
    node = get("/api/v1/nodes")["items"][0]
    address = next(each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP")
    lax = ssl._create_unverified_context()
    with urllib.request.urlopen(f"https://{address}:10250/stats/summary", context=lax, timeout=10) as answer:
        summary: Object = json.load(answer)
    return summary


def select_pods(namespace: str, selector: str) -> set[str]:
    """The names of pods that a label selector selects."""
    place = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    found = get(f"{place}?labelSelector={urllib.parse.quote(selector)}")["items"]
    return {each["metadata"]["name"] for each in found}


def node_metrics(node: Object) -> Object:
    """The usage of a node."""
    return {"kind": "NodeMetrics", "apiVersion": _GROUP, "metadata": {"name": node["nodeName"]}, **_measured(node)}


def pod_metrics(pod: Object) -> Object:
    """The usage of each container of a pod."""
    metadata = {"name": pod["podRef"]["name"], "namespace": pod["podRef"]["namespace"]}
    containers = [{"name": each["name"], "usage": _usage(each)} for each in pod.get("containers", [])]
    head = {each: value for each, value in _measured(pod).items() if each != "usage"}
    return {"kind": "PodMetrics", "apiVersion": _GROUP, "metadata": metadata, **head, "containers": containers}


def make_certificate(folder: Path) -> ssl.SSLContext:
    """A certificate of its own, which nobody verifies."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*command, "-subj", "/CN=metrics-server", "-keyout", key, "-out", certificate], check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def _measured(subject: Object) -> Object:
    time = subject.get("cpu", {}).get("time") or subject["startTime"]
    return {"timestamp": time, "window": "15s", "usage": _usage(subject)}


def _usage(subject: Object) -> Object:
    processor, memory = subject.get("cpu", {}), subject.get("memory", {})
    return {
        "cpu": f"{processor.get('usageNanoCores', 0)}n",
        "memory": f"{memory.get('workingSetBytes', 0) // 1024}Ki",
    }


def _list(kind: str, found: dict[str, Object]) -> Object:
    return {"kind": kind, "apiVersion": _GROUP, "metadata": {}, "items": list(found.values())}


if __name__ == "__main__":
    server = ThreadingHTTPServer(("", _PORT), Handler)
    with tempfile.TemporaryDirectory() as folder:
        server.socket = make_certificate(Path(folder)).wrap_socket(server.socket, server_side=True)
    server.serve_forever()
