"""A small client of the Kubernetes API: JSON in, JSON out, errors of our tree.

Objects stay plain dictionaries: 10,000 of them pass through here, and models of all of them would only cost memory.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError

from formulary_catalog.errors import FormularyError, StartupError, Unavailable
from formulary_operator.api.names import Resource

_ACCEPTED = "application/json, application/jwk-set+json"
"""The second for the keys of the cluster, which it serves as nothing else."""
PAGE_SIZE = 100
_SECONDS = 10.0
_METADATA_ALONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

Json = dict[str, Any]


class KubernetesUnavailable(Unavailable):
    """The API server does not answer, or asks us to come back later."""


class KubernetesRefused(FormularyError):
    """The API server refuses a request. `status` is that of HTTP, `reason` the machine-readable one of Kubernetes.

    `about` is the name of the object that it is about: a 404 without one says that the kind is not served at all.
    """

    def __init__(self, message: str, *, status: int, reason: str, about: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.about = about

    @property
    def means_no_object(self) -> bool:
        return self.status == 404 and bool(self.about)


class KubeClient:
    """The API server as seen with one identity. Every call ends within ten seconds, in a result or an error.

    All methods raise `KubernetesUnavailable` and, unless they say otherwise, `KubernetesRefused`.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    @classmethod
    def connect(cls) -> "KubeClient":
        """With the ServiceAccount of the pod, else with `KUBECONFIG` or the user's own kubeconfig.

        Raises:
            StartupError: there is neither, or it cannot be read.
        """
        try:
            config = KubeConfig.from_env().get()
            if config is None:
                raise ConfigError("the kubeconfig has no current context")
            http = AsyncClient(config, ConnectionParams(timeout=httpx2.Timeout(_SECONDS), trust_env=False))
        except (ConfigError, OSError, ValueError, KeyError, AssertionError) as error:
            raise StartupError(
                f"no way to the Kubernetes API: {error or type(error).__name__}; run in a pod with a ServiceAccount "
                "token, or set KUBECONFIG"
            ) from error
        return cls(http)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(self, path: str) -> Json | None:
        """One object; None if it does not exist."""
        try:
            return await self._call("GET", path)
        except KubernetesRefused as error:
            if error.means_no_object:
                return None
            raise

    async def metadata(self, path: str) -> Json | None:
        """The metadata of one object, without what it holds; None if it does not exist."""
        try:
            return await self._call("GET", path, accept=_METADATA_ALONE)
        except KubernetesRefused as error:
            if error.means_no_object:
                return None
            raise

    async def pages(self, path: str, *, page_size: int = PAGE_SIZE) -> AsyncIterator[list[Json]]:
        """All objects of a collection, as they were at one moment, page by page.

        Raises:
            KubernetesRefused: also with status 410 when reading the pages took so long that the moment is forgotten.
        """
        after = ""
        while True:
            query = {"limit": str(page_size)} | ({"continue": after} if after else {})
            page = await self._call("GET", path, query=query)
            yield page.get("items") or []
            after = page["metadata"].get("continue", "")
            if not after:
                return

    async def is_empty(self, path: str) -> bool:
        """Whether a collection has no objects."""
        return not (await self._call("GET", path, query={"limit": "1"})).get("items")

    async def serves(self, path: str) -> bool:
        """Whether there is a collection at this path; False also while nobody answers."""
        try:
            await self._call("GET", path, query={"limit": "1"})
        except KubernetesUnavailable:
            return False
        except KubernetesRefused as error:
            if error.status == 404:
                return False
            raise
        return True

    async def selected(self, path: str, *, labels: Mapping[str, str]) -> list[Json]:
        """The objects of a collection that have all these labels; at most one page of them."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        answer = await self._call("GET", path, query={"labelSelector": selector, "limit": str(PAGE_SIZE)})
        return answer.get("items") or []

    async def offers(self, resource: Resource) -> bool:
        """Whether the cluster serves a kind at all, which everybody may ask."""
        try:
            found = await self._call("GET", f"/apis/{resource.api_version}")
        except KubernetesRefused as error:
            if error.status == 404:
                return False
            raise
        return any(served.get("name") == resource.plural for served in found.get("resources") or ())

    async def create(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False, seconds: float | None = None
    ) -> Json:
        """Create an object in a collection, or ask a review of one. With `dry_run` it is checked and not stored.

        After `seconds` neither we nor the API server go on with it.
        """
        query = {"dryRun": "All"} if dry_run else {}
        if seconds is None:
            return await self._call("POST", path, body=body, query=query)
        query["timeout"] = f"{max(1, round(seconds * 1000))}ms"
        try:
            async with asyncio.timeout(seconds):
                return await self._call("POST", path, body=body, query=query)
        except TimeoutError as error:
            raise KubernetesUnavailable(
                f"the Kubernetes API did not answer POST {path} within {seconds:.1f} s; retried automatically"
            ) from error

    async def replace(self, path: str, body: Mapping[str, Any]) -> Json:
        """Replace an object; status 409 if its resourceVersion is no longer the newest."""
        return await self._call("PUT", path, body=body)

    async def merge(self, path: str, patch: Mapping[str, Any]) -> Json | None:
        """Apply a JSON merge patch (RFC 7386); None if the object does not exist."""
        try:
            return await self._call("PATCH", path, body=patch, content_type="application/merge-patch+json")
        except KubernetesRefused as error:
            if error.means_no_object:
                return None
            raise

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str, force: bool = True) -> Json:
        """Server-side apply: create the object, or change the fields that `manager` owns."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._call("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")

    async def delete(self, path: str, *, uid: str = "") -> bool:
        """Delete an object and, later, what it owns; False if it does not exist, or its uid is not this one."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", path, body=options)
        except KubernetesRefused as error:
            if error.means_no_object or (uid and error.status == 409):
                return False
            raise
        return True

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = _ACCEPTED,
    ) -> Json:
        try:
            response = await self._http.request(
                method,
                path,
                params=dict(query) if query else None,
                content=json.dumps(body).encode() if body is not None else None,
                headers={"Content-Type": content_type, "Accept": accept},
            )
        except (httpx2.HTTPError, ConfigError, OSError) as error:
            raise KubernetesUnavailable(
                f"the Kubernetes API does not answer ({type(error).__name__}); retried automatically"
            ) from error
        if response.is_success:
            return _answer(response, method=method, path=path)
        raise _refusal(response, method=method, path=path)


def _answer(response: httpx2.Response, *, method: str, path: str) -> Json:
    """What a success brings. Anything but an object comes from something else in between, such as a proxy."""
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise KubernetesUnavailable(
            f"what answers {method} {path} with {response.status_code} is not the Kubernetes API; retried automatically"
        )
    return answer


def _refusal(response: httpx2.Response, *, method: str, path: str) -> FormularyError:
    status = response.status_code
    try:
        told = response.json()
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        told = {}
    if status in (429, 500, 502, 503, 504):
        # Such as which admission webhook does not answer.
        why = f" ({told['message']})" if told.get("message") else ""
        return KubernetesUnavailable(
            f"the Kubernetes API answers {status} to {method} {path}{why}; retried automatically"
        )
    reason = str(told.get("reason") or status)
    details = told.get("details")
    return KubernetesRefused(
        f"the Kubernetes API refuses {method} {path} with {status} {reason}: {told.get('message') or ''}",
        status=status,
        reason=reason,
        about=str(details.get("name") or "") if isinstance(details, dict) else "",
    )
