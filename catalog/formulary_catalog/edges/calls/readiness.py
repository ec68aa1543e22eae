"""Whether this process can answer, and how well (DESIGN section 12)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from formulary_catalog.domain.answers.catalog import SearchMode
from formulary_catalog.errors import FormularyError, NotMigrated, PrivilegedLogin, Unavailable

if TYPE_CHECKING:
    from formulary_catalog.operations.services import Services
    from formulary_catalog.services.governance.halts import Halts
    from formulary_catalog.store.database.connection import Database

_DATABASE_SECONDS = 0.8
_DETAIL_SECONDS = 0.15
_RETRY_SECONDS = 2.0


class ReadinessState(StrEnum):
    """Ready and degraded take calls; starting and broken do not."""

    STARTING = "starting"
    READY = "ready"
    DEGRADED = "degraded"
    BROKEN = "broken"


class ReadinessReport(BaseModel):
    """The body of `/readyz`."""

    status: ReadinessState
    database: str = Field(description="ok or unavailable")
    catalog: str = Field(description="loaded or loading")
    model: str = Field(description="the embedding model in use, or unavailable")
    mode: str = Field(description="current ranking mode: hybrid or lexical; each answer has its own")
    callers: str | None = Field(
        default=None,
        description="ok or unchecked: whether callers could be authenticated so far; absent without authentication",
    )
    halted: str | None = Field(
        default=None, description="everywhere, while a halt keeps all runs from beginning; searches go on"
    )
    detail: str | None = Field(
        default=None,
        description="why the database or the embedding model cannot be used, or was not when workflows were loaded",
    )

    @property
    def takes_calls(self) -> bool:
        return self.status in (ReadinessState.READY, ReadinessState.DEGRADED)


class Readiness:
    """What `/readyz` reports. Whoever loads the catalog says when the first load is done.

    `callers_checked` is None where nobody is asked who calls. `database_problem` says why the database has not been
    usable since the start; it is empty from when it is. `unembedded` tells how many workflows have no vector because
    the model failed when they were loaded, and why; empty where that is none. `callers_again_seconds` are between two
    attempts to check callers.
    """

    def __init__(
        self,
        *,
        catalog_loaded: bool = True,
        callers_checked: bool | None = None,
        database_problem: str = "",
        unembedded: Callable[[], str] = str,
        callers_again_seconds: float = 1.0,
    ) -> None:
        self.catalog_loaded = catalog_loaded
        self.callers_checked = callers_checked
        self.database_problem = database_problem
        self._unembedded = unembedded
        self._callers_again_seconds = callers_again_seconds
        self._asking: asyncio.Task[bool] | None = None
        self._refused = False
        self._database_id: str | None = None

    def require_loaded(self) -> None:
        """Keep calls away from a catalog that is half loaded.

        Raises:
            Unavailable: the first load is not done, or cannot begin.
        """
        if self.database_problem:
            raise Unavailable("the database cannot be used yet; retry in a few seconds")
        if not self.catalog_loaded:
            raise Unavailable("the catalog is still loading; retry in a few seconds")

    async def until_database_is_usable(self, check: Callable[[], Awaitable[None]]) -> None:
        """Repeat `check` until it passes, as long as waiting may help; each new reason to wait is logged.

        A login with too many rights is waited for as well, so that `/readyz` says what to do.

        Raises:
            StartupError: what `check` raised, if waiting does not cure it.
        """
        while True:
            try:
                await check()
            except (Unavailable, NotMigrated, PrivilegedLogin) as error:
                self._refused = isinstance(error, PrivilegedLogin)
                if str(error) != self.database_problem:
                    self.database_problem = str(error)
                    import structlog  # slow, and `stdio` answers `initialize` without it

                    log = structlog.get_logger(__name__)
                    log.warning("waiting_for_database", reason=self.database_problem)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self.database_problem, self._refused = "", False
                return

    async def until_callers_are_checked(self, check: Callable[[], Awaitable[None]]) -> None:
        """Repeat `check` until it raises no `Unavailable`.

        After the first success, a failure no longer makes the process unready: callers who are known are answered, and
        the others are asked to retry.
        """
        while not self.callers_checked:
            try:
                await check()
            except Unavailable:
                await asyncio.sleep(self._callers_again_seconds)
            else:
                self.callers_checked = True

    async def report(self, services: "Services") -> ReadinessReport:
        """The state now; asks the database and waits less than a second for it."""
        parts, vectors = services.parts, services.parts.vectors
        reachable = not self.database_problem and await self._database_answers(parts.database)
        embedder, unembedded = vectors.embedder, self._unembedded()
        return ReadinessReport(
            status=self._status(reachable=reachable, embedding=vectors.works and not unembedded),
            database="ok" if reachable else "unavailable",
            catalog="loaded" if self.catalog_loaded else "loading",
            model=embedder.model_id if embedder is not None else "unavailable",
            mode=SearchMode.HYBRID if vectors.works else SearchMode.LEXICAL,
            callers=None if self.callers_checked is None else "ok" if self.callers_checked else "unchecked",
            halted="everywhere" if reachable and await _halted_everywhere(services.halts) else None,
            detail=self.database_problem or vectors.problem or unembedded or None,
        )

    async def _database_answers(self, database: "Database") -> bool:
        """Asked once for all probes that come meanwhile: each question is a connection of its own."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(_database_answers(database))
        return await asyncio.shield(self._asking)

    async def id_of(self, database: "Database") -> str | None:
        """The same for all servers of one database, and opaque; None while it is not known.

        Asked once: a process keeps its database.
        """
        if self._database_id is None:
            with suppress(FormularyError, TimeoutError):  # the next probe asks again
                async with asyncio.timeout(_DETAIL_SECONDS):
                    self._database_id = await database.id()
        return self._database_id

    def _status(self, *, reachable: bool, embedding: bool) -> ReadinessState:
        if self._refused:
            return ReadinessState.BROKEN
        if self.database_problem:
            return ReadinessState.STARTING
        if not reachable:
            return ReadinessState.BROKEN
        if not self.catalog_loaded or self.callers_checked is False:
            return ReadinessState.STARTING
        return ReadinessState.READY if embedding else ReadinessState.DEGRADED


async def _halted_everywhere(halts: "Halts") -> bool:
    try:
        async with asyncio.timeout(_DETAIL_SECONDS):
            return bool(await halts.everywhere())
    except (FormularyError, TimeoutError):
        return False  # the next probe asks again


async def _database_answers(database: "Database") -> bool:
    try:
        async with asyncio.timeout(_DATABASE_SECONDS):
            await database.ping()  # past the pool: a busy pool is no outage
    except (FormularyError, TimeoutError):
        return False
    return True
