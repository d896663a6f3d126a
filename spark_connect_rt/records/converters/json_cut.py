"""Flat JSON objects of one shape, cut at their quotes into columns: no parser, and no Python object for each text.

Pure. In a text without an escape, a quote is always the edge of a name or of a string. So the quotes of all texts are a
table of numbers, from which the begin and end of each value follow. All texts have to have the same text between two
values. Values are checked by JSON's grammar where Arrow accepts more than that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_QUOTE, _BACKSLASH, _SPACE, _CLOSING = 0x22, 0x5C, 0x20, 0x7D
_MINUS, _ZERO, _NINE = 0x2D, 0x30, 0x39
_NULL = b"null"
_INTEGER = r"-?(?:0|[1-9]\d*)"
_FLOAT = rf"{_INTEGER}(?:\.\d+)?(?:[eE][+-]?\d+)?"
_VALUES: Mapping[pa.DataType, str] = {
    pa.int64(): f"(?:{_INTEGER}|null)",
    pa.float64(): f"(?:{_FLOAT}|null)",
    pa.string(): r'(?:"[^"\\\x00-\x1f]*"|null)',
    pa.bool_(): "(?:true|false|null)",
}
_GAPS = ("", " ")  # after colons and commas: as Jackson, orjson and PostgreSQL write, and as Python's json does
Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Spans:
    """Where the value of a member is in each text, a string without its quotes. `null`: which strings are null."""

    begin: Numbers
    end: Numbers
    null: Mask | None = None


class CutColumn(NamedTuple):
    """The values of a member. `texts`: numbers as they are written, a null as the word."""

    values: pa.Array
    texts: pa.StringArray | None


@dataclass(frozen=True, slots=True)
class Cut:
    """The shape of texts that are cut.

    Attributes:
        schema: the members in the order of the texts: int64, float64, string and bool.
        gap: what is after each colon and comma.
    """

    schema: pa.Schema
    gap: str

    @staticmethod
    def of(schema: pa.Schema, text: bytes) -> Cut | None:
        """Return the shape of a text with these members; None: the text has another one.

        Args:
            schema: names have no quote, and no character that JSON may write as an escape.
            text: the first of those that are cut.
        """
        for gap in _GAPS:
            members = [f'"{re.escape(member.name)}":{gap}{_VALUES[member.type]}' for member in schema]
            if re.fullmatch((r"\{" + f",{gap}".join(members) + r"\}").encode(), text):
                return Cut(schema, gap)
        return None

    def columns(self, texts: pa.StringArray) -> list[CutColumn] | None:
        """Return the members' columns; None: some text is not so. Raises pa.ArrowException: a number is too large."""
        offsets, content = texts.buffers()[1:]
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        content = content.slice(int(ends[0]), int(ends[-1] - ends[0]))
        read = np.frombuffer(content, np.uint8)
        if not len(read) or read.min() < _SPACE or (read == _BACKSLASH).any():
            return None
        spans = self._spans(read, ends[:-1] - ends[0], ends[1:] - ends[0])
        return None if spans is None else _columns(self.schema, spans, read)

    def _spans(self, read: Bytes, begins: Numbers, ends: Numbers) -> list[_Spans] | None:
        """Return where the values are; None: the text between two of them is not that of the shape."""
        quotes = np.flatnonzero(read == _QUOTE)
        if not len(quotes):
            return None
        first = np.searchsorted(quotes, ends)
        at = np.concatenate([first[:1] * 0, first[:-1]])  # which quote comes next, in each text

        def quote_at(places: Numbers) -> Numbers:
            found: Numbers = quotes.take(places, mode="clip")  # a text may have too few: then `at` is wrong at the end
            return found

        spans, place, last = [], begins, len(self.schema) - 1
        for number, member in enumerate(self.schema):
            opening = f'{"," + self.gap if number else "{"}"{member.name}":{self.gap}'.encode()
            begin = place + len(opening)
            if begin.max() >= len(read) or not _all_are(read, place, opening):
                return None
            if member.type == pa.string():
                opened, place, at = quote_at(at + 2), quote_at(at + 3) + 1, at + 4
                other = np.flatnonzero(opened != begin)
                null = None
                if len(other):
                    if not _all_are(read, begin[other], _NULL):
                        return None
                    place[other] = begin[other] + len(_NULL)
                    at[other] -= 2
                    null = np.zeros(len(begin), bool)
                    null[other] = True
                spans.append(_Spans(begin + 1, place - 1, null))
            else:
                at = at + 2
                place = ends - 1 if number == last else quote_at(at) - 1 - len(self.gap)
                spans.append(_Spans(begin, place))
            if (place < begin).any():
                return None
        is_whole = (at == first) & (place + 1 == ends)
        return spans if is_whole.all() and (read[place] == _CLOSING).all() else None


def _all_are(read: Bytes, places: Numbers, text: bytes) -> bool:
    """Return whether the text is at each of these places."""
    if places.max() + len(text) > len(read):
        return False
    pieces = np.ndarray((len(read) - len(text) + 1,), f"V{len(text)}", read.data, strides=(1,))
    return pieces[places].tobytes() == text * len(places)


def _columns(schema: pa.Schema, spans: Sequence[_Spans], read: Bytes) -> list[CutColumn] | None:
    count, edges = len(spans[0].begin), 2 * len(spans)
    bounds = np.empty((count, edges), np.int32)
    for number, span in enumerate(spans):
        bounds[:, 2 * number], bounds[:, 2 * number + 1] = span.begin, span.end
    # Every second piece is the text between two values.
    pieces = pa.StringArray.from_buffers(count * edges - 1, pa.py_buffer(bounds), pa.py_buffer(read))
    columns = []
    for number, (member, span) in enumerate(zip(schema, spans, strict=True)):
        if member.type == pa.bool_():
            texts, column = None, _booleans(read, span)
        else:
            texts = pieces.take(pa.array(np.arange(2 * number, count * edges, edges), mask=span.null))
            column = texts if member.type == pa.string() else _numbers(texts, member.type)
        if column is None:
            return None
        columns.append(CutColumn(column, texts))
    return columns


def _booleans(read: Bytes, span: _Spans) -> pa.Array | None:
    first, lengths, known = read[span.begin], span.end - span.begin, 0
    masks = []
    for word in (b"true", b"false", _NULL):
        is_it = first == word[0]
        places = span.begin[is_it]
        masks.append(is_it)
        known += len(places)
        if len(places) and not ((lengths[is_it] == len(word)).all() and _all_are(read, places, word)):
            return None
    return pa.array(masks[0], mask=masks[2]) if known == len(first) else None


def _numbers(texts: pa.StringArray, kind: pa.DataType) -> pa.Array | None:
    """Return numbers; None: some text is not a number in JSON."""
    if not _are_numbers(texts, kind):
        texts = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
        if texts.null_count == len(texts):
            return pa.nulls(len(texts), kind)
        if not _are_numbers(texts.drop_null(), kind):
            return None
    return texts.cast(kind)


def _are_numbers(texts: pa.StringArray, kind: pa.DataType) -> bool:
    """Return whether all texts are numbers by JSON's grammar, if Arrow reads them as numbers of this kind.

    Of whole numbers, Arrow also reads leading zeros and 0x. Of others, it also reads a plus, names such as nan, and a
    point without digits on both sides.
    """
    offsets, content = texts.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    begins, lengths = bounds[:-1], np.diff(bounds)
    if not lengths.all():
        return False
    read = np.frombuffer(content, np.uint8)
    negative = (read[begins] == _MINUS).view(np.int8)
    if (lengths <= negative).any():
        return False
    first = read[begins + negative]
    if not _is_digit(first).all():
        return False
    leading_zeros = np.flatnonzero((first == _ZERO) & (lengths > negative + 1))
    if kind == pa.int64():
        return not len(leading_zeros)
    if _is_digit(read[(begins + negative)[leading_zeros] + 1]).any():
        return False
    used = read[bounds[0] : bounds[-1]]
    if used.max() <= _NINE:  # no exponent
        return bool(_is_digit(read[bounds[1:] - 1]).all())
    return bool(pc.all(pc.match_substring_regex(texts, rf"\A{_FLOAT}\z")).as_py())


def _is_digit(letters: Bytes) -> Mask:
    found: Mask = (letters >= _ZERO) & (letters <= _NINE)
    return found
