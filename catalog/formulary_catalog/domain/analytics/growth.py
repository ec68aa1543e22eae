"""Bounds what one row of a statement may take: PostgreSQL looks at its timeout between rows, not within every call.

`domain/analytics/statement` asks before a statement is sent. A value that is built from others (joined texts, powers,
aggregates) may be so big that a function which compares each part of it with each other works for minutes, and columns
that name each other are written out by the planner, again and again. So the largest size of each value is followed
through the statement, and the work for a row is added up (`domain/analytics/measures`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formulary_catalog.domain.analytics import measures
from formulary_catalog.domain.analytics.measures import FIXED, MAX_WORK, NOTHING, STEP, UNKNOWN, Kind, Value
from formulary_catalog.domain.analytics.relations import ANYTHING, TABLE, Rows, Scope, either, starred, total
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from sqlglot import exp

_ROUNDS = 3
_MAX_VISITS = 50_000
_SHOWN = 60
_LITERALS = frozenset("literal bytestring hexstring bitstring unicodestring rawstring national".split())
_COMPUTED_ONCE = ("group", "having", "order", "distinct", "limit", "offset", "with_")
_NO_CLAUSES = frozenset(
    {"expressions", "from_", "joins", "laterals", "with_", "this", "expression", "alias", "columns", "to", "over"}
)


def require_bounded(tree: "exp.Expr") -> None:
    """Raises InvalidInput if one row of a SELECT may take longer than PostgreSQL takes to look at its timeout."""
    try:
        _require(_Growth().rows(tree, Scope()).work, tree)
    except RecursionError:
        raise _refusal("is nested too deep; write it flatter, with WITH") from None


class _Growth:
    """Walks through one statement. `rows` is for queries and tables, `value` for expressions."""

    def __init__(self) -> None:
        self._visits = 0

    def rows(self, query: Any, scope: Scope) -> Rows:
        """What a query returns; its work is that of all it holds."""
        from sqlglot import exp

        scope, with_work = self._with(query, scope)
        if isinstance(query, exp.Select):
            found = self._selected(query, scope)
        elif isinstance(query, exp.SetOperation):
            left, right = self.rows(query.left, scope), self.rows(query.right, scope)
            found = replace(left.united(right), work=total([left.work, right.work]))
        elif isinstance(query, exp.Values):
            lines = [
                [self.value(each, scope) for each in getattr(line, "expressions", None) or [line]]
                for line in query.expressions
            ]
            columns = tuple(either(column) for column in zip(*lines, strict=False))
            found = Rows({}, columns, either(columns), total(each.work for line in lines for each in line))
        elif isinstance(query.this, exp.Query | exp.Values):
            found = self.rows(query.this, scope)
        else:  # joins in brackets
            sources, work = self._sources([query.this], scope)
            found = starred(sources.values(), work=work)
        if not isinstance(query, exp.Select):
            found = replace(found, work=total([found.work, self._clauses(query, scope.within({"": found}))]))
        return replace(found, work=total([found.work, with_work]))

    def _selected(self, query: Any, scope: Scope) -> Rows:
        from sqlglot import exp

        from_ = query.args.get("from_")
        parts = [
            *([from_.this] if from_ else []),
            *_nodes(query.args.get("joins")),
            *_nodes(query.args.get("laterals")),
        ]
        sources, from_work = self._sources(parts, scope)
        inner = scope.within(sources)
        found, work = Rows(), from_work
        columns: list[Value] | None = []
        for each in query.expressions:
            if each.is_star:
                source = getattr(each, "table", "").lower()
                named = [seen[source] for seen in inner.sources if source in seen][:1]
                found, columns = starred([found, *(named or sources.values())]), None
                continue
            value = self.value(each, inner)
            work = total([work, value.work])
            if columns is not None:
                columns.append(value)
            has_name = isinstance(each, exp.Alias | exp.Column)
            # PostgreSQL names what has no name after a column or function in it.
            names = [each.alias_or_name] if has_name else [column.name for column in each.find_all(exp.Column)]
            found = starred(
                [found, Rows({name.lower(): value for name in names}, None, NOTHING if has_name else value)]
            )
        found = replace(found, columns=None if columns is None else tuple(columns))
        work = total([work, self._clauses(query, scope.within({**sources, "": found}))])
        once = any(query.args.get(name) for name in _COMPUTED_ONCE) or any(
            isinstance(node, exp.AggFunc | exp.Window) for each in query.expressions for node in each.walk()
        )
        return replace(found.once() if once else found, work=work)

    def _clauses(self, query: Any, scope: Scope) -> int:
        """The work of WHERE, GROUP BY, ORDER BY and the like."""
        clauses = [each for name in query.args if name not in _NO_CLAUSES for each in _nodes(query.args[name])]
        return total(self.value(each, scope).work for each in clauses)

    def _with(self, query: Any, scope: Scope) -> tuple[Scope, int]:
        with_ = query.args.get("with_")
        if with_ is None:
            return scope, 0
        defined, work = dict(scope.defined), 0
        if with_.recursive:
            defined |= {each.alias.lower(): ANYTHING for each in with_.expressions}
        for each in with_.expressions:
            rows = self._defined(each, replace(scope, defined=defined), recursive=bool(with_.recursive))
            work = total([work, rows.work])
            defined[each.alias.lower()] = replace(rows, work=0)
        return replace(scope, defined=defined), work

    def _defined(self, definition: Any, scope: Scope, *, recursive: bool) -> Rows:
        """What WITH defines. What still grows after some rounds of a recursion may become as big as anything."""
        from sqlglot import exp

        name, query, given = definition.alias.lower(), definition.this, _columns(definition)
        if not recursive or all(table.name.lower() != name for table in query.find_all(exp.Table)):
            rows = self.rows(query, scope).renamed(given)
            return rows.once() if definition.args.get("materialized") else rows
        first = query.left if isinstance(query, exp.SetOperation) else query
        found = replace(self.rows(first, scope).renamed(given).once(), columns=None, work=0)
        for round_ in range(2 * len(found.names) + 2 * _ROUNDS):
            again = self.rows(query, replace(scope, defined={**scope.defined, name: found})).renamed(given).once()
            grown = again.widened(found) if round_ >= _ROUNDS else replace(again, columns=None, work=0)
            if grown == found:
                return replace(found, work=again.work)
            found = grown
        return ANYTHING

    def _sources(self, parts: Sequence[Any], scope: Scope) -> tuple[dict[str, Rows], int]:
        """The tables of FROM, by alias, and the work of making them; each sees those before it."""
        sources: dict[str, Rows] = {}
        work = 0
        for part in parts:
            for name, rows in self._source(part, scope.within(sources)):
                work = total([work, rows.work])
                sources[name or f" {len(sources)}"] = replace(rows, work=0)
            conditions = [self.value(on, scope.within(sources)).work for on in _nodes(part.args.get("on"))]
            work = total([work, *conditions])
        return sources, work

    def _source(self, node: Any, scope: Scope) -> Iterator[tuple[str, Rows]]:
        from sqlglot import exp

        if isinstance(node, exp.Join):
            yield from self._source(node.this, scope)
            return
        name = node.alias.lower()
        query = node.this if isinstance(node, exp.Lateral) else node
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            read = node.name.lower()
            found = TABLE if node.args.get("db") else scope.defined.get(read, TABLE)
            name = name or read
        elif isinstance(query, exp.Query | exp.Values):
            found = self.rows(query, scope)
        else:
            given = [
                self.value(each, scope)
                for arg, values in node.args.items()
                if arg not in ("alias", "joins")
                for each in _nodes(values)
            ]
            called = replace(either(given), work=0)
            found = Rows({name: called}, None, called, total(each.work for each in given))
        yield name, found.renamed(_columns(node))
        for join in node.args.get("joins") or []:
            sources, work = self._sources([join], scope)
            yield from sources.items()
            yield "", Rows(work=work)

    def value(self, node: Any, scope: Scope) -> Value:
        """The size of an expression, and the work of all that it holds."""
        from sqlglot import exp

        self._visits += 1
        if self._visits > _MAX_VISITS:
            raise _refusal("is nested too deep; write it flatter, with WITH")
        if _is_operator(node):
            return self._chain(node, scope)
        if isinstance(node, exp.Query | exp.Values):
            rows = self.rows(node, scope)
            return replace(rows.largest, work=rows.work)
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                return replace(starred(rows for sources in scope.sources for rows in sources.values()).whole, work=STEP)
            if node.table:
                _require_plain(node.name, node)
            found = scope.column(node.name.lower(), source=node.table.lower())
            return replace(found, work=total([found.work, STEP]))
        if node.key in _LITERALS:
            return replace(measures.literal(node), work=STEP)
        given = [
            self.value(each, scope)
            for name, values in node.args.items()
            if name not in ("to", "over")
            for each in _nodes(values)
        ]
        return _made(node, _expression(node, given), given)

    def _chain(self, node: Any, scope: Scope) -> Value:
        """Operators one after the other, without a call for each: there may be a thousand."""
        chain = []
        while _is_operator(node):
            chain.append(node)
            node = node.this
        value = self.value(node, scope)
        for each in reversed(chain):
            given = [value, self.value(each.expression, scope)]
            made = measures.call(each.key, given) or measures.arithmetic(each, *given) or measures.unknown(given)
            value = _made(each, made, given)
        return value


def _is_operator(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Binary) and (
        isinstance(node, exp.Connector) or not isinstance(node, exp.Func | exp.Dot)
    )


def _expression(node: Any, given: list[Value]) -> Value:
    """What an expression makes of its parts."""
    from sqlglot import exp

    if isinstance(node, exp.Cast):
        return measures.cast(node, given[0])
    if isinstance(node, exp.Case):
        return replace(either(given), work=0)
    if isinstance(node, exp.Func):
        return _called(node, given)
    if isinstance(node, exp.Dot):  # (x).f is f(x), too
        _require_plain(node.expression.name, node)
        return measures.call("to_json", given[:1]) or UNKNOWN
    if isinstance(node, exp.Predicate | exp.Not | exp.Interval | exp.AtTimeZone | exp.Boolean | exp.Null):
        return replace(FIXED, work=total(each.size for each in given))
    if isinstance(node, exp.Window | exp.Filter | exp.Alias | exp.Paren | exp.Ordered | exp.Neg | exp.Bracket):
        return replace(given[0], work=given[0].size)
    if isinstance(node, exp.WithinGroup):
        return given[0] if isinstance(node.this, exp.PercentileCont) else given[-1]
    return replace(either(given), work=0)


def _called(node: Any, given: list[Value]) -> Value:
    """What a function makes of its arguments, also where their values say more than their sizes."""
    from sqlglot import exp

    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name in measures.AMPLIFYING:
        _require_plain(name, node)
    if name in measures.POWERS:
        made = measures.power(given, node.args.get("expression") or node)
        if made is None:
            raise _refusal(
                f"calls {_short(node)}, whose result may have any number of digits; cast its numbers to float8, or "
                "write an exponent up to 64"
            )
        return made
    if isinstance(node, exp.Round | exp.Trunc):
        return measures.rounded(given[0], node.args.get("decimals"))
    if isinstance(node, exp.Array) and any(isinstance(each, exp.Query) for each in node.expressions):
        return UNKNOWN
    if isinstance(node, exp.Substring) and given[1:] and given[1].kind is Kind.OTHER:
        name = "regexp_substr"  # by a pattern
    made = measures.call(name, given) or measures.unknown(given)
    length = node.args.get("length" if isinstance(node, exp.Substring) else "expression")
    if isinstance(node, exp.Left | exp.Right | exp.Substring) and isinstance(length, exp.Literal):
        made = replace(made, size=min(made.size, int(length.name) if length.name.isdecimal() else made.size))
    return made


def _made(node: Any, made: Value, given: list[Value]) -> Value:
    _require(made.work, node)
    work = total([STEP, made.work, *(each.work for each in given)])
    return Value(min(made.size, measures.ANY_SIZE), made.kind, work)


def _require(work: int, node: Any) -> None:
    if work > MAX_WORK:
        raise _refusal(
            f"may work on one row for longer than it can be stopped, in {_short(node)}; cut texts with left(…, 200) "
            "before they are searched or joined again, and write WITH … AS MATERIALIZED"
        )


def _require_plain(name: str, node: Any) -> None:
    """Refuses what makes much of little, also where it is called as (x).f."""
    if name.lower() in measures.AMPLIFYING | measures.POWERS:
        raise _refusal(f"calls {name[:_SHOWN].lower()}, which can fill the memory of the database; leave it out")


def _short(node: Any) -> str:
    text = " ".join(node.sql("postgres").split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _columns(node: Any) -> list[str]:
    """The names that the alias of a node gives to columns."""
    alias = node.args.get("alias")
    return [each.name.lower() for each in (alias.args.get("columns") if alias is not None else None) or []]


def _nodes(arg: Any) -> Iterator[Any]:
    from sqlglot import exp

    return (each for each in (arg if isinstance(arg, list) else [arg]) if isinstance(each, exp.Expr))


def _refusal(problem: str) -> InvalidInput:
    return InvalidInput(f"sql {problem}", field="sql")
