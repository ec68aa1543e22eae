"""A real Kubernetes API server for tests: kube-apiserver and etcd on loopback, without nodes and controllers.

`python -m support.control_plane` builds the programs once and keeps them in the user's cache.
"""

import base64
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.admin_requests import AdminRequests, RequestFailed
from support.audit_log import Request, answered_request
from support.toolcache import installed, location, run_installer
from support.waiting import wait_until

AUDIENCE = "formulary"
_ISSUER = "https://kubernetes.default.svc"
_PROGRAMS = ("kube-apiserver", "etcd", "kubectl")
_SCRIPT = Path(__file__).parents[2] / "scripts" / "control-plane.sh"
_CACHED = f"control-plane-bookworm-{platform.machine()}"
_STOP_SECONDS = 20.0
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class NoControlPlane(Exception):
    """There is no API server to test on."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"{problem}: run `make control-plane` once (about 8 minutes), or set KUBEBUILDER_ASSETS to a directory "
            f"with {', '.join(_PROGRAMS)}, or FORMULARY_TEST_KUBECONFIG to the kubeconfig of a throwaway cluster"
        )


class KubectlFailed(Exception):
    """kubectl, or a request in its place, ended with an error; the message is what was said about it."""


class Cluster:
    """An API server as its administrator, through kubectl."""

    def __init__(self, *, kubectl: Path, kubeconfig: Path, home: Path) -> None:
        self.kubeconfig = kubeconfig
        self.kubectl_program = kubectl
        self._home = home

    def kubectl(
        self, *arguments: str, input: str | None = None, kubeconfig: Path | None = None, seconds: float = 120
    ) -> str:
        """What kubectl prints. Raises `KubectlFailed` unless it ends with 0."""
        done = subprocess.run(
            [self.kubectl_program, *arguments],
            input=input if input is not None else "",
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            # Its home directory holds what it caches about a server.
            env={"PATH": os.defpath, "HOME": str(self._home), "KUBECONFIG": str(kubeconfig or self.kubeconfig)},
        )
        if done.returncode != 0:
            raise KubectlFailed(done.stderr.strip())
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get` as JSON."""
        answer: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return answer

    def apply(self, *manifests: dict[str, Any], namespace: str = "default") -> None:
        """`kubectl apply` of these manifests, validated."""
        self.kubectl("apply", f"--namespace={namespace}", "--filename=-", input=yaml.safe_dump_all(manifests))

    def raw(self, verb: Literal["get", "delete"], path: str) -> str:
        """The answer to a request for a path."""
        return self.kubectl(verb, "--raw", path)

    def create_namespace(self, name: str) -> None:
        """Make sure that a namespace is there."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def service_account(
        self, namespace: str, name: str, *, audiences: Sequence[str] = (AUDIENCE,), ttl: int = 3600
    ) -> str:
        """A token of a ServiceAccount, which is made if it is not there; no audience is that of the API server.

        `ttl` is in seconds; the API server grants 600 at least.
        """
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.create_namespace(namespace)
        self.apply(account, namespace=namespace)
        return self._token(namespace, name, audiences=audiences, ttl=ttl)

    def _token(self, namespace: str, name: str, *, audiences: Sequence[str], ttl: int) -> str:
        wanted = [f"--audience={audience}" for audience in audiences]
        return self.kubectl("create", "token", name, f"--namespace={namespace}", f"--duration={ttl}s", *wanted).strip()

    def kubeconfig_for(self, token: str) -> Path:
        """A kubeconfig of its own for the holder of a token."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        return _private_file(self._home / f"kubeconfig-{secrets.token_hex(6)}", yaml.safe_dump(config))


class ControlPlane(Cluster):
    """An API server of our own, with an audit log, that a test may stop, start and make forget."""

    def __init__(self, *, assets: Path, home: Path, options: Sequence[str] = ()) -> None:
        super().__init__(kubectl=assets / "kubectl", kubeconfig=home / "kubeconfig", home=home)
        self._assets = assets
        self._options = tuple(options)
        self._etcd_port, self._port = free_port(), free_port()
        self._admin_token = secrets.token_hex(16)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._api_server: subprocess.Popen[bytes] | None = None
        self._requests: AdminRequests | None = None
        self.signing_key = home / "service-accounts.key"
        self.audit_log = home / "audit.log"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def certificate_authority(self) -> Path:
        """The certificates that the API server is verified with, PEM."""
        return self._home / "certificates" / "apiserver.crt"

    def apply(self, *manifests: dict[str, Any], namespace: str = "default") -> None:
        """As `kubectl apply --server-side` does it, in this process."""
        for manifest in manifests:
            self._ask(partial(AdminRequests.apply, manifest=manifest, namespace=namespace))

    def raw(self, verb: Literal["get", "delete"], path: str) -> str:
        """The answer to a request for a path, from this process."""
        return self._ask(lambda requests: requests.send(verb.upper(), path))

    def start(self) -> None:
        """Start both, and wait until the API server is ready. Raises RuntimeError with the end of the logs."""
        _private_file(self.signing_key, _new_key())
        _private_file(self._home / "tokens.csv", f'{self._admin_token},admin,admin,"system:masters"\n')
        (self._home / "audit-policy.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        self._etcd = self._launch(
            "etcd",
            f"--data-dir={self._home / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self.start_api_server()
        _private_file(self.kubeconfig, yaml.safe_dump(self._admin_config()))

    def stop(self) -> None:
        """Stop both. May be called again."""
        self.stop_api_server()
        _end(self._etcd)
        self._etcd = None

    def start_api_server(self) -> None:
        """Start the API server, on the same port as before, and wait until it is ready."""
        self._api_server = self._launch("kube-apiserver", *self._api_server_options(), *self._options)
        wait_until(self._is_ready, what="the API server", shown=self._end_of_logs)

    def stop_api_server(self, *, kill: bool = False) -> None:
        """Stop the API server, with `kill` at once and without a word to its clients. What it stored stays."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        _end(self._api_server, kill=kill)
        self._api_server = None

    def stand_still(self) -> None:
        """From now on the API server takes requests and answers none."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """End its standing still."""
        self._send(signal.SIGCONT)

    def forget_history(self) -> None:
        """Restart the API server without what was before now: it answers 410 to a watch from an older revision."""
        self.stop_api_server()
        revision = self._ask_etcd("kv/range", {"key": base64.b64encode(b"\0").decode()})["header"]["revision"]
        self._ask_etcd("kv/compaction", {"revision": revision, "physical": True})
        self.start_api_server()

    def requests(self, *, user: str = "", verbs: Sequence[str] = (), resource: str = "") -> list[Request]:
        """The requests answered so far, oldest first, dry runs left out: of a user, of these verbs, to a resource."""
        lines = self.audit_log.read_text().splitlines()
        return [
            request
            for request in map(answered_request, lines)
            if not request.dry_run
            and user in ("", request.user)
            and (not verbs or request.verb in verbs)
            and resource in ("", request.resource)
        ]

    def _token(self, namespace: str, name: str, *, audiences: Sequence[str], ttl: int) -> str:
        return self._ask(lambda requests: requests.token(namespace, name, audiences=audiences, ttl=ttl))

    def _ask(self, ask: Callable[[AdminRequests], str]) -> str:
        requests = self._requests = self._requests or AdminRequests(
            url=self.url, authority=self.certificate_authority, token=self._admin_token
        )
        try:
            return ask(requests)
        except RequestFailed as failed:
            raise KubectlFailed(str(failed)) from failed

    def _send(self, order: signal.Signals) -> None:
        assert self._api_server is not None
        self._api_server.send_signal(order)

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    def _api_server_options(self) -> list[str]:
        return [
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self._home / 'certificates'}",
            "--endpoint-reconciler-type=none",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={self.signing_key}",
            f"--service-account-signing-key-file={self.signing_key}",
            f"--api-audiences={_ISSUER}",
            f"--token-auth-file={self._home / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Without a controller manager ServiceAccounts get no Secrets, which this plugin would wait for.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={self._home / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
        ]

    def _admin_config(self) -> dict[str, Any]:
        authority = base64.b64encode(self.certificate_authority.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}},
            ],
            "users": [{"name": "test", "user": {"token": self._admin_token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    def _launch(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        with (self._home / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                [self._assets / program, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._home
            )

    def _is_ready(self) -> bool:
        for process in (self._etcd, self._api_server):
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"{process.args!r} ended with {process.returncode}:\n{self._end_of_logs()}")
        if not self.certificate_authority.exists():
            return False
        try:
            trusted = ssl.create_default_context(cafile=self.certificate_authority)
            with urllib.request.urlopen(f"{self.url}/readyz", context=trusted, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask_etcd(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        question = urllib.request.Request(f"{self._etcd_url}/v3/{method}", data=json.dumps(body).encode())
        with urllib.request.urlopen(question, timeout=10) as answer:
            told: dict[str, Any] = json.load(answer)
        return told

    def _end_of_logs(self) -> str:
        logs = (self._home / f"{program}.log" for program in ("etcd", "kube-apiserver"))
        return "\n".join(log.read_text(errors="replace")[-3000:] for log in logs if log.exists())


@contextmanager
def control_plane(*options: str) -> Iterator[ControlPlane]:
    """A new and empty API server, with further `options` on its command line. Raises `NoControlPlane`."""
    with tempfile.TemporaryDirectory(prefix="formulary-control-plane-") as home:
        plane = ControlPlane(assets=find_assets(), home=Path(home), options=options)
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


def given_kubeconfig() -> Path | None:
    """The kubeconfig of an existing cluster that the tests are told to use."""
    given = os.environ.get("FORMULARY_TEST_KUBECONFIG")
    return Path(given) if given else None


@contextmanager
def existing_cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """The cluster of a kubeconfig. Raises `NoControlPlane` without a kubectl."""
    program = shutil.which("kubectl")
    if program is None:
        raise NoControlPlane("FORMULARY_TEST_KUBECONFIG is set and there is no kubectl on the PATH")
    with tempfile.TemporaryDirectory(prefix="formulary-cluster-") as home:
        yield Cluster(kubectl=Path(program), kubeconfig=kubeconfig, home=Path(home))


def free_port() -> int:
    """A port of loopback that nobody listens on, below those that connections are given by the system."""
    while True:
        port = 12_000 + secrets.randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def main() -> None:
    """Make sure that the tests have an API server: build one unless there is one."""
    if given_kubeconfig() is not None:
        return
    try:
        if "KUBEBUILDER_ASSETS" not in os.environ and not location(_CACHED).exists():
            print("building kube-apiserver for the tests: about 8 minutes, once", flush=True)
            installed(name=_CACHED, install=lambda home: run_installer(["bash", _SCRIPT, home]))
        find_assets()
    except (NoControlPlane, RuntimeError) as error:
        sys.exit(str(error))


def find_assets() -> Path:
    """The directory of kube-apiserver, etcd and kubectl. Raises `NoControlPlane`."""
    home = Path(os.environ.get("KUBEBUILDER_ASSETS") or location(_CACHED))
    missing = [program for program in _PROGRAMS if not (home / program).exists()]
    if missing:
        raise NoControlPlane(f"{home} has no {', '.join(missing)}")
    return home


def _new_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def _private_file(path: Path, content: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(content)
    return path


def _end(process: subprocess.Popen[bytes] | None, *, kill: bool = False) -> None:
    if process is None:
        return
    if not kill:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            kill = True
    if kill:
        process.kill()
    process.wait()


if __name__ == "__main__":
    main()
