"""`formulary governance contracts`: the contracts in force."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from formulary_catalog.cli.options import data_dir_option, database_option, json_option, settings_of

if TYPE_CHECKING:
    from formulary_catalog.domain.governance.contract import Contract
    from formulary_catalog.settings import Settings


@click.command("contracts")
@database_option
@data_dir_option
@json_option
def command(*, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """The contracts in force, with their rules.

    \b
    Examples:
      formulary governance contracts
      formulary governance contracts --json --database-url postgresql://owner@db/formulary
    """
    contracts = asyncio.run(_contracts(settings_of(database_url=database_url, data_dir=data_dir)))
    if as_json:
        click.echo(json.dumps({"contracts": [_as_json(contract) for contract in contracts]}, ensure_ascii=False))
    else:
        _show(contracts)


async def _contracts(settings: "Settings") -> "list[Contract]":
    from formulary_catalog.cli.databases import existing_database
    from formulary_catalog.store.contracts import ContractWriter
    from formulary_catalog.store.database import Database, Role

    async with (
        existing_database(settings) as dsn,
        Database.opened(dsn, role=Role.WRITER, size=1) as database,
    ):
        return await ContractWriter(database, shared_namespace=settings.catalog_namespace).in_force()


def _as_json(contract: "Contract") -> dict[str, Any]:
    from formulary_catalog.domain.visible import all_visible

    return {
        "namespace": contract.namespace,
        "name": contract.name,
        "scope": contract.scope,
        "rules": all_visible(
            [rule.model_dump(mode="json", by_alias=True, exclude_defaults=True) for rule in contract.rules]
        ),
    }


def _show(contracts: "list[Contract]") -> None:
    from formulary_catalog.cli.terminal import Page
    from formulary_catalog.domain.text import one_line

    page = Page()
    rows = [
        (str(contract), rule.id, rule.effect.value, one_line(rule.rationale))
        for contract in contracts
        for rule in contract.rules
    ]
    if rows:
        page.table(("CONTRACT", "RULE", "EFFECT", "WHY"), rows)
    else:
        page.line("no contract is in force: low-risk runs outside production go ahead, all others wait for a person")
