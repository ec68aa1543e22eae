"""A search in the database: filter, rank, read what is on the page, under row-level security."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cachetools import LRUCache

from formulary_catalog.domain.query import first_word, is_canonical
from formulary_catalog.store.conditions import Arguments, column_of
from formulary_catalog.store.database import Connection, Database
from formulary_catalog.store.entering import entered_table
from formulary_catalog.store.page import PageRow, read_page
from formulary_catalog.store.pool import Plan, Pool, read_pool
from formulary_catalog.store.stems import Stems
from formulary_catalog.store.texts import Texts

_WORDS = 1_024
_LOOKED_AT = 10_000
"""Workflows that are looked at to tell whether a label's value is known at all: a note is not worth more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A pool, the rows of its page by version id, and the asked dimensions whose values nobody visible declares.

    There is no row of a workflow that is found and has no active version, which only a repair by hand can bring about.
    """

    pool: Pool
    rows: Mapping[str, PageRow] = field(repr=False)
    unfamiliar: tuple[str, ...]


class SearchStore:
    """Runs searches under row-level security."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stems = Stems()
        self._texts = Texts()
        self._in_use: LRUCache[tuple[frozenset[str] | None, str], bool] = LRUCache(_WORDS)
        """First words that were signal types in use in these namespaces when they were asked there last.

        Whether they still are is a guess, which the database checks.
        """

    def counts_as_signal(self, query: str, *, namespaces: frozenset[str] | None) -> bool:
        """Whether the query's first word counted as a signal type when it was asked for last: what to expect."""
        word = first_word(query)
        return is_canonical(word) or self._was_in_use(word, namespaces=namespaces)

    async def search(
        self,
        *,
        query: str,
        plan: Callable[[bool], Plan],
        page: Callable[[Pool], Sequence[str]],
        known: Container[str] = (),
        namespaces: frozenset[str] | None,
    ) -> Found:
        """Find the allowed workflows among the visible ones.

        `plan` is called with whether the first word counts as a signal type, which only the catalog can tell. `page`
        picks version ids from the pool; the documents of those that are not `known` are read. Both may be called more
        than once, in the middle of a read, and must not block. `namespaces` is what the caller may see, None for
        everything.

        Raises:
            Unavailable: the database does not answer in time.
        """
        word = first_word(query)
        signal_word = "" if is_canonical(word) else word

        async def look(connection: Connection, *, in_use: bool) -> tuple[Plan, Pool]:
            planned = plan(in_use or is_canonical(word))
            pool = await self._pool(connection, planned, namespaces=namespaces, signal_word=signal_word, in_use=in_use)
            return planned, pool

        async def read(connection: Connection) -> tuple[Found, bool]:
            guess = self._was_in_use(signal_word, namespaces=namespaces)
            planned, pool = await look(connection, in_use=guess)
            if pool.word_in_use is not guess:
                self._remember(signal_word, namespaces=namespaces, in_use=pool.word_in_use)
                planned, pool = await look(connection, in_use=not guess)
                if pool.word_in_use is guess:
                    return Found(pool=pool, rows={}, unfamiliar=()), False
            ids = page(pool)
            if pool.rows and all(version_id in known for version_id in ids):
                rows = pool.rows
            else:
                rows = await read_page(connection, ids, known=known, namespaces=namespaces)
            asked = {name: planned.asked[name] for name in pool.undeclared}
            unfamiliar = await _unfamiliar(connection, asked, namespaces=namespaces)
            return Found(pool=pool, rows=rows, unfamiliar=unfamiliar), pool.whole and rows.keys() >= set(ids)

        found, unchanged = await self._database.read_apart(read)
        if not unchanged:  # the catalog changed between two statements
            found, _ = await self._database.read(read)
        return found

    def _was_in_use(self, word: str, *, namespaces: frozenset[str] | None) -> bool:
        return self._in_use.get((namespaces, word), False)

    def _remember(self, word: str, *, namespaces: frozenset[str] | None, in_use: bool) -> None:
        if in_use:
            self._in_use[namespaces, word] = True
        else:
            self._in_use.pop((namespaces, word), None)

    async def _pool(
        self,
        connection: Connection,
        plan: Plan,
        *,
        namespaces: frozenset[str] | None,
        signal_word: str,
        in_use: bool,
    ) -> Pool:
        stems = await self._stems.of(connection, plan.words)
        pool_of = partial(
            read_pool,
            connection,
            stems=stems,
            texts=self._texts,
            namespaces=namespaces,
            signal_word=signal_word,
            in_use=in_use,
        )
        pool = await pool_of(plan)
        return pool if pool.mostly_compared else await pool_of(replace(plan, vectors={}))


async def _unfamiliar(
    connection: Connection, asked: Mapping[str, frozenset[str]], *, namespaces: frozenset[str] | None
) -> tuple[str, ...]:
    """Which dimensions no visible workflow declares any of these values in; none where there are too many to look."""
    unknown = []
    for dimension, values in asked.items():
        arguments = Arguments()
        entering = entered_table(arguments, namespaces=namespaces)
        given = arguments.add(sorted(values), "text[]")
        # The look ends at the first workflow that declares it, or that is one too many.
        read = f"""
        with {entering}
        select familiar from entered, lateral (
            select exists (
                select from (
                    select {column_of(dimension)} && {given} as declares, row_number() over () as position
                    from workflow_search where leading_row and entered.word_in_use is not null
                ) as workflow where declares or position > {_LOOKED_AT}
            ) as familiar offset 0
        ) as look
        """
        if not await connection.fetchval(read, *arguments.values):
            unknown.append(dimension)
    return tuple(unknown)
