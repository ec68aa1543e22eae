"""`formulary invoke`, `invocation`, `approvals`, `approve` and `reject`: ask for a run, follow it, decide on it."""

import json
from datetime import UTC, datetime
from typing import BinaryIO

import click

from formulary_catalog.edges.cli.options import json_option, settings_of
from formulary_catalog.edges.cli.targets import (
    about_option,
    check_remediation_id,
    incident_option,
    url_option,
    workflow_ids,
)
from formulary_catalog.errors import InvalidInput

_MOST_WAITING = 1000
manifest_option = click.option(
    "--manifest", is_flag=True, help="Print the manifest of a dry run alone, as YAML for kubectl."
)


@click.command("invoke")
@click.argument("workflow_id", metavar="ID", shell_complete=workflow_ids)
@click.option("--version", default="", metavar="VERSION", help="Version to use instead of the served one.")
@click.option("--input", "given", multiple=True, metavar="NAME=VALUE", help="Value of a parameter; may be repeated.")
@click.option(
    "--input-file",
    type=click.File("rb"),
    metavar="FILE",
    help="Values as a YAML or JSON object, - for standard input. Use it for secrets: command lines are visible to "
    "others.",
)
@click.option(
    "--timeout-ms",
    type=int,
    metavar="MS",
    help="Timeout of the run. Above 30000 the command does not wait for the end.",
)
@click.option("--idempotency-key", default="", metavar="TEXT", help="Key that makes a repeated request the same run.")
@click.option("--dry-run", is_flag=True, help="Show what would be created, without changing anything.")
@manifest_option
@url_option
@about_option
@incident_option
@json_option
def invoke_command(
    *,
    workflow_id: str,
    version: str,
    given: tuple[str, ...],
    input_file: BinaryIO | None,
    timeout_ms: int | None,
    idempotency_key: str,
    dry_run: bool,
    manifest: bool,
    url: str | None,
    remediation_id: str,
    target: str,
    as_json: bool,
) -> None:
    """Run a workflow, as far as the rules allow.

    ID is name, namespace/name, name@version or wf_ver_…. Waits up to 30 s for the end. Needs a running server.

    \b
    Examples:
      formulary invoke oom-scale-out --input-file values.yaml --input REPLICAS=4 --dry-run
      formulary invoke oom-scale-out --input-file values.yaml --timeout-ms 600000 --remediation-id rr-42
      formulary invoke oom-scale-out --input REPLICAS=4 --dry-run --manifest | kubectl diff -f -
      formulary invoke oom-scale-out --input REPLICAS=4 --target shop/Deployment/checkout
    """
    from formulary_catalog.domain.visible import first_hidden
    from formulary_catalog.domain.workflows.identity import parse_reference
    from formulary_catalog.edges.cli.http_client import ask_for_runs
    from formulary_catalog.edges.cli.run_pages import show_manifest, show_run
    from formulary_catalog.runtime.terminal import Page

    parse_reference(workflow_id, version=version)
    check_remediation_id(remediation_id)
    values = {**(_read(input_file.read()) if input_file is not None else {}), **_pairs(given)}
    if (hidden := first_hidden(values, field="input")) is not None:
        click.echo(f"note: {hidden.field} {hidden.problem}", err=True)
    options = {"timeoutMs": timeout_ms, "idempotencyKey": idempotency_key or None, "dryRun": dry_run or None}
    answer = ask_for_runs(
        url,
        lambda runs: runs.invoke(
            workflow_id,
            values=values,
            version=version,
            options={name: value for name, value in options.items() if value is not None},
            remediation_id=remediation_id,
            about=target,
        ),
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        (show_manifest if manifest else show_run)(answer, page=Page())


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            # Without the value: it may be a secret.
            raise InvalidInput("--input takes NAME=VALUE; give one such as --input REPLICAS=3", field="input")
        values[name] = value
    return values


def _read(content: bytes) -> dict[str, object]:
    import yaml

    try:
        read = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InvalidInput("--input-file is neither YAML nor JSON; correct it", field="input_file") from None
    if not isinstance(read, dict):
        raise InvalidInput("--input-file holds no object of names and values; write one", field="input_file")
    values = {str(name): value for name, value in read.items()}
    _require_json(values)
    return values


def _require_json(values: dict[str, object]) -> None:
    """YAML makes of some plain words what no JSON can say."""
    for name, value in values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InvalidInput(
                f"{name} in --input-file is a date, binary or the like, which a run cannot be given; quote it as text",
                field="input_file",
            ) from None


@click.command("invocation")
@click.argument("invocation_id", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait until the run has ended.")
@manifest_option
@url_option
@json_option
def invocation_command(*, invocation_id: str, wait: bool, manifest: bool, url: str | None, as_json: bool) -> None:
    """Show the state of a run.

    ID is what `formulary invoke` showed. Exit code 1 if the run ended without success.

    \b
    Example:
      formulary invocation inv-0123456789abcdef0123 --wait
    """
    from formulary_catalog.domain.runs.run import require_invocation_id
    from formulary_catalog.edges.cli.http_client import ask_for_runs, is_over
    from formulary_catalog.edges.cli.run_pages import show_manifest, show_progress, show_run
    from formulary_catalog.runtime.terminal import Page

    require_invocation_id(invocation_id)
    answer = ask_for_runs(
        url,
        lambda runs: runs.until_over(invocation_id, show=show_progress) if wait else runs.status(invocation_id),
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        (show_manifest if manifest else show_run)(answer, page=Page())
    if is_over(answer) and answer.state != "completed":
        raise SystemExit(1)


@click.command("approvals")
@click.option("--namespace", default="", metavar="NAME", help="Only runs in this namespace.")
@click.option(
    "--limit",
    type=click.IntRange(1, _MOST_WAITING),
    default=_MOST_WAITING,
    metavar="N",
    help=f"Maximum number of results; {_MOST_WAITING} by default.",
)
@url_option
@json_option
def approvals_command(*, namespace: str, limit: int, url: str | None, as_json: bool) -> None:
    """List runs that wait for a person, the oldest first.

    Lists the runs that the owner of FORMULARY_TOKEN may read. Needs a running server. Exit code 1 if none waits.

    \b
    Examples:
      formulary approvals
      formulary approvals --namespace shop --url https://formulary.example --json
    """
    from formulary_catalog.edges.cli.http_client import ask_for_runs
    from formulary_catalog.edges.cli.run_pages import show_waiting
    from formulary_catalog.runtime.terminal import Page

    answer = ask_for_runs(url, lambda runs: runs.waiting(namespace=namespace, limit=limit))
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_waiting(answer, now=datetime.now(UTC), page=Page(), console_url=settings_of().console_url)
    if not answer.approvals:
        raise SystemExit(1)


@click.command("approve")
@click.argument("invocation_id", metavar="ID")
@click.option("--reject", is_flag=True, help="Reject the run.")
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the audit trail.")
@click.option(
    "--digest", default="", metavar="DIGEST", help="Approve only this content; `formulary invocation` shows its digest."
)
@url_option
@json_option
def approve_command(
    *, invocation_id: str, reject: bool, reason: str, digest: str, url: str | None, as_json: bool
) -> None:
    """Approve a run that waits for it, or reject it.

    ID is what `formulary invoke` showed. The approver is the owner of FORMULARY_TOKEN, who needs the right to create
    invocationapprovals in the namespace of the run.

    \b
    Examples:
      formulary approve inv-0123456789abcdef0123 --reason "checked with the team"
      formulary approve inv-0123456789abcdef0123 --reject --reason "sale is running"
    """
    _decide(invocation_id, "Reject" if reject else "Approve", reason=reason, digest=digest, url=url, as_json=as_json)


@click.command("reject")
@click.argument("invocation_id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Reason, recorded in the audit trail.")
@url_option
@json_option
def reject_command(*, invocation_id: str, reason: str, url: str | None, as_json: bool) -> None:
    """Reject a run that waits, as `formulary approve --reject`.

    \b
    Example:
      formulary reject inv-0123456789abcdef0123 --reason "sale is running"
    """
    _decide(invocation_id, "Reject", reason=reason, digest="", url=url, as_json=as_json)


def _decide(invocation_id: str, decision: str, *, reason: str, digest: str, url: str | None, as_json: bool) -> None:
    from formulary_catalog.domain.runs.run import require_invocation_id
    from formulary_catalog.edges.cli.http_client import ask_for_runs
    from formulary_catalog.edges.cli.run_pages import show_run
    from formulary_catalog.runtime.terminal import Page

    require_invocation_id(invocation_id)
    answer = ask_for_runs(
        url, lambda runs: runs.approve(invocation_id, decision=decision, reason=reason, digest=digest)
    )
    if as_json:
        click.echo(answer.model_dump_json())
    else:
        show_run(answer, page=Page())
