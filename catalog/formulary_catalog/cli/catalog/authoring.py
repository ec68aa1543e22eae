"""`formulary draft`: a workflow to finish, from what people have."""

from pathlib import Path

import click


@click.command("draft")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
def draft_command(*, file: Path) -> None:
    """Draft a workflow from a runbook, a skill, an SSM document or a Rundeck job, and print it.

    Reads Markdown (runbooks, SKILL.md), runbook files of HolmesGPT, documents of AWS Systems Manager with mainSteps and
    Rundeck jobs, in YAML or JSON. Sections and commands become fields and steps, placeholders parameters. The draft is
    suspended: it is not served until you have decided what its comments ask and removed `suspend`.

    \b
    Examples:
      formulary draft runbooks/disk-full.md >workflows/disk-full.yaml
      formulary draft skills/pending-pods/SKILL.md
    """
    from formulary_catalog.loading.authoring.drafting import drafts_of_file

    click.echo(drafts_of_file(file), nl=False)
