"""Skills over MCP: `skills/list`, `skills/get`, and reading `skill://` resources (SEP-2640).

`server/mcp/server` registers the two methods and advertises the extension. The SDK has no module for it yet.
"""

from collections.abc import Sequence
from typing import Any, Literal

from mcp_types import (
    PaginatedRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    TextResourceContents,
)
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from formulary_catalog.domain.workflows.skill import SCHEME, Skill

EXTENSION = "io.modelcontextprotocol/skills"
MIME_TYPE = "text/markdown"
TTL_MS = 60_000


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


class _Cacheable(_Wire):
    """What a client may keep: for itself alone, since every answer depends on caller and incident."""

    result_type: Literal["complete"] = "complete"
    ttl_ms: int = TTL_MS
    cache_scope: Literal["private"] = "private"


class ListSkillsResult(_Cacheable):
    """Answer to `skills/list`."""

    skills: list[SkillEntry]


class GetSkillResult(_Cacheable):
    """Answer to `skills/get`."""

    skill: SkillEntry


def listing(skills: Sequence[Skill]) -> dict[str, Any]:
    """The answer to `skills/list`."""
    return ListSkillsResult(skills=[_entry(skill) for skill in skills]).model_dump(mode="json", by_alias=True)


def entry(skill: Skill) -> dict[str, Any]:
    """The answer to `skills/get`."""
    return GetSkillResult(skill=_entry(skill)).model_dump(mode="json", by_alias=True)


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


def _entry(skill: Skill) -> SkillEntry:
    file = SkillResource(uri=skill.uri, digest=skill.digest, size=len(skill.text.encode()))
    return SkillEntry(uri=skill.uri, frontmatter=dict(skill.frontmatter), resources=[file])
