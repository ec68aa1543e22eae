"""`formulary governance`: the rules in force, contracts that are tried, and the judgement that the tools give."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.edges.cli.options import Suggesting, data_dir_option, database_option, json_option
from formulary_catalog.edges.cli.sources import database_settings, take_source
from formulary_catalog.edges.cli.targets import CatalogTarget, catalog_options, opened_in_process, show, url_option
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from formulary_catalog.domain.entry import ContractEntry
    from formulary_catalog.domain.reading import ContractList
    from formulary_catalog.runtime.terminal import Page
    from formulary_catalog.services.governance.answers import EnforceAnswer, GateAnswer, VerdictAnswer
    from formulary_catalog.settings import Settings

    Judgement = tuple[GateAnswer, EnforceAnswer | None, VerdictAnswer]

_NAMESPACE = "formulary"


@click.command("contracts")
@catalog_options
@json_option
def contracts_command(*, target: CatalogTarget, as_json: bool) -> None:
    """List the contracts in force, with their rules.

    A server lists those that the owner of FORMULARY_TOKEN may read; a database that is named lists all.

    \b
    Examples:
      formulary governance contracts
      formulary governance contracts --url https://formulary.example
      formulary governance contracts --json --database-url postgresql://owner@db/formulary
    """
    from formulary_catalog.operations.governance import CONTRACTS

    answer = target.ask(lambda server: server.whole_list(CONTRACTS, {}, entries="contracts"))
    show(answer, _show, as_json=as_json)


def _show(answer: "ContractList", page: "Page") -> None:
    from formulary_catalog.domain.text import one_line

    rows = [
        (each.contract, rule["id"], rule["effect"], one_line(rule.get("rationale", "")))
        for each in answer.contracts
        for rule in each.rules
    ]
    if rows:
        page.table(("CONTRACT", "RULE", "EFFECT", "WHY"), rows)
    else:
        page.line("no contract is in force: low-risk runs outside production go ahead, all others wait for a person")
    page.notes(answer.notes)


@click.command("evaluate")
@click.option("--task", required=True, metavar="TEXT", help="What is to be done.")
@click.option(
    "--action",
    "proposed_actions",
    multiple=True,
    metavar="TEXT|JSON",
    help="An action: its type, or a JSON object with action_type, tool, resource and path_prefix. Repeatable.",
)
@click.option(
    "--contract",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A GovernanceContract manifest whose rules the actions must keep.",
)
@click.option(
    "--context", "context", multiple=True, metavar="KEY=VALUE", help="What is known, such as environment=production."
)
@click.option("--remediation-id", default="", metavar="ID", help="Judge on behalf of this incident.")
@database_option
@data_dir_option
@json_option
def evaluate_command(
    *,
    task: str,
    proposed_actions: tuple[str, ...],
    contract: Path | None,
    context: tuple[str, ...],
    remediation_id: str,
    database_url: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Judge actions of any kind: the gate, the rules of a contract, and the verdict of both.

    The same as the tools governance_gate, governance_enforce and governance_verdict, in one trace. Does nothing itself.
    Exit code 1 for the verdict BLOCK.

    \b
    Examples:
      formulary governance evaluate --task "free memory" --action "kubectl rollout restart deployment/web"
      formulary governance evaluate --task "clean up" --context environment=production --contract rules.yaml \\
        --action '{"action_type": "delete", "path_prefix": "/workflows/shop/cleanup"}' --json
    """
    from formulary_catalog.edges.cli.targets import check_remediation_id

    check_remediation_id(remediation_id)
    settings = database_settings(database_url=database_url, data_dir=data_dir)
    given: dict[str, Any] = {
        "task": task,
        "actions": [_action(text) for text in proposed_actions],
        "context": dict(_pair(text) for text in context),
        "contract": dict(_contract_in(contract)[1].spec) if contract is not None else None,
        "remediation_id": remediation_id,
    }
    gate, enforced, verdict = asyncio.run(_judge(settings, **given))
    if as_json:
        said = gate.model_dump(mode="json")
        said |= enforced.model_dump(mode="json") if enforced is not None else {}
        click.echo(json.dumps(said | verdict.model_dump(mode="json"), ensure_ascii=False))
    else:
        from formulary_catalog.runtime.terminal import plain

        click.echo(plain(verdict.verdict_md), nl=False)
        click.echo(f"\nrecorded in trace {verdict.trace_id} of {take_source()}")
    if verdict.verdict.final_decision == "BLOCK":
        raise SystemExit(1)


async def _judge(
    settings: "Settings",
    *,
    task: str,
    actions: list[Any],
    context: dict[str, str],
    contract: dict[str, Any] | None,
    remediation_id: str,
) -> "Judgement":
    from formulary_catalog.operations.governance import ENFORCE, GATE, VERDICT

    on_behalf: dict[str, Any] = {"remediation_id": remediation_id}
    async with opened_in_process(settings) as server:
        gate = await server.ask(GATE, {"task": task, "context": context, "proposed_actions": actions}, **on_behalf)
        given = {"trace_id": gate.trace_id, "gate_report": gate.gate_report.as_json()}
        enforced = None
        if contract:
            checked = {"trace_id": gate.trace_id, "contract": contract, "actions": actions}
            enforced = await server.ask(ENFORCE, checked, **on_behalf)
            given["enforce_result"] = enforced.enforce_result.as_json()
        return gate, enforced, await server.ask(VERDICT, given, **on_behalf)


def _contract_in(path: Path, *, namespace: str = _NAMESPACE) -> "tuple[str, ContractEntry]":
    """The text of a file, and the one contract in it.

    Raises:
        InvalidInput: it cannot be read, is broken, or holds none or several.
    """
    from formulary_catalog.loading.documents import Rejection, read_text
    from formulary_catalog.loading.manifests import given_contract

    text = read_text(path, name=str(path))
    if isinstance(text, Rejection):
        raise InvalidInput(text.message, field="contract")
    return text, given_contract(text, name=str(path), default_namespace=namespace)


def _action(text: str) -> Any:
    """An action as the tools take it."""
    if not text.lstrip().startswith("{"):
        return {"action_type": text}
    try:
        action = json.loads(text)
        json.dumps(action, allow_nan=False)
    except ValueError as error:
        raise InvalidInput(f"--action is no JSON: {error}; quote it for the shell", field="action") from None
    return action


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise InvalidInput(f"--context {text!r} is not KEY=VALUE; write environment=production", field="context")
    return key, value


@click.command("rehearse")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--since",
    default="30d",
    metavar="TIME",
    help="Try it on decisions since this time: an age or a date. Default: 30d.",
)
@click.option("--namespace", default="", metavar="NAME", help="Namespace of a manifest that names none.")
@click.option(
    "--limit",
    type=click.IntRange(1, 500),
    default=100,
    metavar="N",
    help="Maximum number of runs to list. Default: 100.",
)
@url_option
@json_option
def rehearse_command(*, file: Path, since: str, namespace: str, limit: int, url: str | None, as_json: bool) -> None:
    """Try a contract before it is applied: which recorded decisions it would have changed.

    Replays past decisions with this contract instead of the current one of the same name. Changes nothing. Newly
    allowed runs come first. Needs a running server, and counts the runs that the owner of FORMULARY_TOKEN may read.
    Exit code 1 if any decision would have been different.

    \b
    Examples:
      formulary governance rehearse rules.yaml
      formulary governance rehearse rules.yaml --since 7d --url https://formulary.example --json
    """
    from formulary_catalog.domain.governance.answers import RehearsalAnswer
    from formulary_catalog.edges.cli.governance.rehearsal_page import show_rehearsal
    from formulary_catalog.edges.cli.http_client import ask_server
    from formulary_catalog.loading.manifests import MAX_CHARACTERS

    text, _ = _contract_in(file, namespace=namespace or _NAMESPACE)
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(
            f"{file} has {len(text)} characters, and a server takes {MAX_CHARACTERS}; split the contract",
            field="manifest",
        )
    body = {"manifest": text, "namespace": namespace, "since": since, "limit": limit}
    answer = ask_server(url, lambda server: server.answer(RehearsalAnswer, "POST", "/contracts/rehearse", json=body))
    show(answer, show_rehearsal, as_json=as_json)
    if answer.changes:
        raise SystemExit(1)


@click.group("governance", cls=Suggesting)
def governance_command() -> None:
    """Judge actions, list the contracts in force, and try one before it is applied.

    `evaluate` works on the database itself, without --database-url on that of `formulary up`; `rehearse` asks a
    running server; `contracts` does either.

    \b
    Examples:
      formulary governance contracts
      formulary governance rehearse rules.yaml --since 30d
      formulary governance evaluate --task "restart the shop" --action "kubectl delete pod web-0"
    """


governance_command.add_command(evaluate_command)
governance_command.add_command(contracts_command)
governance_command.add_command(rehearse_command)
