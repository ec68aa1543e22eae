"""How big a value of SQL may become, and how much work one call may be.

`domain/analytics/growth` asks for each expression of a statement. A function that is in no list here may be called
over small values, and its result counts as one of any size. Names of functions are those of sqlglot, which has its own
for some. Sizes are characters, digits or elements, work is about a nanosecond.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

SHORT = 40
TEXT = 4_000
"""Longest text of a column: a query or a reason."""
LONGEST_NUMBER = 150_000
ANY_SIZE = 10**8
"""What is aggregated follows from the number of rows."""
MAX_WORK = 10**9
STEP = 10_000
"""Work of any expression: planning it, and the memory that this takes."""
_MAX_EXPONENT = 64
_PLAIN_INTEGER = 18
_MOST_DECIMALS = 16_383
_EXPONENT = re.compile(r"[\d.]e[+-]?(\d+)", re.IGNORECASE)
_SKIPPED = str.maketrans("", "", "_\\")
"""What PostgreSQL passes over: underscores in numbers, and a backslash before most letters of E'…'."""
_ESCAPE = re.compile(r"\\[0-7xuU]")


class Kind(Enum):
    """FIXED values, such as integers, floats and times, stay as big as they are, whatever is calculated with them."""

    FIXED = 0
    NUMBER = 1
    OTHER = 2


@dataclass(frozen=True, slots=True)
class Value:
    """The largest that an expression may be, and the work to make it."""

    size: int
    kind: Kind = Kind.OTHER
    work: int = 0


NOTHING = Value(1, Kind.FIXED)
FIXED = Value(SHORT, Kind.FIXED)
UNKNOWN = Value(ANY_SIZE)

# Read once, of a size that does not follow from the arguments.
_MEASURING = frozenset(
    """
    acos age any array_length array_lower array_ndims array_size array_upper ascii asin atan atan2 bit_length bool_and
    bool_or cardinality cbrt clock_timestamp corr cos cosh cot count covar_pop covar_samp cume_dist current_date
    current_time current_timestamp date_bin date_part degrees dense_rank every exists
    generate_subscripts grouping isfinite j_s_o_n_b_typeof json_array_length json_typeof jsonb_array_length
    jsonb_typeof justify_days justify_hours justify_interval length localtime localtimestamp logical_and logical_or
    make_date make_interval make_time make_timestamp make_timestamptz ntile num_nonnulls num_nulls
    percent_rank percentile_cont pg_column_size pg_typeof pi radians rank regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number scale sign sin sinh starts_with
    statement_timestamp str_to_date str_to_time tan tanh timeofday timestamp_trunc transaction_timestamp
    unix_to_time uuid uuidv7 width_bucket
    """.split()
)
# As these, but each part of one argument may be compared with each of another.
_SEARCHING = frozenset(
    """
    array_contained_by array_contains array_contains_all array_overlaps array_position array_positions
    j_s_o_n_b_contains j_s_o_n_b_contains_top_key like ilike regexp_count regexp_i_like match_against regexp_instr
    regexp_like similarto str_position ts_rank ts_rank_cd
    """.split()
)
# As these, and parts of the first argument are the result.
_SPLITTING = frozenset(
    """
    array_remove regexp_extract regexp_match regexp_matches regexp_split regexp_split_to_array
    regexp_split_to_table regexp_substr split split_part string_to_array string_to_table to_number translate
    """.split()
)
# As these, and each part of the first argument may become as long as the others.
_REPLACING = frozenset(
    "array_replace array_to_string concat_ws format regexp_replace replace time_to_str to_char".split()
)
# One of the arguments, or as big as one.
_PASSING = frozenset(
    """
    abs any_value ceil coalesce explode exploding_generate_series first first_value floor greatest if lag
    last_value lead least max min mode nth_value nullif percentile_disc unnest
    """.split()
)
# Read once, not bigger than the arguments together.
_JOINING = frozenset(
    """
    array array_append array_cat array_concat array_prepend array_reverse array_sort concat initcap json_array_elements
    json_array_elements_text json_each json_each_text json_extract json_extract_path json_extract_path_text
    json_extract_scalar json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text
    jsonb_extract jsonb_extract_path jsonb_extract_path_text jsonb_extract_scalar jsonb_object_keys left lower md5
    overlay reverse right row sha sha2 sha224 sha256 sha384 sha512 strip substring trim trim_array
    tsvector_to_array tuple upper variadic
    """.split()
)
# As these, but a character may be written as several.
_ESCAPING = frozenset(
    """
    j_s_o_n_array j_s_o_n_object json_build_array json_build_object json_object jsonb_build_array jsonb_build_object
    phraseto_tsquery plainto_tsquery quote_ident quote_literal quote_nullable row_to_json to_json to_jsonb to_tsquery
    to_tsvector websearch_to_tsquery
    """.split()
)
# Decimal numbers, worked out digit by digit.
_CALCULATING = frozenset(
    """
    gcd int_div lcm ln log rand random round sqrt stddev stddev_pop stddev_samp trunc var_pop var_samp
    variance variance_pop
    """.split()
)
_ADDING = frozenset("avg extract sum".split())
_OF_FLOATS = frozenset("ln log sqrt".split())
# Of any size: it follows from the number of rows.
_COLLECTING = frozenset(
    """
    array_agg group_concat j_s_o_n_array_agg j_s_o_n_object_agg json_agg json_object_agg jsonb_agg jsonb_object_agg
    """.split()
)
AMPLIFYING = frozenset("repeat lpad rpad pad array_fill factorial jsonb_pretty".split())
"""Small arguments make a big value."""
POWERS = frozenset("power pow exp dpow numeric_power numeric_exp".split())
"""The size of a decimal result follows from the value of the arguments."""


def literal(node: "exp.Expr") -> Value:
    """A number or a text that is written out; `1e9` stands for ten digits, also where it is in a text."""
    from sqlglot import exp

    text = str(node.this)
    digits = sum(min(int(found), LONGEST_NUMBER) for found in _EXPONENT.findall(text.translate(_SKIPPED)))
    if isinstance(node, exp.Literal) and not node.is_string:
        whole = text.isdecimal() and len(text) <= _PLAIN_INTEGER
        return Value(len(text) + digits, Kind.FIXED if whole else Kind.NUMBER)
    escaped = isinstance(node, exp.UnicodeString) or (not isinstance(node, exp.Literal) and _ESCAPE.search(text))
    return Value(max(1, len(text) + digits, LONGEST_NUMBER if escaped else 0))


def cast(node: "exp.Expr", value: Value) -> Value:
    """A value as another type: a text may become a long number, and a number in JSON a long text."""
    from sqlglot import exp

    type_ = exp.DataType.Type
    to = node.args["to"]
    lengths = [int(each.name) if each.name.isdecimal() else ANY_SIZE for each in to.find_all(exp.DataTypeParam)]
    written = isinstance(node.this, exp.Literal)
    if to.this in {
        *exp.DataType.INTEGER_TYPES, *exp.DataType.TEMPORAL_TYPES, type_.BOOLEAN, type_.FLOAT, type_.DOUBLE,
        type_.INTERVAL, type_.UUID,
    }:  # fmt: skip
        return Value(SHORT, Kind.FIXED, value.size)
    if to.this is type_.DECIMAL:
        if value.kind is Kind.FIXED:
            return Value(10 * SHORT + sum(lengths), Kind.NUMBER, SHORT)  # of a float
        size = value.size if written or value.kind is Kind.NUMBER else LONGEST_NUMBER
        return Value(size + sum(lengths), Kind.NUMBER, value.size)
    if to.this is type_.VARCHAR and lengths:
        return Value(min(2 * value.size, lengths[0]), work=value.size)
    elements = to.expressions[0].this if to.this is type_.ARRAY and to.expressions else to.this
    as_written = elements in {*exp.DataType.TEXT_TYPES, *exp.DataType.INTEGER_TYPES, type_.JSON, type_.XML, type_.INET}
    if value.kind is Kind.OTHER and not (as_written or written):
        return Value(min(value.size * LONGEST_NUMBER // SHORT, ANY_SIZE), work=value.size)
    return Value(max([2 * value.size, *lengths]), work=value.size)


def call(name: str, given: Sequence[Value]) -> Value | None:
    """What a function makes of its arguments; None if it is not known."""
    sizes = [each.size for each in given] or [1]
    total = sum(sizes)
    pairs = sizes[0] * max(1, total - sizes[0])
    if name in _MEASURING:
        return Value(SHORT, Kind.FIXED, total)
    if name in _SEARCHING:
        return Value(SHORT, Kind.FIXED, pairs)
    if name in _SPLITTING:
        return Value(sizes[0], work=pairs)
    if name in _REPLACING:
        return Value(total + pairs, work=total + pairs)
    if name in _PASSING:
        return Value(
            max(sizes), max((each.kind for each in given), key=lambda kind: kind.value, default=Kind.FIXED), total
        )
    if name in _JOINING:
        return Value(max(SHORT, total), work=total)
    if name in _ESCAPING:
        return Value(6 * total + SHORT, work=6 * total)
    if name in _ADDING:
        return Value(min(total + SHORT, LONGEST_NUMBER), Kind.NUMBER, total)
    if name in _CALCULATING:
        if name in _OF_FLOATS and [each.kind for each in given] == [Kind.FIXED]:
            return FIXED
        return Value(min(total + SHORT, LONGEST_NUMBER), Kind.NUMBER, total**2)
    if name in _COLLECTING:
        return Value(ANY_SIZE, work=total)
    return None


def unknown(given: Sequence[Value]) -> Value:
    """What an unknown function or operator makes of its arguments."""
    return Value(ANY_SIZE, work=sum(each.size for each in given) ** 2)


def power(given: Sequence[Value], exponent: "exp.Expr") -> Value | None:
    """A power; None if it may have any number of digits."""
    from sqlglot import exp

    if all(each.kind is Kind.FIXED for each in given):
        return FIXED  # PostgreSQL takes floats for it
    written = exponent.this if isinstance(exponent, exp.Neg) else exponent
    if not (isinstance(written, exp.Literal) and not written.is_string and float(written.name) <= _MAX_EXPONENT):
        return None
    size = given[0].size * (int(float(written.name)) + 1) + SHORT
    return Value(size, Kind.NUMBER, size**2)


def rounded(value: Value, decimals: "exp.Expr | None") -> Value:
    """A number with so many decimals."""
    if decimals is None:
        return replace(value, work=value.size)
    written = decimals.name if decimals.key == "literal" and decimals.name.isdecimal() else ""
    size = value.size + min(int(written or _MOST_DECIMALS), _MOST_DECIMALS)
    return Value(size, Kind.NUMBER, size)


def arithmetic(node: "exp.Expr", left: Value, right: Value) -> Value | None:
    """What an operator makes of two values; None if it is not known."""
    from sqlglot import exp

    total = left.size + right.size
    if isinstance(node, exp.Predicate | exp.Connector | exp.NullSafeEQ | exp.NullSafeNEQ):
        return Value(SHORT, Kind.FIXED, total)
    fixed = left.kind is Kind.FIXED and right.kind is Kind.FIXED
    number = (
        Kind.OTHER if isinstance(node, exp.Add | exp.Sub) and Kind.OTHER in (left.kind, right.kind) else Kind.NUMBER
    )
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.IntDiv):
        if fixed:
            return Value(SHORT, Kind.FIXED, SHORT)
        if isinstance(node, exp.Add | exp.Sub):
            return Value(max(left.size, right.size) + 1, number, total)
        return Value(total + SHORT // 2, Kind.NUMBER, total + left.size * right.size // 8)
    if isinstance(node, exp.DPipe):
        return Value(total, work=total)
    if isinstance(node, exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor | exp.BitwiseLeftShift | exp.BitwiseRightShift):
        return Value(SHORT if fixed else total, Kind.FIXED if fixed else Kind.OTHER, total)
    return None
