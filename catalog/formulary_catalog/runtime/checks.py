"""What `formulary doctor` looks at: each check says what it found and, where that is not good, the way out."""

import asyncio
import platform
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2

from formulary_catalog.domain.text import without_userinfo
from formulary_catalog.domain.workflows.labels import wire_name
from formulary_catalog.embedding.endpoint import is_remote
from formulary_catalog.errors import FormularyError
from formulary_catalog.loading.targets import OFF, read_context_mapping
from formulary_catalog.runtime import databases
from formulary_catalog.runtime.listening import DATABASE_HEADER, is_loopback
from formulary_catalog.runtime.model_watch import load_model
from formulary_catalog.runtime.terminal import counted
from formulary_catalog.settings import Settings
from formulary_catalog.store.audit.publishing import place_of
from formulary_catalog.store.audit.reader import TraceReader
from formulary_catalog.store.database.migrate import HEAD, describe, works_with
from formulary_catalog.store.embedded.server import default_data_dir
from formulary_catalog.store.health import DatabaseHealth, RefusedSweep, health

_MIN_PYTHON = (3, 11)
_MIN_PGVECTOR = (0, 8)
_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One finding. `way_out` is empty where all is well."""

    name: str
    detail: str
    way_out: str = ""

    @property
    def ok(self) -> bool:
        return not self.way_out


async def checks(settings: Settings, *, url: str) -> list[Check]:
    """All findings, those about what everything else needs first. Never raises for what it finds."""
    model_id, model = await asyncio.to_thread(_model, settings)
    found = [_python(), *model, _targets(settings), _place(settings)]
    database_id = ""
    try:
        async with databases.existing_database(settings) as dsn:
            state = await health(dsn)
            database_id = state.id
            found += _database(state, model_id=model_id)
            if works_with(state.revision):
                if databases.has_analytics(settings):
                    found.append(_analytics(state))
                found.append(await _trail(settings, dsn=dsn))
    except FormularyError as error:
        found.append(Check(name="database", detail="not available", way_out=str(error)))
    found.append(await _server(url, database_id=database_id))
    return found


def _python() -> Check:
    recent = tuple(int(part) for part in platform.python_version_tuple()[:2]) >= _MIN_PYTHON
    way_out = "" if recent else "install Python 3.11 or newer"
    return Check(name="python", detail=platform.python_version(), way_out=way_out)


def _model(settings: Settings) -> tuple[str, list[Check]]:
    """The id of the model, empty if it does not load, and what there is to say about it."""
    try:
        model_id = load_model(settings.embedding_model, settings=settings).model_id
    except FormularyError as error:
        detail = "not usable: searches would rank by words alone"
        return "", [Check(name="model", detail=detail, way_out=str(error))]
    by = "at an endpoint" if is_remote(settings.embedding_model) else f"run by {settings.embedding_backend}"
    return model_id, [Check(name="model", detail=f"{model_id}, {by}")]


def _targets(settings: Settings) -> Check:
    """How targets are read, and which labels of them are constraints."""
    try:
        mapping = read_context_mapping(settings.context_file)
    except FormularyError as error:
        return Check(name="targets", detail="their labels cannot be mapped", way_out=str(error))
    read = "of manifests" if settings.context_target == OFF else f"by {settings.context_target}"
    labels = "; ".join(f"{wire_name(name)} from {', '.join(each.labels)}" for name, each in mapping.dimensions.items())
    custom = ", ".join([f"{mapping.custom_labels.prefix}…", *mapping.custom_labels.named])
    return Check(name="targets", detail=f"read {read}; {labels}; custom labels {custom}")


def _place(settings: Settings) -> Check:
    if settings.database_url:
        return Check(name="data", detail=describe(settings.database_url))
    data_dir = settings.data_dir or default_data_dir()
    way_out = "" if data_dir.exists() else "it is made by `formulary up`"
    return Check(
        name="data", detail=f"directory {data_dir}" + (" is not there yet" if way_out else ""), way_out=way_out
    )


def _database(state: DatabaseHealth, *, model_id: str) -> Iterator[Check]:
    old = tuple(int(part) for part in state.pgvector.split(".")[:2] if part.isdigit()) < _MIN_PGVECTOR
    if not state.revision:
        way_out = "run `formulary migrate`, which makes it or says what is in the way"
        yield Check(name="schema", detail=f"none in PostgreSQL {state.postgres}", way_out=way_out)
        return
    way_out = "install pgvector 0.8 or newer and run `alter extension vector update`" if old else ""
    yield Check(name="postgresql", detail=f"{state.postgres}, pgvector {state.pgvector or 'missing'}", way_out=way_out)
    if not works_with(state.revision):
        yield Check(name="schema", detail=state.revision or "none", way_out=f"run `formulary migrate` to get to {HEAD}")
        return
    yield Check(name="schema", detail=f"revision {state.revision}")
    yield _row_security(state)
    yield Check(name="catalog", detail=_contents(state))
    yield _runs(state)
    yield _vectors(state, model_id=state.serving or model_id)
    if model_id and state.serving not in ("", model_id):
        yield Check(
            name="model in use",
            detail=f"{state.serving}, not that of the settings: searches rank by words alone",
            way_out="change the catalog with `formulary reembed`, or the setting FORMULARY_EMBEDDING_MODEL",
        )
    yield from map(_refused_sweep, state.refused_sweeps)


def _row_security(state: DatabaseHealth) -> Check:
    problems = [f"not forced on {table}" for table in state.exposed]
    problems += [f"the server's role {privilege}" for privilege in state.privileges]
    way_out = (
        "somebody changed what migrations set up: take owners, roles and memberships back, or migrate a new database"
    )
    return Check(
        name="row security",
        detail="; ".join(problems) or "forced, and the server's role cannot get round it",
        way_out=way_out if problems else "",
    )


def _analytics(state: DatabaseHealth) -> Check:
    detail = "SQL of callers is not bounded" if state.analytics else "sessions and log of its role are bounded"
    return Check(name="analytics", detail=detail, way_out="; ".join(state.analytics))


async def _trail(settings: Settings, *, dsn: str) -> Check:
    """A short look; `formulary trace verify` reads all of it."""
    try:
        place = place_of(settings.audit_published)
        published = await place.read() if place is not None else ()
        async with TraceReader.open(dsn, to_verify=True) as reader:
            findings = await reader.doubts(published=published)
    except FormularyError as error:
        return Check(name="trail", detail="not looked at", way_out=str(error))
    if findings:
        detail = "; ".join(" ".join(part for part in (each.place, each.message) if part) for each in findings)
        way_out = "run `formulary trace verify`, and read docs/runbooks/FormularyTraceBroken.md"
        return Check(name="trail", detail=detail, way_out=way_out)
    compared = (
        "compared with what was published of it"
        if published
        else "nothing was published of it, so nothing proves its tail complete"
    )
    return Check(name="trail", detail=f"protected as the migrations define it; {compared}")


def _runs(state: DatabaseHealth) -> Check:
    return Check(
        name="runs",
        detail="; ".join(map(str, state.halts)) or "not halted",
        way_out="; ".join(halt.way_out for halt in state.halts),
    )


def _contents(state: DatabaseHealth) -> str:
    return f"{counted(state.workflows, 'workflow')}, {counted(state.contexts, 'context')}"


def _vectors(state: DatabaseHealth, *, model_id: str) -> Check:
    present = state.vectors.get(model_id, 0)
    missing = state.workflows - present
    return Check(
        name="vectors",
        detail=f"{present} of {state.workflows} workflows by {model_id or 'the model'}",
        way_out="the operator embeds them at its next resync, `formulary up` when it loads the manifests again"
        if missing
        else "",
    )


def _refused_sweep(sweep: RefusedSweep) -> Check:
    return Check(
        name="sweep",
        detail=f"refused: {sweep.missing} of {sweep.served} served workflows are missing from the cluster",
        way_out="if they were really deleted, run "
        f"`formulary-operator sweep --allow {sweep.id}`; else see docs/runbooks/FormularySweepRefused.md",
    )


async def _server(url: str, *, database_id: str) -> Check:
    """`database_id` is that of the database above, empty if it could not be asked."""
    shown = without_userinfo(url)
    start = "start one with `formulary up`, or name another with --url"
    try:
        trust_env = not is_loopback(httpx2.URL(url).host)
        async with httpx2.AsyncClient(timeout=_SECONDS, trust_env=trust_env) as client:
            response = await client.get(f"{url.rstrip('/')}/readyz")
        answer = response.json()
        state, mode, why = str(answer["status"]), str(answer["mode"]), str(answer.get("detail") or "")
        theirs = response.headers.get(DATABASE_HEADER, "")
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return Check(name="server", detail=f"none at {shown}", way_out=start)
    except (ValueError, LookupError, TypeError):
        return Check(name="server", detail=f"what listens at {shown} is not Formulary", way_out=start)
    if database_id and theirs and theirs != database_id:
        way_out = "name its database with --database-url or --data-dir, or the server of this one with --url"
        return Check(
            name="server", detail=f"{state} at {shown}, but of another database than this one", way_out=way_out
        )
    way_out = "" if state == "ready" else why or f"look at {shown.rstrip('/')}/readyz and at the server's log"
    return Check(name="server", detail=f"{state} at {shown}, mode {mode}", way_out=way_out)
