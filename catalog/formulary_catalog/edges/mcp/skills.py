"""Skills over MCP: `skills/list`, `skills/get`, and reading `skill://` resources (SEP-2640).

`edges/mcp/server` registers the two methods and advertises the extension. The SDK has no module for it yet.
"""

from collections.abc import Sequence
from typing import Any

from mcp_types import (
    PaginatedRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.workflows.skill import SCHEME, Skill
from formulary_catalog.errors import InvalidInput

EXTENSION = "io.modelcontextprotocol/skills"
MIME_TYPE = "text/markdown"
_CACHING = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
"""What a client may keep, from the revision on that knows it: for itself alone, every answer depends on caller and
incident."""


class ListSkillsParams(PaginatedRequestParams):
    """Parameters of `skills/list`."""


class GetSkillParams(RequestParams):
    """Parameters of `skills/get`."""

    uri: str = ""
    """Empty where it is missing: that is no skill, and the refusal says where to find one."""


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class SkillResource(_Wire):
    """One file of a skill."""

    uri: str
    digest: str
    size: int


class SkillEntry(_Wire):
    """One skill with its frontmatter and its files."""

    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource]


class ListSkillsResult(_Wire):
    """Answer to `skills/list`."""

    skills: list[SkillEntry]


class GetSkillResult(_Wire):
    """Answer to `skills/get`."""

    skill: SkillEntry


def listing(skills: Sequence[Skill], *, protocol_version: str) -> dict[str, Any]:
    """The answer to `skills/list`."""
    return _result(ListSkillsResult(skills=[_entry(skill) for skill in skills]), protocol_version=protocol_version)


def entry(skill: Skill, *, protocol_version: str) -> dict[str, Any]:
    """The answer to `skills/get`."""
    return _result(GetSkillResult(skill=_entry(skill)), protocol_version=protocol_version)


def check_cursor(cursor: str) -> None:
    """Raises InvalidInput for a cursor: a listing is one page, so none was given out."""
    if cursor:
        raise InvalidInput("skills/list is one page and gave out no cursor; call it without one", field="cursor")


def is_skill(uri: str) -> bool:
    """Whether a resource is a file of a skill."""
    return uri.startswith(SCHEME)


def skill_resource(skill: Skill) -> Resource:
    """The `SKILL.md` as `resources/list` shows it."""
    return Resource(
        uri=skill.uri,
        name=skill.name,
        description=str(skill.frontmatter["description"]),
        mime_type=MIME_TYPE,
        size=len(skill.text.encode()),
    )


def skill_contents(skill: Skill) -> ReadResourceResult:
    """The `SKILL.md` as `resources/read` answers it."""
    return ReadResourceResult(contents=[TextResourceContents(uri=skill.uri, mime_type=MIME_TYPE, text=skill.text)])


def _result(result: _Wire, *, protocol_version: str) -> dict[str, Any]:
    caching = _CACHING if protocol_version in MODERN_PROTOCOL_VERSIONS else {}
    return {**result.model_dump(mode="json", by_alias=True), **caching}


def _entry(skill: Skill) -> SkillEntry:
    file = SkillResource(uri=skill.uri, digest=skill.digest, size=len(skill.text.encode()))
    return SkillEntry(uri=skill.uri, frontmatter=dict(skill.frontmatter), resources=[file])
