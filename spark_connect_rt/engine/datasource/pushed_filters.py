"""Filters that Spark hands to a read (4.1 and later): which are taken, and what rows and offsets they leave.

Taken are comparisons of ``topic``, ``partition``, ``offset`` and ``timestamp`` with values, where the read has such a
column; all others go back to Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

PUSHED = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
NOT_NULL = "IsNotNull"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARISONS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {  # Arrow's function by its name
    "EqualTo": ("equal", operator.eq),
    "GreaterThan": ("greater", operator.gt),
    "GreaterThanOrEqual": ("greater_equal", operator.ge),
    "LessThan": ("less", operator.lt),
    "LessThanOrEqual": ("less_equal", operator.le),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One filter: a column compared with a value (``In``: with a tuple of them). Null is never let through.

    Spark says ``IsNotNull`` of every column that it compares.
    """

    column: str
    comparison: str  # the name of Spark's class: IsNotNull, In, or one of the comparisons
    value: Any = None
    negated: bool = False

    def lets(self, value: Any) -> bool:
        """Return whether a row with this value stays."""
        if value is None:
            return False
        if self.comparison == NOT_NULL:
            return True
        if self.comparison == "In":
            return bool((value in self.value) is not self.negated)
        return _COMPARISONS[self.comparison][1](value, self.value) is not self.negated

    def mask(self, column: pa.Array) -> pa.Array:
        """Return which rows of a column the filter keeps, as booleans."""
        import pyarrow.compute as pc  # a tenth of what a process that plans costs, and that masks nothing

        kind = column.type
        if self.comparison == NOT_NULL:
            return pc.is_valid(column)
        if self.comparison == "In":
            found = pc.is_in(column, value_set=pa.array(self.value, kind))
            found = pc.and_(found, pc.is_valid(column)) if not self.negated else pc.or_(found, pc.is_null(column))
        else:
            compared = pc.call_function(_COMPARISONS[self.comparison][0], [column, pa.scalar(self.value, kind)])
            found = pc.fill_null(compared, self.negated)
        return pc.invert(found) if self.negated else found


def taken(filters: Iterable[Any], columns: Sequence[str]) -> tuple[list[Comparison], list[Any]]:
    """Return the conditions that a read of these columns keeps to, and the filters that Spark has to apply."""
    conditions, left = [], []
    for filter_ in filters:
        condition = _condition(filter_)
        if condition is not None and condition.column in columns:
            conditions.append(condition)
        else:
            left.append(filter_)
    return conditions, left


def kept_rows(batch: pa.RecordBatch, conditions: Sequence[Comparison]) -> pa.RecordBatch:
    """Return the rows of a batch that all conditions let through."""
    for condition in conditions:
        batch = batch.filter(condition.mask(batch.column(condition.column)))
    return batch


def bounds_of(conditions: Sequence[Comparison], column: str) -> tuple[int | None, int | None]:
    """Return (first, last) of the whole numbers that conditions can let through, None: open on that side."""
    first: int | None = None
    last: int | None = None
    for condition in conditions:
        if condition.column != column or condition.negated:
            continue
        values = condition.value if condition.comparison == "In" else (condition.value,)
        if condition.comparison in ("EqualTo", "In", "GreaterThan", "GreaterThanOrEqual"):
            least = min(values) + (condition.comparison == "GreaterThan")
            first = least if first is None else max(first, least)
        if condition.comparison in ("EqualTo", "In", "LessThan", "LessThanOrEqual"):
            most = max(values) - (condition.comparison == "LessThan")
            last = most if last is None else min(last, most)
    return first, last


def since_ms(conditions: Iterable[Comparison]) -> int | None:
    """Return a time before which no record can have a timestamp that the conditions let through."""
    least = [
        (condition.value - _EPOCH) // timedelta(milliseconds=1)
        for condition in conditions
        if condition.column == "timestamp"
        and not condition.negated
        and condition.comparison.startswith(("Equal", "Greater"))
    ]
    return max(least, default=None)


def _condition(filter_: Any) -> Comparison | None:
    """Return what one of Spark's filters says, None where it is not taken."""
    negated = type(filter_).__name__ == "Not"
    plain = filter_.child if negated else filter_
    name = type(plain).__name__
    column = ".".join(getattr(plain, "attribute", ()))
    if column not in PUSHED:
        return None
    if name == NOT_NULL and not negated:
        return Comparison(column, name)
    if name != "In" and name not in _COMPARISONS:
        return None
    values = tuple(plain.value) if name == "In" else (plain.value,)
    try:
        if not values or pa.array(values, PUSHED[column]).null_count:
            return None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return Comparison(column, name, values if name == "In" else plain.value, negated)
