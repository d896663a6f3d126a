"""A set of connectors and tasks in few bytes, and back.

Owns the layout: connectors by name, each without what it shares with the name before it, and its task numbers as runs;
the whole deflated where that is shorter. The same set always packs to the same bytes. Readers are bounded: no blob,
however hostile, unpacks to more than ``LARGEST_TASKS``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError

Work = tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]
"""Connectors and tasks."""

LARGEST_TASKS = 4_000_000
LARGEST_NUMBER = 2**31 - 1  # of a task, as in Java's form
LARGEST_NAME_BYTES = 0x7FFF
_LARGEST_PLAIN_BYTES = 64 * 2**20
_WORTH_DEFLATING = 40  # bytes
_REMEMBERED_ITEMS = 20_000


def pack_work(work: Work, shortest: bool = True) -> bytes:
    """Return the bytes of a set, whatever the order it comes in; ``shortest`` False: never deflated.

    Raises DataError when a connector's name is longer than the group protocol carries.
    """
    few = len(work[0]) + len(work[1]) <= _REMEMBERED_ITEMS
    plain = (_remembered if few else _plain)(work)
    if shortest and len(plain) > _WORTH_DEFLATING:
        deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
        short = deflater.compress(plain) + deflater.flush()
        if len(short) < len(plain):
            return varint(len(short) << 1 | 1) + short
    return varint(len(plain) << 1) + plain


def varint(number: int) -> bytes:
    """Return an unsigned number in as many times 7 bits as it needs, lowest first."""
    if number < 0x80:
        return bytes((number,))
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def zigzag(number: int) -> int:
    """Return a signed number as an unsigned one, small where it is near 0."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def zigzag_read(number: int) -> int:
    """Return the number that ``zigzag`` made unsigned."""
    return number >> 1 if number & 1 == 0 else -(number + 1 >> 1)


class ByteReader:
    """Walks one blob; every short or senseless field is a DataError that says where."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Return whether nothing is left."""
        return self._at >= len(self._blob)

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def varint(self) -> int:
        """Return the next unsigned number, at most 63 bits."""
        number = shift = 0
        blob, at = self._blob, self._at
        try:
            while blob[at] >= 0x80 and shift < 56:
                number |= (blob[at] & 0x7F) << shift
                shift += 7
                at += 1
            number |= blob[at] << shift
        except IndexError:
            raise self._broken(1) from None
        if blob[at] >= 0x80:
            raise DataError(f"group protocol number before byte {at} has more than 63 bits")
        self._at = at + 1
        return number

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self._at + size
        if end > len(self._blob):
            raise self._broken(size)
        part = self._blob[self._at : end]
        self._at = end
        return part

    def text(self) -> str:
        """Return the next text: its length, then UTF-8."""
        raw = self.take(self.varint())
        return self._decoded(raw)

    def work(self) -> Work:
        """Return the next packed set, connectors and tasks in order."""
        length = self.varint()
        packed = self.take(length >> 1)
        return _unpacked(_inflated(packed) if length & 1 else packed)

    def name_after(self, before: bytes) -> tuple[bytes, str]:
        """Return the next name, of which so many bytes are those of the name before."""
        blob, at = self._blob, self._at
        head = blob[at : at + 2]
        if len(head) == 2 and (shared := head[0]) < 0x80 and (size := head[1]) < 0x80 and shared <= len(before):
            raw = before[:shared] + blob[at + 2 : at + 2 + size]  # nearly every name
            if len(raw) == shared + size:
                self._at = at + 2 + size
                return raw, self._decoded(raw)
        shared = self.varint()
        raw = before[:shared] + self.take(self.varint())
        if shared > len(before) or len(raw) > LARGEST_NAME_BYTES:
            raise DataError(f"group protocol name before byte {self._at} cannot be read")
        return raw, self._decoded(raw)

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"group protocol text before byte {self._at} is not UTF-8") from error

    def _broken(self, wanted: int) -> DataError:
        return DataError(f"group protocol blob of {len(self._blob)} bytes breaks at byte {self._at} ({wanted} wanted)")


def _plain(work: Work) -> bytes:
    connectors, tasks = work
    numbers: dict[str, list[int]] = {name: [] for name in connectors}
    for task in tasks:
        numbers.setdefault(task[0], []).append(task[1])
    alone, parts, before = set(connectors), [], ""
    entry = _entry if len(numbers) <= _REMEMBERED_ITEMS else _entry.__wrapped__
    for name in sorted(numbers):
        held = numbers[name]
        parts.append(entry(name, before, tuple(sorted(set(held))) if len(held) > 1 else tuple(held), name in alone))
        before = name
    return b"".join(parts)


@lru_cache(maxsize=_REMEMBERED_ITEMS)  # of what a worker holds a rebalance changes little
def _entry(name: str, before: str, numbers: tuple[int, ...], alone: bool) -> bytes:
    """Return the bytes of one connector behind another one."""
    raw = name.encode("utf-8")
    if len(raw) > LARGEST_NAME_BYTES:
        raise DataError(f"{name[:40]!r}... is {len(raw)} bytes; the group protocol carries at most 32767")
    shared = _shared(raw, before.encode("utf-8"))
    runs = list(_runs(numbers))
    parts = [varint(shared), varint(len(raw) - shared), raw[shared:], varint(len(runs) << 1 | alone)]
    after = 0
    for first, count in runs:
        parts += [varint(first - after), varint(count - 1)]
        after = first + count
    return b"".join(parts)


_remembered = lru_cache(maxsize=4)(_plain)  # a rebalance packs what one worker holds several times


def _shared(name: bytes, before: bytes) -> int:
    """Return how many bytes two names begin with in common, at most 255."""
    shared = min(len(name), len(before), 255)
    while name[:shared] != before[:shared]:
        shared -= 1
    return shared


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of the runs in ascending numbers."""
    first = last = -2
    for number in numbers:
        if number != last + 1:
            if first >= 0:
                yield first, last - first + 1
            first = number
        last = number
    if first >= 0:
        yield first, last - first + 1


def _inflated(packed: bytes) -> bytes:
    inflater = zlib.decompressobj(-15)
    try:
        plain = inflater.decompress(packed, _LARGEST_PLAIN_BYTES)
    except zlib.error as error:
        raise DataError(f"group protocol list cannot be inflated: {error}") from error
    if not inflater.eof:
        raise DataError(f"group protocol list of {len(packed)} bytes is cut short, or has no end")
    return plain


def _unpacked(plain: bytes) -> Work:
    reader = ByteReader(plain)
    connectors: list[str] = []
    tasks: list[ConnectorTaskId] = []
    before = b""
    while not reader.at_end:
        before, name = reader.name_after(before)
        runs = reader.varint()
        if runs & 1:
            connectors.append(name)
        after = 0
        for _ in range(runs >> 1):
            first = after + reader.varint()
            after = first + reader.varint() + 1
            if after > LARGEST_NUMBER + 1 or after - first + len(tasks) > LARGEST_TASKS:
                raise DataError(f"group protocol list names tasks {name[:40]}-{first} to {after - 1}: too many")
            tasks += [ConnectorTaskId(name, number) for number in range(first, after)]
    return tuple(connectors), tuple(tasks)
