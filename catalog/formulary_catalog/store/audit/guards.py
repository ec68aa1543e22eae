"""What the migrations put around the trail, compared with what is there: functions of the schema, and triggers.

The owner of the database can replace the function that appends, or switch a trigger off. What should be there is not
kept in the database: it is read from the migrations themselves.
"""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from formulary_catalog.domain.audit.chain import IntegrityFinding, Problem
from formulary_catalog.store.database.migrate import HEAD, migration_scripts
from formulary_catalog.store.database.owner import OwnerConnection

_FUNCTION = re.compile(
    r"create (?:or replace )?function formulary\.(?P<name>\w+)\s*\((?P<arguments>[^)]*)\)"
    r"(?P<rest>.*?)\bas\s*\$\$(?P<source>.*?)\$\$",
    re.DOTALL,
)
_DROPPED = re.compile(r"drop function (?:if exists )?formulary\.(?P<name>\w+)\s*\((?P<arguments>[^)]*)\)")
_TRIGGER = re.compile(
    r"create trigger (?P<name>\w+)\s.*?\bon formulary\.(?P<table>\w+)\s.*?"
    r"execute function formulary\.(?P<function>\w+)",
    re.DOTALL,
)
_TABLES = ("trace_event", "trace_head", "trace_checkpoint", "trace_hold", "sealed_constraints")
_FUNCTIONS_THERE = """
select p.proname as name, p.pronargs as arguments, p.prosrc as source, p.prosecdef as definer,
       coalesce(array_to_string(p.proconfig, ' '), '') as settings
from pg_proc p
where p.pronamespace = 'formulary'::regnamespace
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
order by p.proname
"""
_TRIGGERS_THERE = """
select c.relname as table, t.tgname as name, f.proname as function, t.tgenabled = 'O' as enabled,
       exists (select from pg_inherits i where i.inhrelid = c.oid) as partition
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc f on f.oid = t.tgfoid
where c.relnamespace = 'formulary'::regnamespace and not t.tgisinternal
  and (c.relname = any ($1) or exists (
        select from pg_inherits i where i.inhrelid = c.oid and i.inhparent = 'formulary.trace_event'::regclass))
order by c.relname, t.tgname
"""
_OPEN_TO_ROLES = """
select c.relname as table, r.rolname as role
from pg_class c cross join pg_roles r
where c.relnamespace = 'formulary'::regnamespace and (c.relname = any ($1) or c.relname like 'trace\\_event\\_2%')
  and c.relkind in ('r', 'p') and r.rolname in ('formulary_server', 'formulary_writer')
  and has_table_privilege(r.rolname, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
order by 1, 2
"""


_Key = tuple[str, int]
"""A function: its name, and how many arguments it takes."""


@dataclass(frozen=True, slots=True)
class _Function:
    """What decides about what a function does."""

    source: str
    definer: bool
    settings: str


async def guard_findings(connection: OwnerConnection) -> list[IntegrityFinding]:
    """What is not as the migrations made it. Nothing where a newer release has migrated: it defines other things."""
    revision = await connection.fetchval("select max(version_num) from formulary.alembic_version")
    if revision != HEAD:
        return []
    return [*await _of_functions(connection), *await _of_triggers(connection), *await _of_rights(connection)]


async def _of_functions(connection: OwnerConnection) -> list[IntegrityFinding]:
    wanted, there = _functions(), set[_Key]()
    findings: list[IntegrityFinding] = []
    for row in await connection.fetch(_FUNCTIONS_THERE):
        key = (row["name"], row["arguments"])
        found = _Function(row["source"], row["definer"], _spaceless(row["settings"]))
        if key not in wanted or key in there:
            findings.append(_changed(key, "is none that the migrations define"))
        elif found != wanted[key]:
            findings.append(_changed(key, "is not as the migrations define it"))
        there.add(key)
    return [*findings, *(_changed(key, "is gone") for key in sorted(wanted.keys() - there))]


async def _of_triggers(connection: OwnerConnection) -> list[IntegrityFinding]:
    wanted, there = _triggers(), set[tuple[str, str]]()
    findings: list[IntegrityFinding] = []
    for row in await connection.fetch(_TRIGGERS_THERE, list(_TABLES)):
        place = (row["table"], row["name"])
        # Partitions have the triggers of the table, and one that `create_trace_month` makes.
        meant = wanted.get(("trace_event" if row["partition"] else row["table"], row["name"]))
        if meant != row["function"]:
            findings.append(_on(*place, "is not as the migrations define it"))
        elif not row["enabled"]:
            findings.append(_on(*place, "is switched off"))
        there.add(place)
    partitions = await connection.fetch(
        "select inhrelid::regclass::text as name from pg_inherits where inhparent = 'formulary.trace_event'::regclass"
    )
    names = [row["name"].removeprefix("formulary.") for row in partitions]
    everywhere = [*wanted, *((name, trigger) for name in names for table, trigger in wanted if table == "trace_event")]
    return [*findings, *(_on(*place, "is gone") for place in everywhere if place not in there)]


async def _of_rights(connection: OwnerConnection) -> list[IntegrityFinding]:
    rows = await connection.fetch(_OPEN_TO_ROLES, list(_TABLES))
    return [
        _finding(Problem.TRIGGER_CHANGED, f"{row['role']} may write into {row['table']} past the functions")
        for row in rows
    ]


@cache
def _sql() -> str:
    """All that the migrations execute, in their order."""
    from alembic.operations import Operations  # slow to import, and only needed here
    from alembic.runtime.migration import MigrationContext
    from sqlalchemy.dialects import postgresql

    text = io.StringIO()
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]  # SQLAlchemy's own is untyped
    context = MigrationContext.configure(dialect=dialect, opts={"as_sql": True, "output_buffer": text})
    with Operations.context(context):
        for script in migration_scripts():
            script.module.upgrade()
    return text.getvalue()


def _functions() -> Mapping[_Key, _Function]:
    """The functions that the migrations define; of one that was replaced, the last."""
    found: dict[_Key, _Function] = {}
    for statement in _statements():
        if (dropped := _DROPPED.match(statement)) is not None:
            found.pop(_key(dropped), None)
        elif (made := _FUNCTION.match(statement)) is not None:
            found[_key(made)] = _Function(
                made["source"], "security definer" in made["rest"], _spaceless(_settings(made["rest"]))
            )
    return found


def _triggers() -> Mapping[tuple[str, str], str]:
    """The functions of the triggers on the tables of the trail, by table and name."""
    made = (_TRIGGER.match(statement) for statement in _statements())
    return {(each["table"], each["name"]): each["function"] for each in made if each and each["table"] in _TABLES}


def _statements() -> Iterator[str]:
    starts = [match.start() for match in re.finditer(r"^\s*(?:create|drop) ", _sql(), re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(_sql())], strict=True):
        yield _sql()[start:end].lstrip()


def _key(statement: re.Match[str]) -> _Key:
    given = [each for each in statement["arguments"].split(",") if each.strip() and not each.strip().startswith("out ")]
    return statement["name"], len(given)


def _settings(header: str) -> str:
    match = re.search(r"\bset (\w+) = ([\w, ]+?)\s*$", header.rstrip().removesuffix("as"))
    return f"{match[1]}={match[2]}" if match else ""


def _spaceless(text: str) -> str:
    return "".join(text.split())


def _changed(key: _Key, what: str) -> IntegrityFinding:
    return _finding(Problem.FUNCTION_CHANGED, f"function {key[0]} with {key[1]} arguments {what}")


def _on(table: str, name: str, what: str) -> IntegrityFinding:
    return _finding(Problem.TRIGGER_CHANGED, f"trigger {name} on {table} {what}")


def _finding(problem: Problem, message: str) -> IntegrityFinding:
    return IntegrityFinding(problem=problem, message=message)
