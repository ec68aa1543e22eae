"""What tests ask of an API server most often, without a kubectl for each: that takes 0.1 to 0.3 s of processor time."""

import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

_FIELD_MANAGER = "kubectl"
_SECONDS = 120.0


class RequestFailed(Exception):
    """The API server refused, or did not answer; the message is what it said."""


class AdminRequests:
    """One API server, as its administrator."""

    def __init__(self, *, url: str, authority: Path, token: str) -> None:
        self._client = httpx2.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=authority),
            headers={"Authorization": f"Bearer {token}"},
            timeout=_SECONDS,
            trust_env=False,
        )
        self._places: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def send(self, method: str, path: str) -> str:
        """The body of the answer. Raises RequestFailed."""
        return self._answer(method, path).text

    def apply(self, *, manifest: dict[str, Any], namespace: str) -> str:
        """Apply on the server, with unknown fields refused. Raises RequestFailed."""
        place, namespaced = self._place(manifest["apiVersion"], manifest["kind"])
        metadata = manifest["metadata"]
        inside = f"/namespaces/{metadata.get('namespace') or namespace}" if namespaced else ""
        return self._answer(
            "PATCH",
            f"{place.replace('/*', inside)}/{metadata['name']}",
            params={"fieldManager": _FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"},
            headers={"Content-Type": "application/apply-patch+yaml"},
            content=json.dumps(manifest),
        ).text

    def token(self, namespace: str, name: str, *, audiences: Sequence[str], ttl: int) -> str:
        """A token of a ServiceAccount. Raises RequestFailed."""
        wanted = {"audiences": list(audiences), "expirationSeconds": ttl}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self._answer("POST", path, json={"spec": wanted})
        return str(answer.json()["status"]["token"])

    def _place(self, version: str, kind: str) -> tuple[str, bool]:
        """The path of all objects of a kind, with `/*` for their namespace, and whether they have one."""
        if (version, kind) not in self._places:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for served in json.loads(self.send("GET", root))["resources"]:
                if "/" not in served["name"]:
                    self._places[version, served["kind"]] = (f"{root}/*/{served['name']}", served["namespaced"])
        try:
            return self._places[version, kind]
        except KeyError:
            raise RequestFailed(f'no matches for kind "{kind}" in version "{version}"') from None

    def _answer(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            answer = self._client.request(method, path, **options)
        except httpx2.TransportError as error:
            raise RequestFailed(f"{method} {path}: {error!r}") from error
        if answer.is_success:
            return answer
        try:
            raise RequestFailed(answer.json()["message"])
        except (KeyError, TypeError, ValueError):
            raise RequestFailed(f"{method} {path}: {answer.status_code} {answer.text[:500]}") from None
