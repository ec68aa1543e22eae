"""`formulary export skill`: workflows as Agent Skills on disk, for agents that load skills from directories."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from formulary_catalog.edges.cli.options import DIRECTORY, Suggesting
from formulary_catalog.edges.cli.targets import CatalogTarget, target_options, workflow_ids
from formulary_catalog.errors import InvalidInput, StartupError

if TYPE_CHECKING:
    from formulary_catalog.domain.workflows.skill import Skill
    from formulary_catalog.edges.cli.http_client import Remote


@click.group("export", cls=Suggesting)
def export_command() -> None:
    """Write what the catalog holds in a form that other programs read.

    \b
    Example:
      formulary export skill
    """


@export_command.command("skill")
@click.argument("workflow_ids", metavar="[ID]...", nargs=-1, shell_complete=workflow_ids)
@click.option(
    "--output",
    "directory",
    default=Path("skills"),
    type=DIRECTORY,
    metavar="DIR",
    help="Directory to write to; skills by default.",
)
@target_options
def skill_command(*, workflow_ids: tuple[str, ...], directory: Path, target: CatalogTarget) -> None:
    """Write workflows as Agent Skills, DIR/NAME/SKILL.md each, and the guide that teaches the tools.

    Without ID all that are served, or all that the incident allows. The same skills are served over MCP, where they
    follow the incident of each call; files do not. HolmesGPT reads them from `custom_skill_paths` or `skill_repos`.

    \b
    Examples:
      formulary export skill
      formulary export skill oom-raise-memory-limit --output skills
      formulary export skill --remediation-id rr-2026-0042 --output skills
    """
    skills = target.ask(lambda server: _skills(server, workflow_ids, target=target))
    for name, skill in skills.items():
        file = directory / name / "SKILL.md"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(skill.text, encoding="utf-8")
        except OSError as error:
            raise StartupError(f"{file} cannot be written: {error.strerror}; name another directory") from None
        click.echo(str(file))


async def _skills(server: "Remote", workflow_ids: tuple[str, ...], *, target: CatalogTarget) -> "dict[str, Skill]":
    """The skills by name, the guide first.

    Raises:
        InvalidInput: two workflows would be one file.
    """
    from formulary_catalog.domain.workflows.skill import GUIDE, workflow_skill
    from formulary_catalog.operations.search import DETAILS

    asked, about = {"remediation_id": target.remediation_id}, {"target": target.about}
    wanted = workflow_ids or await _served(server, about, **asked)
    skills = {GUIDE.name: GUIDE}
    for workflow_id in wanted:
        skill = workflow_skill(await server.ask(DETAILS, {"workflow_id": workflow_id, **about}, **asked))
        if skills.get(skill.name, skill).uri != skill.uri:
            raise InvalidInput(
                f"{skills[skill.name].uri} and {skill.uri} would both be {skill.name}/SKILL.md; export them one at a "
                "time, by namespace/name, to different directories",
                field="workflow_ids",
            )
        skills[skill.name] = skill
    return skills


async def _served(server: "Remote", about: Mapping[str, str], *, remediation_id: str) -> tuple[str, ...]:
    from formulary_catalog.operations.workflows import LIST

    listing = await server.whole_list(LIST, about, entries="workflows", remediation_id=remediation_id)
    return tuple(workflow.version_id for workflow in listing.workflows)
