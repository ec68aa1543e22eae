"""The Kubernetes API: JSON in, JSON out, errors of our tree.

Reconcilers, the webhook, the lease and the checks of callers use it; kopf watches with connections of its own. It sends
plain dictionaries through the low-level `ApiClient` of the official package: 10,000 objects pass through here, and
models of all of them would only cost time and memory.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import aiohttp
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, incluster_config
from kubernetes.aio.config.kube_config import KubeConfigLoader

from formulary_catalog.errors import FormularyError, StartupError, Unavailable
from formulary_operator.api.names import Json, Resource

_ACCEPTED = "application/json, application/jwk-set+json"
"""The second for the keys of the cluster, which it serves as nothing else."""
PAGE_SIZE = 100
_CORE = "v1"
_METADATA_ALONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_OF_MANY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA_PAGE = 20
"""Objects: with annotations and managed fields the metadata of one may have a few hundred kilobytes."""


class KubernetesUnavailable(Unavailable):
    """The API server does not answer, or asks us to come back later."""


NOT_DECLARED = "field not declared in schema"
"""What the API server says of a field that is applied and that the CRD of the kind lacks."""


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
    """The API server as seen with one identity, from one event loop, over at most 100 connections.

    All methods raise `KubernetesUnavailable` and, unless they say otherwise, `KubernetesRefused`.
    """

    def __init__(self, api: ApiClient, *, kubeconfig: Path, seconds: float, context: str = "") -> None:
        self._api = api
        self._context = context
        self._kubeconfig = kubeconfig
        self._seconds = seconds

    @classmethod
    async def connect(cls, *, seconds: float = 10.0, context: str = "") -> Self:
        """With the ServiceAccount of the pod, else with `KUBECONFIG` or the user's own kubeconfig.

        `context` is one of the kubeconfig, empty for the current one; with it the pod does not count. Every call ends
        within `seconds`, in a result or an error.

        Raises:
            StartupError: there is neither, or it cannot be read.
        """
        kubeconfig = Path(os.environ.get("KUBECONFIG", "~/.kube/config"))
        tracing = aiohttp.TraceConfig()
        tracing.on_request_redirect.append(_refuse_redirect)
        configuration = Configuration(trace_configs=[tracing], client_session_kwargs={"trust_env": False})
        try:
            await _read_identity(configuration, kubeconfig=kubeconfig, context=context)
            api = ApiClient(configuration)
        except (ConfigException, OSError) as error:
            raise StartupError(
                f"no way to the Kubernetes API: {error or type(error).__name__}; run in a pod with a ServiceAccount "
                "token, or set KUBECONFIG"
            ) from error
        api.user_agent = "formulary"
        return cls(api, kubeconfig=kubeconfig, seconds=seconds, context=context)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def get(self, path: str) -> Json | None:
        """One object; None if it does not exist."""
        return await self._call_about("GET", path)

    async def metadata(self, path: str) -> Json | None:
        """The metadata of one object, without what it holds; None if it does not exist."""
        return await self._call_about("GET", path, accept=_METADATA_ALONE)

    async def groups(self) -> list[str]:
        """The API groups that the cluster serves, each in its preferred version, which everybody may ask.

        The first is that of Kubernetes without a name, which is listed nowhere.
        """
        found = (await self._call("GET", "/apis")).get("groups") or []
        return [_CORE, *(group["preferredVersion"]["groupVersion"] for group in found)]

    async def kinds(self, api_version: str) -> list[Json]:
        """The kinds of an API group in one version, which everybody may ask."""
        root = "/api" if api_version == _CORE else "/apis"
        return (await self._call("GET", f"{root}/{api_version}")).get("resources") or []

    async def pages(self, path: str) -> AsyncIterator[list[Json]]:
        """All objects of a collection, as they were at one moment, page by page.

        Raises:
            KubernetesRefused: also with status 410 when reading the pages took so long that the moment is forgotten.
        """
        async for page in self._pages(path, query={"limit": str(PAGE_SIZE)}):
            yield page

    async def metadata_pages(self, path: str, *, labels: Mapping[str, str]) -> AsyncIterator[list[Json]]:
        """The objects of a collection that have all these labels, without what they hold, page by page.

        Raises:
            KubernetesRefused: as `pages`.
        """
        query = {"labelSelector": _selector(labels), "limit": str(_METADATA_PAGE)}
        async for page in self._pages(path, query=query, accept=_METADATA_OF_MANY):
            yield page

    async def _pages(
        self, path: str, *, query: Mapping[str, str], accept: str = _ACCEPTED
    ) -> AsyncIterator[list[Json]]:
        after = ""
        while True:
            page = await self._call("GET", path, query={**query, "continue": after} if after else query, accept=accept)
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
        answer = await self._call("GET", path, query={"labelSelector": _selector(labels), "limit": str(PAGE_SIZE)})
        return answer.get("items") or []

    async def listed(self, path: str, *, name: str) -> Json | None:
        """One object of a collection, for who may list it and not get; None if it does not exist."""
        answer = await self._call("GET", path, query={"fieldSelector": f"metadata.name={name}", "limit": "1"})
        return next(iter(answer.get("items") or []), None)

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

    async def merge(self, path: str, patch: Mapping[str, Any], *, dry_run: bool = False) -> Json | None:
        """Apply a JSON merge patch (RFC 7386); None if the object does not exist. With `dry_run` nothing is stored."""
        query = {"dryRun": "All"} if dry_run else {}
        return await self._call_about(
            "PATCH", path, body=patch, query=query, content_type="application/merge-patch+json"
        )

    async def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> Json:
        """Server-side apply: create the object, or change fields of it; status 409 where another manager owns one."""
        query = {"fieldManager": manager, "force": "false"}
        return await self._call("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")

    async def delete(self, path: str, *, uid: str = "") -> bool:
        """Delete an object and, later, what it owns; False if it does not exist, or its uid is not this one."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            return await self._call_about("DELETE", path, body=options) is not None
        except KubernetesRefused as error:
            if uid and error.status == 409:
                return False
            raise

    async def _call_about(self, method: str, path: str, **options: Any) -> Json | None:
        """A call about one object; None if it does not exist."""
        try:
            return await self._call(method, path, **options)
        except KubernetesRefused as error:
            if error.means_no_object:
                return None
            raise

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
        """Call, and translate every failure of the library into one of ours."""
        headers = {"Content-Type": content_type, "Accept": accept}
        try:
            status, content = await self._exchange(method, path, query, headers, body)
            if status == 401:  # the token was replaced before its time
                await _read_identity(self._api.configuration, kubeconfig=self._kubeconfig, context=self._context)
                status, content = await self._exchange(method, path, query, headers, body)
        except (aiohttp.ClientError, ConfigException, OSError, ValueError) as error:
            raise KubernetesUnavailable(
                f"the Kubernetes API does not answer ({type(error).__name__}); retried automatically"
            ) from error
        answer = _object(content)
        if not 200 <= status < 300:
            raise _refusal(status, answer or {}, method=method, path=path)
        if answer is None:  # from something else in between, such as a proxy
            raise KubernetesUnavailable(
                f"what answers {method} {path} with {status} is not the Kubernetes API; retried automatically"
            )
        return answer

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str] | None, headers: Mapping[str, str], body: Any
    ) -> tuple[int, bytes]:
        """One request. `param_serialize` is not given the body: it walks through it in Python, too deep for some."""
        _, url, sent, *_ = await self._api.param_serialize(
            method, path, query_params=query, header_params=dict(headers), auth_settings=["BearerToken"]
        )
        if "authorization" in sent:
            sent["authorization"] = sent["authorization"].strip()  # the file of a token may end with a newline
        response = await self._api.call_api(method, url, sent, body, _request_timeout=self._seconds)
        return response.status, await response.read()


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


async def _read_identity(configuration: Configuration, *, kubeconfig: Path, context: str) -> None:
    """Read where the API server is and who we are; the library reads the token of a ServiceAccount again each minute.

    Raises:
        ConfigException: there is neither a ServiceAccount nor a usable kubeconfig.
    """
    try:
        reading = _identity(kubeconfig, context=context).load_and_set(configuration)
        if reading is not None:
            await reading
    except Exception as error:  # the library raises any of them where a kubeconfig is not as it expects
        raise ConfigException(str(error) or type(error).__name__) from error


def _identity(kubeconfig: Path, *, context: str) -> incluster_config.InClusterConfigLoader | KubeConfigLoader:
    token, authority = incluster_config.SERVICE_TOKEN_FILENAME, incluster_config.SERVICE_CERT_FILENAME
    if Path(token).exists() and not context:
        return incluster_config.InClusterConfigLoader(token, authority)
    kubeconfig = kubeconfig.expanduser()
    with kubeconfig.open(encoding="utf-8") as stream:
        # Not by its path: the library's errors would then quote users with their tokens.
        return KubeConfigLoader(
            yaml.safe_load(stream), active_context=context or None, config_base_path=str(kubeconfig.parent)
        )


async def _refuse_redirect(
    _session: aiohttp.ClientSession, _context: SimpleNamespace, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    """Tokens and bodies go where the configuration says and nowhere else."""
    redirect.response.close()
    raise _refusal(redirect.response.status, {}, method=redirect.method, path=redirect.url.path)


def _object(content: bytes) -> Json | None:
    """The JSON object of an answer; None if it is anything else."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _refusal(status: int, answer: Json, *, method: str, path: str) -> FormularyError:
    # API servers before 1.26 answer a field that the schema lacks, in what is applied, with 500.
    if status in (429, 500, 502, 503, 504) and NOT_DECLARED not in str(answer.get("message")):
        # Such as which admission webhook does not answer.
        why = f" ({answer['message']})" if answer.get("message") else ""
        return KubernetesUnavailable(
            f"the Kubernetes API answers {status} to {method} {path}{why}; retried automatically"
        )
    reason = str(answer.get("reason") or status)
    details = answer.get("details")
    return KubernetesRefused(
        f"the Kubernetes API refuses {method} {path} with {status} {reason}: {answer.get('message') or ''}",
        status=status,
        reason=reason,
        about=str(details.get("name") or "") if isinstance(details, dict) else "",
    )
