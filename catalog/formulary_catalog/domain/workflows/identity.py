"""Identity of workflows: content hash, version id, the forms in which one may be named (DESIGN section 3)."""

import hashlib
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from formulary_catalog.domain.canonical_json import canonical_json
from formulary_catalog.errors import InvalidInput, NoWorkflowName

VERSION_ID_PREFIX = "wf_ver_"
_VERSION_ID = re.compile(r"wf_ver_[0-9a-f]{20}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_VERSION = re.compile(r"v?[0-9A-Za-z.+-]{1,50}")
_MAX_REFERENCE = 400
URI_SCHEME = "workflow://"


def content_hash(*, api_version: str, kind: str, namespace: str, name: str, spec: Mapping[str, Any]) -> str:
    """sha256, in hex, of the canonical JSON, as UTF-8, of what identifies the content."""
    identity = {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "spec": spec}
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def version_id(content_hash: str) -> str:
    """The pinned id of one version: stable across databases, since it hangs on the content alone."""
    return VERSION_ID_PREFIX + content_hash[:20]


def workflow_uri(*, namespace: str, name: str, version: str = "") -> str:
    """The MCP resource of a workflow, pinned where a version is given."""
    return f"{URI_SCHEME}{namespace}/{name}" + (f"@{version}" if version else "")


def workflow_id(*, namespace: str, name: str, ambiguous: bool) -> str:
    """What the caller should call the workflow: its name, with the namespace where others have the same name."""
    return f"{namespace}/{name}" if ambiguous else name


@dataclass(frozen=True, slots=True)
class WorkflowReference:
    """A workflow as somebody named it. Empty parts were not given; `version_id` stands alone."""

    name: str = ""
    namespace: str = ""
    version: str = ""
    version_id: str = ""

    def __str__(self) -> str:
        if self.version_id:
            return self.version_id
        qualified = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{qualified}@{self.version}" if self.version else qualified


def parse_reference(text: str, *, version: str = "") -> WorkflowReference:
    """Parse `name`, `namespace/name`, `name@version`, `namespace/name@version`, `wf_ver_…` or the URI of a workflow.

    Of a URI that names a section the workflow is meant.

    Raises:
        NoWorkflowName: it has none of these forms.
        InvalidInput: `version` is none, or contradicts the version in the text.
    """
    text, version = text.strip(), version.strip()
    if text.startswith(URI_SCHEME):
        text = unquote(text.removeprefix(URI_SCHEME).partition("#")[0])
    if len(text) > _MAX_REFERENCE:
        raise _invalid(text)
    if version and not _VERSION.fullmatch(version):
        raise InvalidInput(
            f"version {reprlib.repr(version)} is not a semantic version; give one as a search result does, such as "
            "1.2.0, or leave it out",
            field="version",
        )
    if text.startswith(VERSION_ID_PREFIX):
        if not _VERSION_ID.fullmatch(text):
            raise _invalid(text)
        return WorkflowReference(version_id=text, version=_bare(version))
    qualified, at, pinned = text.partition("@")
    namespace, slash, name = qualified.rpartition("/")
    misnamed = not _NAME.fullmatch(name) or (slash and not _NAME.fullmatch(namespace))
    if misnamed or (at and not _VERSION.fullmatch(pinned)):
        raise _invalid(text)
    if pinned and version and _bare(pinned) != _bare(version):
        raise InvalidInput(
            f"version {version!r} contradicts workflow_id {text!r}; give the version in one place only", field="version"
        )
    return WorkflowReference(name=name, namespace=namespace, version=_bare(pinned or version))


def precedence(version: str) -> tuple[object, ...]:
    """Sorts semantic versions by precedence: a pre-release before its release, its numbers before its words.

    Build metadata has no precedence; it only makes the order definite.
    """
    core, _, build = version.partition("+")
    numbers, _, pre_release = core.partition("-")
    parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in pre_release.split("."))
    return tuple(int(number) for number in numbers.split(".")), not pre_release, parts, build


def _bare(version: str) -> str:
    return version.removeprefix("v")


def _invalid(text: str) -> NoWorkflowName:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return NoWorkflowName(
        f"workflow_id {shown!r} is not a workflow name; use name, namespace/name, name@version or wf_ver_ followed by "
        "20 hex digits, as a search result gives it",
        workflow_id=shown,
    )
