"""Flat JSON objects of one shape, cut at their quotes into columns: no parser, and no Python object for each text.

Pure. In a text without an escape, a quote is always the edge of a name or of a string. So the quotes of all texts are a
table of numbers, from which the begin and end of each value follow. All texts have to have the same text between two
values. Values are checked by JSON's grammar where Arrow accepts more than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_QUOTE, _COMMA, _BACKSLASH, _SPACE, _CLOSING = 0x22, 0x2C, 0x5C, 0x20, 0x7D
_MINUS, _POINT, _ZERO, _ONE, _NINE = 0x2D, 0x2E, 0x30, 0x31, 0x39
_NULL = b"null"
_TRUE, _FALS, _NULL_WORD = np.frombuffer(b"truefals" + _NULL, np.uint32)
_E = 0x65
_INTEGER = r"-?(?:0|[1-9]\d*)"
_FLOAT = rf"{_INTEGER}(?:\.\d+)?(?:[eE][+-]?\d+)?"
_VALUES: Mapping[pa.DataType, str] = {
    pa.int64(): f"(?:{_INTEGER}|null)",
    pa.float64(): f"(?:{_FLOAT}|null)",
    pa.string(): r'(?:"[^"\\\x00-\x1f]*"|null)',
    pa.bool_(): "(?:true|false|null)",
}
_GAPS = ("", " ")  # after colons and commas: as Jackson, orjson and PostgreSQL write, and as Python's json does
_LOWEST_BIT = np.array([(number & -number).bit_length() - 1 for number in range(256)])
_PIECE_BYTES = 1 << 20  # of texts
Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


def pieces_of(data: pa.BinaryArray, unread: int = 0) -> Iterator[pa.BinaryArray]:
    """Yield texts in pieces that stay in the processor's cache with all that is looked up in them.

    Args:
        unread: bytes of each text that are not cut.
    """
    bounds, _ = _content(data)
    size = int(bounds[-1] - bounds[0]) - unread * len(data)
    count = max(1, len(data) * _PIECE_BYTES // max(1, size))
    for first in range(0, len(data), count):
        yield data.slice(first, count)


class _Places(NamedTuple):
    """Where values are, a row of `bounds` for the begins of a member, one for its ends. A string is without quotes.

    `nulls`: by member, which strings are null.
    """

    bounds: npt.NDArray[np.int32]
    nulls: dict[int, Mask]


class CutColumn(NamedTuple):
    """The values of a member. `texts`: its numbers as they are written, nulls as the word. None: no number is whole."""

    values: pa.Array
    texts: pa.StringArray | None = None


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

    def columns(self, pieces: Iterable[pa.StringArray | None]) -> list[CutColumn] | None:
        """Return the members' columns of all texts; None: some text is not so, or a piece of them is None.

        Raises pa.ArrowException: a number is too large.
        """
        parts = []
        for texts in pieces:
            try:
                values = None if texts is None else self._values(texts)
            except IndexError:  # a text ends too early
                return None
            if values is None:
                return None
            parts.append(values)
        columns = []
        for member, chunks in zip(self.schema, zip(*parts, strict=True), strict=True):
            values = pa.concat_arrays(chunks)
            column = CutColumn(values) if member.type in (pa.string(), pa.bool_()) else _numbers(values, member.type)
            if column is None:
                return None
            columns.append(column)
        return columns

    def _values(self, texts: pa.StringArray) -> list[pa.Array] | None:
        """Return the members' values in these texts, numbers as they are written; None: some text is not so.

        Raises IndexError: a text is too short.
        """
        bounds, read = _content(texts)
        read, edges = read[bounds[0] :], bounds.astype(np.int64) - bounds[0]
        if not len(read) or read.min() < _SPACE or (read == _BACKSLASH).any():
            return None
        commas = _places_of(_COMMA, read)
        are_apart = len(commas) == (len(self.schema) - 1) * len(texts)  # else some are in strings
        places = self._at_commas(commas, read, edges) if are_apart else self._at_quotes(read, edges[:-1], edges[1:])
        if places is None:
            return None
        nulls, spans = places.nulls, places.bounds
        bounds = spans.T.copy()  # begin, end, begin, end of a text's values: every second part is between two values
        parts = pa.StringArray.from_buffers(bounds.size - 1, pa.py_buffer(bounds), pa.py_buffer(read))
        first_of_each = pa.array(np.arange(0, bounds.size, 2 * len(self.schema), dtype=np.int32))
        values = []
        for number, member in enumerate(self.schema):
            if member.type == pa.bool_():
                value = _booleans(read, *spans[2 * number : 2 * number + 2].astype(np.int64))
            else:
                value = pc.take(parts.slice(2 * number), first_of_each, boundscheck=False)
            if value is None:
                return None
            values.append(_with_nulls(value, nulls[number]) if number in nulls else value)
        return values

    def _openings(self) -> list[bytes]:
        """Return the text before each value."""
        return [
            f'{"," + self.gap if number else "{"}"{name}":{self.gap}'.encode()
            for number, name in enumerate(self.schema.names)
        ]

    def _at_commas(self, commas: Numbers, read: Bytes, edges: Numbers) -> _Places | None:
        """Return where the values are, one before each comma; None: some text is not so. Cheaper than by quotes."""
        begins, ends, count = edges[:-1], edges[1:], len(self.schema)
        openings = self._openings()
        for number, opening in enumerate(openings):
            if not _all_are(read, commas[number - 1 :: count - 1] if number else begins, opening):
                return None
        bounds = np.empty((2 * count, len(begins)), np.int32)
        bounds[0], bounds[-1] = begins, ends - 1
        bounds[2::2] = bounds[1:-1:2] = commas.reshape(len(begins), count - 1).T
        bounds[::2] += np.array([[len(opening)] for opening in openings], np.int32)
        if (bounds[1::2] < bounds[::2]).any():
            return None
        nulls, text_count = dict[int, Mask](), 0
        for number, member in enumerate(self.schema):
            if member.type != pa.string():
                continue
            span = bounds[2 * number : 2 * number + 2]
            opened, closed = span.astype(np.int64)
            is_text = (read[opened] == _QUOTE) & (read[closed - 1] == _QUOTE) & (closed - opened > 1)
            text_count += int(np.count_nonzero(is_text))
            span += np.array([[1], [-1]], np.int32)
            if is_text.all():
                continue
            null = ~is_text
            begin = opened[null]
            if not ((closed[null] == begin + len(_NULL)).all() and _all_are(read, begin, _NULL)):
                return None
            nulls[number], span[1, null] = null, begin + 1
        quotes = 2 * (count * len(begins) + text_count)
        is_whole = (read[ends - 1] == _CLOSING).all() and np.count_nonzero(read == _QUOTE) == quotes
        return _Places(bounds, nulls) if is_whole else None

    def _at_quotes(self, read: Bytes, begins: Numbers, ends: Numbers) -> _Places | None:
        """Return where the values are; None: the text between two of them is not that of the shape."""
        quotes = np.flatnonzero(read == _QUOTE)
        if not len(quotes):
            return None
        first = np.searchsorted(quotes, ends)
        at = np.concatenate([first[:1] * 0, first[:-1]])  # which quote comes next, in each text

        def quote_at(places: Numbers) -> Numbers:
            found: Numbers = quotes.take(places, mode="clip")  # a text may have too few: then `at` is wrong at the end
            return found

        bounds = np.empty((2 * len(self.schema), len(begins)), np.int32)
        place, last, nulls = begins, len(self.schema) - 1, dict[int, Mask]()
        for number, (member, opening) in enumerate(zip(self.schema, self._openings(), strict=True)):
            begin = place + len(opening)
            if not _all_are(read, place, opening):
                return None
            if member.type == pa.string():
                opened, place, at = quote_at(at + 2), quote_at(at + 3) + 1, at + 4
                end, null = place - 1, opened != begin
                if null.any():
                    if not _all_are(read, begin[null], _NULL):
                        return None
                    place[null], end[null] = begin[null] + len(_NULL), begin[null] + 1
                    at[null] -= 2
                    nulls[number] = null
                bounds[2 * number], bounds[2 * number + 1] = begin + 1, end
            else:
                at = at + 2
                place = ends - 1 if number == last else quote_at(at) - 1 - len(self.gap)
                bounds[2 * number], bounds[2 * number + 1] = begin, place
            if (place < begin).any():
                return None
        is_whole = (at == first) & (place + 1 == ends)
        return _Places(bounds, nulls) if is_whole.all() and (read[place] == _CLOSING).all() else None


def _places_of(letter: int, read: Bytes) -> Numbers:
    """Return the places of a letter, ascending. Half the time of `flatnonzero` if none is within 8 bytes of another."""
    are_it = read == letter
    groups = np.packbits(are_it, bitorder="little")
    places = np.flatnonzero(groups != 0)
    group = groups.take(places)
    if (group & (group - np.uint8(1))).any():  # two of them in one group
        return np.flatnonzero(are_it)
    places <<= 3
    places += _LOWEST_BIT.take(group)
    return places


def _all_are(read: Bytes, places: Numbers, text: bytes) -> bool:
    """Return whether the text is at each of these places. Raises IndexError: one is too far behind."""
    if len(read) < len(text):
        return False
    pieces = np.ndarray((len(read) - len(text) + 1,), f"V{len(text)}", read.data, strides=(1,))
    return pieces[places].tobytes() == text * len(places)


def _booleans(read: Bytes, begins: Numbers, ends: Numbers) -> pa.Array | None:
    if len(read) < _TRUE.itemsize:
        return None
    words = np.ndarray((len(read) - _TRUE.itemsize + 1,), np.uint32, read.data, strides=(1,))[begins]
    is_true, is_false, is_null = words == _TRUE, words == _FALS, words == _NULL_WORD
    are_known = (is_true | is_false | is_null).all() and (ends - begins == _TRUE.itemsize + is_false).all()
    if not are_known or not (read[begins[is_false] + _TRUE.itemsize] == _E).all():
        return None
    return pa.array(is_true, mask=is_null)


def _with_nulls(texts: pa.StringArray, null: Mask) -> pa.StringArray:
    _, offsets, content = texts.buffers()
    return pa.StringArray.from_buffers(len(texts), offsets, content, pa.array(~null).buffers()[1])


def _numbers(texts: pa.StringArray, kind: pa.DataType) -> CutColumn | None:
    """Return numbers; None: some text is not a number in JSON."""
    present = texts
    if not _are_numbers(texts, kind):
        present = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
        if present.null_count == len(texts):
            return CutColumn(pa.nulls(len(texts), kind))
        if not _are_numbers(present.drop_null(), kind):
            return None
    # A number has one point at most.
    some_are_whole = kind == pa.int64() or (
        np.count_nonzero(_content(texts)[1] == _POINT) != len(texts) - present.null_count
    )
    return CutColumn(present.cast(kind), texts if some_are_whole else None)


def _content(texts: pa.StringArray) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the bounds of the texts, and what they are in, up to the last one's end."""
    offsets, content = texts.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return bounds, np.frombuffer(content, np.uint8)[: bounds[-1]]


def _are_numbers(texts: pa.StringArray, kind: pa.DataType) -> bool:
    """Return whether all texts are numbers by JSON's grammar, if Arrow reads them as numbers of this kind.

    Of whole numbers, Arrow also reads leading zeros and 0x. Of others, it also reads a plus, names such as nan, and a
    point without digits on both sides.
    """
    bounds, read = _content(texts)
    begins, lengths = bounds[:-1], np.diff(bounds)
    if not lengths.all():
        return False
    others = np.flatnonzero(read[begins] - np.uint8(_ONE) > _NINE - _ONE)
    if len(others) and not _are_begun(kind, read, begins[others], lengths[others]):
        return False
    if kind == pa.int64():
        return True
    if read[bounds[0] :].max() <= _NINE:  # no exponent
        return bool(_is_digit(read[bounds[1:] - 1]).all())
    return bool(pc.all(pc.match_substring_regex(texts, rf"\A{_FLOAT}\z")).as_py())


def _are_begun(kind: pa.DataType, read: Bytes, begins: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> bool:
    """Return whether texts begin as numbers, with a minus or not."""
    negative = (read[begins] == _MINUS).view(np.int8)
    if (lengths <= negative).any():
        return False
    first = read[begins + negative]
    if not _is_digit(first).all():
        return False
    leading_zeros = np.flatnonzero((first == _ZERO) & (lengths > negative + 1))
    if kind == pa.int64():
        return not len(leading_zeros)
    return not _is_digit(read[(begins + negative)[leading_zeros] + 1]).any()


def _is_digit(letters: Bytes) -> Mask:
    found: Mask = letters - np.uint8(_ZERO) <= _NINE - _ZERO  # lesser ones become large
    return found
