"""What a statement must look like to be sent to the database: one SELECT over tables of `insight`.

`services/analytics` calls it first, for an early refusal that says what to write instead. It is not what keeps
data safe: the role, the transaction and the views are (`docs/analytics.md`). So it refuses few things, and it changes
nothing: what is run is the text of the caller.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from formulary_catalog.domain.analytics.growth import require_bounded
from formulary_catalog.domain.text import storable
from formulary_catalog.errors import InvalidInput

if TYPE_CHECKING:
    from sqlglot import Token, TokenType, exp

SCHEMA = "insight"
TABLES = (
    "catalog",
    "versions",
    "searches",
    "candidates",
    "selections",
    "runs",
    "decisions",
    "approvals",
    "outcomes",
    "alerts",
)
"""The views that callers may read, in the order in which they are listed."""
MAX_LENGTH = 4000
_DIALECT = "postgres"
_FIRST_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")
_MAX_DEPTH = 32
_MAX_DOUBLING = 4
_MAX_JOINS = 20
_MAX_OPEN_JOINS = 4
_SHOWN = 80
# Functions that act on more than their arguments. Where a superuser migrated, the role may not call them anyway.
_NAME = re.compile(r"[^\W\d][\w$]*")
_HARMLESS = frozenset({"pg_typeof", "pg_column_size"})
_ACTING = re.compile(
    r"pg_.*|lo_.*|loread|lowrite|dblink.*|txid_.*|binary_upgrade_.*|brin_.*|gin_.*|currtid2?|.*_to_xml(schema|_and_xmlschema)?"
    r"|set_config|current_setting|setseed|nextval|setval|currval|lastval|ts_stat|ts_rewrite"
)
_PLAIN_FORMAT = re.compile(r"(?:[^%]|%%|%(?:\d+\$)?[sIL])*")
"""PostgreSQL bounds the memory of sorts and hashes, not that of a text."""

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings quote what callers wrote


def single_select(sql: str) -> str:
    """The statement, without a semicolon at its end.

    Raises:
        InvalidInput: it is too long, cannot be read, is not one SELECT over tables of `insight`, or may work on one
            row for too long.
    """
    from sqlglot import exp  # slow to import, and only needed where somebody asks

    if not sql.strip():
        raise _refusal("is empty; write one SELECT, such as SELECT workflow, status FROM insight.catalog")
    if len(sql) > MAX_LENGTH:
        raise _refusal(f"has {len(sql)} characters; write at most {MAX_LENGTH}")
    if not storable(sql):
        raise _refusal("holds a character that no text of PostgreSQL can; leave it out")
    statement, tree = _read(sql)
    for node in tree.walk():
        if isinstance(node, exp.DML | exp.DDL | exp.Command | exp.Into | exp.Lock) and not isinstance(node, exp.Query):
            raise _refusal("changes or locks something; only a SELECT that reads is run")
    _check_tables(tree)
    for name in _called(tree):
        if not _NAME.fullmatch(name) or _acts(name):
            raise _refusal(f"calls {name[:_SHOWN]}, which acts on more than its arguments; leave it out")
    for function in tree.find_all(exp.Func):
        if function.name.lower() == "format" or isinstance(function, exp.Format):
            _check_format(function)
    for name in filter(_acts, _attributes(tree)):
        raise _refusal(
            f"calls {name[:_SHOWN]}, which acts on more than its arguments; rename the column or leave it out"
        )
    require_bounded(tree)
    return statement


def require_table(table: str) -> str:
    """The name of a table of `insight`, without the schema.

    Raises:
        InvalidInput: there is none of that name.
    """
    name = table.strip().lower().removeprefix(f"{SCHEMA}.")
    if name not in TABLES:
        raise InvalidInput(f"table {table[:_SHOWN]!r} does not exist; {_instead(name[:_SHOWN])}", field="table")
    return name


def _read(sql: str) -> "tuple[str, exp.Expr]":
    """The text of the one statement, and its tree."""
    from sqlglot import Dialect, TokenType, exp
    from sqlglot.errors import SqlglotError

    dialect = Dialect.get_or_raise(_DIALECT)
    try:
        tokens = dialect.tokenize(sql)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            sql = sql[: tokens.pop().start]
        if any(token.token_type is TokenType.SEMICOLON for token in tokens):
            raise _refusal("holds more than one statement; send one at a time")
        first = next((token.text for token in tokens if token.token_type is not TokenType.L_PAREN), "")
        if first.upper() not in _FIRST_WORDS:
            raise _refusal(f"begins with {first[:_SHOWN]!r}, which is no SELECT; write one SELECT")
        _check_depth(tokens)
        _check_joins(tokens)
        _check_spelling(sql, tokens)
        (tree,) = dialect.parse(sql)
    except RecursionError:
        raise _refusal("is nested too deep; write it flatter, with WITH") from None
    except SqlglotError as error:
        found = getattr(error, "errors", [])
        place = f" near line {found[0]['line']}, column {found[0]['col']}" if found and found[0].get("line") else ""
        raise _refusal(f"is not understood{place}; write one SELECT of PostgreSQL") from None
    if not isinstance(tree, exp.Query | exp.Values):
        raise _refusal("is no SELECT; write one SELECT")
    return sql, tree


def _check_depth(tokens: "Sequence[Token]") -> None:
    """The parser tries brackets behind the name of a type twice, so that its time doubles with each level of them."""
    from sqlglot import TokenType
    from sqlglot.dialects.postgres import Postgres

    doubling = {TokenType.ARRAY, *Postgres.Parser.TYPE_TOKENS} - {TokenType.VAR}
    open_brackets: list[bool] = []
    previous: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE):
            open_brackets.append(kind is not TokenType.L_PAREN or previous in doubling)
            if len(open_brackets) > _MAX_DEPTH or sum(open_brackets) > _MAX_DOUBLING:
                raise _refusal("is nested too deep; write it flatter, with WITH")
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE) and open_brackets:
            open_brackets.pop()
        previous = kind


def _check_joins(tokens: "Sequence[Token]") -> None:
    """The parser reads what follows a JOIN without ON twice, so that its time doubles with each of them."""
    from sqlglot import TokenType

    kinds = [token.token_type for token in tokens]
    joins = 0
    unmatched = [0]  # JOINs whose ON or USING is still to come, for each bracket that is open
    for place, kind in enumerate(kinds):
        if kind is TokenType.L_PAREN:
            unmatched.append(0)
        elif kind is TokenType.R_PAREN and len(unmatched) > 1:
            unmatched.pop()
        elif kind in (TokenType.ON, TokenType.USING) and kinds[place - 1] is not TokenType.DOT:
            unmatched[-1] = max(0, unmatched[-1] - 1)
        elif kind in (TokenType.JOIN, TokenType.STRAIGHT_JOIN):
            joins += 1
            unmatched[-1] += _takes_condition(kinds[:place])
        if joins > _MAX_JOINS:
            raise _refusal(f"joins too much; write at most {_MAX_JOINS} JOINs")
        if sum(unmatched) > _MAX_OPEN_JOINS:
            raise _refusal(f"has more than {_MAX_OPEN_JOINS} JOINs without ON; write ON behind each, or CROSS JOIN")


def _check_spelling(sql: str, tokens: "Sequence[Token]") -> None:
    """Refuses what the parser reads otherwise than PostgreSQL: 6_5 as 6 AS _5, U&"x" as U & "x"; and OPERATOR(…), which
    hides the operator."""
    from sqlglot import TokenType

    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind, after = token.token_type, sql[token.end + 1 : token.end + 2]
        if kind is TokenType.NUMBER and (after.isalnum() or after == "_"):
            raise _refusal(
                "has a letter or underscore behind digits; write numbers without underscores, in decimal digits"
            )
        if kind in (TokenType.HEX_STRING, TokenType.BIT_STRING) and sql[token.start] == "0":
            raise _refusal("holds a number as 0x… or 0b…; write it in decimal digits")
        if following is not None and following.token_type is TokenType.L_PAREN and kind is not TokenType.IDENTIFIER:
            if token.text.upper() == "OPERATOR":
                raise _refusal("names an operator as OPERATOR(…); write the operator itself")
    for letter, sign, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
        spelled = letter.text.lower() == "u" and sign.token_type is TokenType.AMP
        if spelled and name.token_type is TokenType.IDENTIFIER and name.start == letter.start + 2:
            raise _refusal('calls or names something as U&"…"; write its name as it is')


def _takes_condition(before: "list[TokenType]") -> bool:
    """Whether a JOIN behind these takes ON or USING: CROSS and NATURAL do not, unless they are names behind a dot."""
    from sqlglot import TokenType

    sides = (TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.INNER, TokenType.OUTER)
    words = list(before)
    while words and words[-1] in sides:
        words.pop()
    return words[-1:] not in ([TokenType.CROSS], [TokenType.NATURAL]) or words[-2:-1] == [TokenType.DOT]


def _check_tables(tree: "exp.Expr") -> None:
    from sqlglot import exp

    defined = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    if any(name.startswith("pg_") for name in defined):
        raise _refusal("defines a name that begins with pg_; choose another")
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function in FROM
        name, schema = table.name, table.db
        if table.catalog or schema.lower() not in ("", SCHEMA):
            raise _refusal(f"reads {table.sql(_DIALECT)[:_SHOWN]}; only tables of {SCHEMA} are readable: {_names()}")
        if name.lower() not in TABLES and not (not schema and name.lower() in defined):
            raise _refusal(f"reads {name[:_SHOWN]!r}, which is no table of {SCHEMA}; {_instead(name[:_SHOWN].lower())}")


def _called(tree: "exp.Expr") -> Iterator[str]:
    """The names of functions, in lower case."""
    from sqlglot import exp

    for function in tree.find_all(exp.Func):
        yield (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()


def _check_format(function: "exp.Expr") -> None:
    """A width in a format is a number of characters to fill, as in `lpad`."""
    from sqlglot import exp

    template = function.this if isinstance(function, exp.Format) else next(iter(function.expressions), None)
    if not (isinstance(template, exp.Literal) and template.is_string and _PLAIN_FORMAT.fullmatch(template.name)):
        raise _refusal("calls format with more than %s, %I, %L and %1$s in a plain '…'; leave widths out")


def _attributes(tree: "exp.Expr") -> Iterator[str]:
    """The names behind a dot, in lower case. PostgreSQL takes (x).f and x.f for f(x), where x has no column f."""
    from sqlglot import exp

    for node in tree.find_all(exp.Dot, exp.Column):
        if isinstance(node, exp.Dot) or node.args.get("table"):
            yield node.name.lower()


def _acts(name: str) -> bool:
    return bool(_ACTING.fullmatch(name)) and name not in _HARMLESS


def _instead(name: str) -> str:
    near = get_close_matches(name, TABLES, n=1)
    return f"did you mean {SCHEMA}.{near[0]}?" if near else f"take one of {_names()}"


def _names() -> str:
    return ", ".join(TABLES)


def _refusal(problem: str) -> InvalidInput:
    return InvalidInput(f"sql {problem}", field="sql")
