"""The rules of SEP-2640 for skills of workflows, each under the name of its check in the conformance suite.

`tests/clients` runs that suite. It names no incident, so that it is served the guide alone.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from mcp_types import ServerCapabilities, TextResourceContents

from formulary_catalog.domain.workflows.skill import GUIDE
from formulary_catalog.store.embedded.server import EmbeddedPostgres
from support.agent import agent
from support.manifest import analysis, text, workflow
from support.serving import catalog, serving
from support.wire import Wire

INCIDENT = {"X-Remediation-Id": "rr-1"}
EXTENSION = "io.modelcontextprotocol/skills"
NAME = re.compile(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
REG_NAME = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
MANY, MUCH = 512, 16 * 2**20


@dataclass(frozen=True)
class Served:
    """What a host reads of a server: what it declares and lists, what it answers for each skill, and their files."""

    capabilities: ServerCapabilities
    listing: dict[str, Any]
    gotten: dict[str, dict[str, Any]]
    files: dict[str, TextResourceContents]
    resources: dict[str, Any]
    unknown: dict[str, Any]

    @property
    def skills(self) -> list[dict[str, Any]]:
        skills: list[dict[str, Any]] = self.listing["skills"]
        return skills

    def bytes_of(self, uri: str) -> bytes:
        return self.files[uri].text.encode()

    def frontmatter_of(self, uri: str) -> dict[str, Any]:
        opening, frontmatter, _ = self.files[uri].text.split("---\n", 2)
        assert opening == ""
        read: dict[str, Any] = yaml.safe_load(frontmatter)
        return read


@pytest.fixture(scope="module")
async def served(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Served:
    incident = analysis("buying", remediation_id="rr-1")
    incident["spec"]["analysisRequest"]["signalContext"] |= {"signalName": "OOMKilled", "severity": "critical"}
    own = tmp_path_factory.mktemp("manifests") / "own.yaml"
    names = ("ours", "web.dotted", "1e3", "a" * 100)
    own.write_text(text(*(workflow(name, title=f"{name}: 'quoted' # not a comment") for name in names), incident))
    async with (
        catalog([own], postgres=postgres, embedder=None) as parts,
        serving(parts) as url,
        Wire(url) as wire,
        agent(url, headers=INCIDENT) as client,
    ):

        async def asked(method: str, **params: str) -> dict[str, Any]:
            reply: dict[str, Any] = (await wire.rpc(method, params, headers=INCIDENT)).json()
            return reply

        listing = (await asked("skills/list"))["result"]
        files = {}
        for uri in [file["uri"] for skill in listing["skills"] for file in skill["resources"]]:
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            files[uri] = content
        assert client.server_capabilities is not None
        return Served(
            capabilities=client.server_capabilities,
            listing=listing,
            gotten={each["uri"]: (await asked("skills/get", uri=each["uri"]))["result"] for each in listing["skills"]},
            files=files,
            resources={each.uri: each for each in (await client.list_resources()).resources},
            unknown=await asked("skills/get", uri="skill://nobody-serves-this/SKILL.md"),
        )


def of_every_skill(holds: Callable[[Served, dict[str, Any]], bool]) -> Callable[[Served], bool]:
    return lambda served: len(served.skills) == 5 and all(holds(served, skill) for skill in served.skills)


def of_every_file(holds: Callable[[Served, dict[str, Any], dict[str, Any]], bool]) -> Callable[[Served], bool]:
    return of_every_skill(lambda served, skill: all(holds(served, skill, file) for file in skill["resources"]))


def root(skill: dict[str, Any]) -> str:
    path: str = skill["uri"].removesuffix("/SKILL.md")
    return path


def cached(result: dict[str, Any]) -> bool:
    return (result["ttlMs"] >= 0, result["cacheScope"], result["resultType"]) == (True, "private", "complete")


RULES: dict[str, Callable[[Served], bool]] = {
    "capability-empty-object": lambda served: (served.capabilities.extensions or {})[EXTENSION] == {},
    "capability-requires-resources": lambda served: served.capabilities.resources is not None,
    "skills-list-pagination": lambda served: "nextCursor" not in served.listing,
    "skills-list-entry-atomic": lambda served: max(Counter(each["uri"] for each in served.skills).values()) == 1,
    "skills-list-cache-attributes": lambda served: cached(served.listing),
    "entry-uri-required": of_every_skill(lambda _, skill: skill["uri"].endswith("/SKILL.md")),
    "entry-has-no-other-field": of_every_skill(lambda _, skill: set(skill) == {"uri", "frontmatter", "resources"}),
    "entry-frontmatter-required": of_every_skill(
        lambda _, skill: bool(skill["frontmatter"]["name"]) and 1 <= len(skill["frontmatter"]["description"]) <= 1024
    ),
    "entry-frontmatter-identical": of_every_skill(
        lambda served, skill: served.frontmatter_of(skill["uri"]) == skill["frontmatter"]
    ),
    "entry-uri-matches-frontmatter-name": of_every_skill(
        lambda _, skill: root(skill).rpartition("/")[2] == skill["frontmatter"]["name"]
    ),
    "skill-uri-scheme": of_every_skill(lambda _, skill: skill["uri"].startswith("skill://")),
    "entry-resources-required": of_every_skill(lambda _, skill: isinstance(skill["resources"], list)),
    "resources-complete": of_every_skill(
        lambda _, skill: [file["uri"] for file in skill["resources"]] == [skill["uri"]]
    ),
    "resources-uri-within-skill": of_every_file(lambda _, skill, file: file["uri"].startswith(f"{root(skill)}/")),
    "resources-digest-format": of_every_file(
        lambda _, skill, file: bool(re.fullmatch("sha256:[0-9a-f]{64}", file["digest"]))
    ),
    "resources-digest-matches": of_every_file(
        lambda served, _, file: file["digest"] == f"sha256:{hashlib.sha256(served.bytes_of(file['uri'])).hexdigest()}"
    ),
    "resources-size-required": of_every_file(lambda served, _, file: file["size"] == len(served.bytes_of(file["uri"]))),
    "limit-resources-per-skill": of_every_skill(lambda _, skill: len(skill["resources"]) <= MANY),
    "limit-total-size": of_every_skill(lambda _, skill: sum(file["size"] for file in skill["resources"]) <= MUCH),
    "metadata-reserved-prefix": of_every_skill(
        lambda _, skill: not [key for key in skill["frontmatter"].get("metadata", {}) if "modelcontextprotocol" in key]
    ),
    "name-naming-rules": of_every_skill(lambda _, skill: bool(NAME.fullmatch(skill["frontmatter"]["name"]))),
    "authority-reg-name": of_every_skill(lambda _, skill: bool(REG_NAME.fullmatch(skill["uri"].split("/")[2]))),
    "names-should-be-unique": lambda served: (
        max(Counter(each["frontmatter"]["name"] for each in served.skills).values()) == 1
    ),
    "skills-get-entry-shape": of_every_skill(lambda served, skill: served.gotten[skill["uri"]]["skill"] == skill),
    "skills-get-cache-attributes": of_every_skill(lambda served, skill: cached(served.gotten[skill["uri"]])),
    "skills-get-no-cursor": of_every_skill(lambda served, skill: "nextCursor" not in served.gotten[skill["uri"]]),
    "skills-get-unknown-uri-invalid-params": lambda served: served.unknown["error"]["code"] == -32602,
    "skillmd-mime-type": of_every_skill(lambda served, skill: served.files[skill["uri"]].mime_type == "text/markdown"),
    "skillmd-resource-name-and-description": lambda served: (
        {"name": served.resources[GUIDE.uri].name, "description": served.resources[GUIDE.uri].description}
        == GUIDE.frontmatter
    ),
}


@pytest.mark.parametrize("rule", RULES)
async def test_skills_keep_the_rule(served: Served, rule: str) -> None:
    assert RULES[rule](served)
