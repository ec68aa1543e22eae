"""What a run may use of its namespace, and which images it may run (DESIGN section 13). Pure: nothing is read here.

A workflow is data that somebody wrote. What it names can be used only if the owner of the thing has said so on it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from formulary_catalog.domain.runs.facts import UnknownAuthors
from formulary_catalog.domain.workflows.manifest import RemediationWorkflow
from formulary_operator.api.names import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Resource

RUNS_LABEL = "formulary.dev/runs"
ALLOWED = "allowed"
CATALOGS_ANNOTATION = "formulary.dev/runs-catalogs"

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")
_DOCKER_HUB = "docker.io"
_ENDS_OF_A_PART = ("/", ":", "@")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """What holds for all runs. `own_namespace` is that of the product itself; empty where it has none.

    `images` are prefixes, none of which allows any image. `digests`: an image must be named by its digest.
    `unknown_authors`: what becomes of a workflow whose author the webhook did not see. `trusted_authors` need no right
    to run Jobs. `tekton_bundles`, `argo_templates`: bundles and Pipelines of Tekton, or WorkflowTemplates of Argo, need
    no approval for being that. `supervised`: each real run awaits a person.
    """

    shared_namespace: str
    own_namespace: str = ""
    images: tuple[str, ...] = ()
    digests: bool = False
    unknown_authors: UnknownAuthors = UnknownAuthors.RUN
    trusted_authors: tuple[str, ...] = ()
    tekton_bundles: bool = False
    argo_templates: bool = False
    supervised: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """A ServiceAccount, Secret or ConfigMap of the namespace of a run."""

    resource: Resource
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"

    @property
    def kubectl(self) -> str:
        """As kubectl names it."""
        return f"{self.resource.kind.lower()}/{self.name}"


def things_of(manifest: Mapping[str, Any], *, workflow: RemediationWorkflow, own_secret: str) -> list[Thing]:
    """What the object would use, and what the workflow says it depends on; without the Secret made for the run."""
    needed = workflow.spec.dependencies
    found = {
        *_used(manifest.get("spec")),
        *(Thing(SECRETS, each.name) for each in needed.secrets),
        *(Thing(CONFIG_MAPS, each.name) for each in needed.config_maps),
    }
    return sorted(found - {Thing(SECRETS, own_secret)}, key=str)


def why_not_used(
    thing: Thing, document: Mapping[str, Any] | None, *, namespace: str, catalog: str, policy: RunPolicy
) -> str:
    """Why a run of a workflow of namespace `catalog` may not use a thing; empty if it may. `document` None: absent."""
    if document is None:
        return f"namespace {namespace} has no {thing}, which the workflow uses; create it there"
    metadata = document.get("metadata") or {}
    if (metadata.get("labels") or {}).get(RUNS_LABEL) != ALLOWED:
        return (
            f"{thing} of namespace {namespace} is not released for runs; its owner releases it with `kubectl label "
            f"--namespace={namespace} {thing.kubectl} {RUNS_LABEL}={ALLOWED}`"
        )
    named = (metadata.get("annotations") or {}).get(CATALOGS_ANNOTATION)
    if named is None:
        catalogs = {namespace, policy.shared_namespace}
    else:
        catalogs = {part.strip() for part in named.split(",")}
    if catalog in catalogs:
        return ""
    return (
        f"{thing} of namespace {namespace} is not released for workflows of namespace {catalog}; its owner adds that "
        f"to the annotation {CATALOGS_ANNOTATION} (a comma between two)"
    )


def why_not_run(manifest: Mapping[str, Any], *, policy: RunPolicy) -> str:
    """Why an image of the object may not run; empty if all may."""
    for image in sorted(set(_images(manifest.get("spec")))):
        if policy.digests and not _DIGEST.search(image):
            return f"image {image} is not named by its digest, which is required here; end it with @sha256:…"
        if policy.images and not any(_begins(full_name(image), prefix) for prefix in policy.images):
            return (
                f"image {image} is of no registry that is allowed here; allowed are {', '.join(policy.images)} "
                "(FORMULARY_ALLOWED_IMAGES of the operator)"
            )
    return ""


def full_name(image: str) -> str:
    """An image with its registry, as the container runtime completes a short name."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{_DOCKER_HUB}/{image}" if slash else f"{_DOCKER_HUB}/library/{image}"


def _begins(image: str, prefix: str) -> bool:
    """Whether it begins with these whole parts: `reg.example/team` is no beginning of `reg.example/teams/x`."""
    if not image.startswith(prefix):
        return False
    return prefix.endswith(_ENDS_OF_A_PART) or image == prefix or image[len(prefix)] in _ENDS_OF_A_PART


def _used(node: object) -> Iterator[Thing]:
    """The things that a pod or an object of an engine names, in whatever place of it."""
    for key, value in _fields(node):
        name = value.get("name") if isinstance(value, Mapping) else value
        match key:
            case "serviceAccountName" | "serviceAccount" if isinstance(value, str) and value:
                yield Thing(SERVICE_ACCOUNTS, value)
            case "secretName" if isinstance(value, str):
                yield Thing(SECRETS, value)
            case "secretKeyRef" | "secretRef" | "secret" if isinstance(value, Mapping) and isinstance(name, str):
                yield Thing(SECRETS, name)
            case "configMapKeyRef" | "configMapRef" | "configMap" if isinstance(value, Mapping) and isinstance(
                name, str
            ):
                yield Thing(CONFIG_MAPS, name)
            case "imagePullSecrets" if isinstance(value, list):
                yield from (Thing(SECRETS, each["name"]) for each in value if isinstance(each, Mapping))


def _images(node: object) -> Iterator[str]:
    """The images of containers, and the bundle that Tekton takes a Pipeline from."""
    for key, value in _fields(node):
        if key == "image" and isinstance(value, str):
            yield value
        if key == "pipelineRef" and isinstance(value, Mapping):
            yield from (str(each["value"]) for each in value.get("params", ()) if each["name"] == "bundle")


def _fields(node: object) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield key, value
            yield from _fields(value)
    elif isinstance(node, list):
        for each in node:
            yield from _fields(each)
