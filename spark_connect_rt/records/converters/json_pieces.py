"""What columns of JSON text are put together of: texts, columns of texts, and columns that take few different ones.

Arrow's join costs by the piece, and its texts of numbers by the number. So a column of few different texts stays
numbers into a table as long as it can: what stands beside it is written into the table once, and neighbours become one
table. Whole numbers are two such columns, their thousands and the rest; a double of three places at most has a third
for what is behind its point. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LEAST_ROWS = 1_000  # fewer are not worth the tables
_MOST_TEXTS = 2_048  # of a table: it stays in the processor's cache
_MOST_THOUSANDS = 256
_TABLES = 64  # kept, about 2 MiB
_LOOKED_AT_FIRST = 64  # of a column of doubles
_MOST_PLAIN = 1e7  # Java writes an exponent from there on
_Codes = npt.NDArray[Any]
_Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of few different texts: each is one of each of ``parts``, joined."""

    codes: _Codes
    """Of which texts, each at least 0; in the order of ``itertools.product``."""
    parts: tuple[_Texts, ...]
    size: int
    """How many texts there are."""


Piece: TypeAlias = str | Coded | pa.Array
"""What is the same in every row, or of some column."""

_THREE_DIGITS: _Texts = tuple(f"{number:03}" for number in range(1_000))
_SMALL: _Texts = tuple(map(str, range(1_000)))
_FRACTIONS: _Texts = tuple("." + (digits.rstrip("0") or "0") for digits in _THREE_DIGITS)
_BOOLEANS: _Texts = ("false", "true")


def joined_texts(pieces: Sequence[Piece]) -> pa.Array:
    """Return what the pieces say of each row, one behind the other; at least one of them is of a column."""
    made = list[Piece]()
    for piece in pieces:
        joined = _as_one(made[-1], piece) if made else None
        if joined is None:
            made.append(piece)
        else:
            made[-1] = joined
    return pc.binary_join_element_wise(*map(_texts_of, made), "")


def _as_one(left: Piece, right: Piece) -> Piece | None:
    if isinstance(left, str):
        if isinstance(right, str):
            return left + right
        return Coded(right.codes, ((left,), *right.parts), right.size) if isinstance(right, Coded) else None
    if not isinstance(left, Coded):
        return None
    if isinstance(right, str):
        return Coded(left.codes, (*left.parts, (right,)), left.size)
    if not isinstance(right, Coded) or left.size * right.size > _MOST_TEXTS:
        return None
    codes = left.codes.astype(np.int32) * np.int32(right.size) + right.codes
    return Coded(codes, (*left.parts, *right.parts), left.size * right.size)


def _texts_of(piece: Piece) -> Any:
    if isinstance(piece, Coded):
        return pc.take(_table(piece.parts), pa.array(piece.codes, pa.int32()), boundscheck=False)
    return pa.scalar(piece) if isinstance(piece, str) else piece


@lru_cache(_TABLES)
def _table(parts: tuple[_Texts, ...]) -> pa.Array:
    return pa.array(list(map("".join, product(*parts))), pa.string())


def boolean_pieces(values: pa.Array) -> Sequence[Piece]:
    """Return the pieces of booleans, none of them null."""
    return [Coded(values.to_numpy(zero_copy_only=False).view(np.uint8), (_BOOLEANS,), len(_BOOLEANS))]


def integer_pieces(values: pa.Array) -> Sequence[Piece]:
    """Return the pieces of whole numbers, none of them null."""
    pieces = None if len(values) < LEAST_ROWS else _digits_of(values.to_numpy())
    return [pc.cast(values, pa.string())] if pieces is None else pieces


def _digits_of(numbers: npt.NDArray[Any]) -> Sequence[Piece] | None:
    """Return thousands and the rest; None: some are negative, or they are too far apart."""
    least, most = int(numbers.min()), int(numbers.max())
    if least < 0:
        return None
    if most < len(_SMALL):
        return [Coded(numbers, (_SMALL,), len(_SMALL))]
    first, last = least // 1_000, most // 1_000
    if not first or last - first >= _MOST_THOUSANDS:
        return None
    behind = (numbers - numbers.dtype.type(first * 1_000)).astype(np.int32)
    thousands = behind // np.int32(1_000)
    texts = tuple(map(str, range(first, last + 1)))
    return [
        Coded(thousands, (texts,), len(texts)),
        Coded(behind - thousands * np.int32(1_000), (_THREE_DIGITS,), len(_THREE_DIGITS)),
    ]


def double_pieces(values: pa.Array) -> Sequence[Piece] | None:
    """Return the pieces of doubles of three places at most, none of them null; None: some are others, or negative."""
    if len(values) < LEAST_ROWS or values.type != pa.float64():
        return None
    numbers = values.to_numpy()
    if _in_thousandths(numbers[:_LOOKED_AT_FIRST]) is None or (thousandths := _in_thousandths(numbers)) is None:
        return None
    whole = thousandths // 1_000
    digits = _digits_of(whole) or [pc.cast(pa.array(whole), pa.string())]
    return [*digits, Coded(thousandths - whole * 1_000, (_FRACTIONS,), len(_FRACTIONS))]


def _in_thousandths(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """Return doubles times 1,000; None: not all are what their decimals of three places are read as.

    Two decimals of at most 15 digits are never the same double, so those are the shortest, which Java writes.
    """
    if np.signbit(numbers).any() or not (numbers < _MOST_PLAIN).all():  # of -0.0, too, and of what is no number
        return None
    rounded = np.rint(numbers * 1_000.0)
    return rounded.astype(np.int64) if (rounded / 1_000.0 == numbers).all() else None
