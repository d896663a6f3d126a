"""Avro payloads of one schema as Arrow columns: records, and records in them, without an object or a dictionary each.

Owns the AwkwardForth program that reads a record's fields in order, one program for each schema, and the conversion of
the numbers. Anything unusual returns None and goes record by record. Examples are a payload that does not end with its
record, a value outside of its type, a text that is not UTF-8, arrays, maps, and unions of several types.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.forth_machine import ForthMachine64, Numbers, binary_pieces
from spark_connect_rt.records.registry.avro_values import AvroReadPlan
from spark_connect_rt.records.registry.registry_converter import LENGTH
from spark_connect_rt.records.transforms.struct_columns import ARROW_TYPES, moments

Mask = npt.NDArray[np.bool_]
_LEAST_ROWS = 16  # fewer do not pay for the program
_NUMBERS = {  # Avro's type -> word that reads it, type of the output
    "int": ("zigzag", "int64"),
    "long": ("zigzag", "int64"),
    "enum": ("zigzag", "int64"),
    "float": ("f", "float32"),
    "double": ("d", "float64"),
    "boolean": ("B", "uint8"),
}
_PIECES = ("string", "bytes", "fixed")


@dataclass(frozen=True, slots=True)
class _Part(ABC):
    """How a field of a record, or a record, is written. `at` is a number that no other part of the payload has."""

    at: int
    schema: Schema
    branch: int | None  # of its type in a union with null, None: it stands alone

    @property
    def outputs(self) -> dict[str, str]:
        """Return the program's outputs for it, and their types."""
        return {f"b{self.at}": "int64"} if self.branch is not None else {}

    @property
    def words(self) -> str:
        """Return the words that read it."""
        if self.branch is None:
            return self._read
        return f"data zigzag-> stack dup b{self.at} <- stack {self.branch} = if {self._read} else {self._without} then"

    @property
    def absent_words(self) -> str:
        """Return the words for it if the record around it is null."""
        return self._without if self.branch is None else f"{1 - self.branch} b{self.at} <- stack {self._without}"

    @property
    @abstractmethod
    def _read(self) -> str:
        """Return the words that read its value."""

    @property
    @abstractmethod
    def _without(self) -> str:
        """Return the words for its value where there is none."""


@dataclass(frozen=True, slots=True)
class _Field(_Part):
    """How one field of a record is written."""

    kind: str
    size: int = 0  # of fixed
    symbols: tuple[str, ...] = ()

    @property
    def outputs(self) -> dict[str, str]:
        names = super(_Field, self).outputs
        if self.kind in _NUMBERS:
            return {**names, f"n{self.at}": _NUMBERS[self.kind][1]}
        return {**names, f"p{self.at}": "int64", f"l{self.at}": "int64"}

    @property
    def _read(self) -> str:
        if self.kind in _NUMBERS:
            return f"data {_NUMBERS[self.kind][0]}-> n{self.at}"
        length = f"{self.size}" if self.kind == "fixed" else "data zigzag-> stack"
        return f"{length} dup l{self.at} <- stack data pos p{self.at} <- stack data skip"

    @property
    def _without(self) -> str:
        if self.kind in _NUMBERS:
            return f"0 n{self.at} <- stack"
        return f"-1 l{self.at} <- stack data pos p{self.at} <- stack"


@dataclass(frozen=True, slots=True)
class _Record(_Part):
    """How a record is written."""

    parts: Sequence[_Field | _Record]

    @property
    def is_flat(self) -> bool:
        return all(isinstance(part, _Field) for part in self.parts)

    @property
    def outputs(self) -> dict[str, str]:
        names = super(_Record, self).outputs
        return names | {name: kind for part in self.parts for name, kind in part.outputs.items()}

    @property
    def _read(self) -> str:
        return "\n  ".join(part.words for part in self.parts)

    @property
    def _without(self) -> str:
        return "\n  ".join(part.absent_words for part in self.parts)


class ColumnReader:
    """Reads the payloads of one schema, all of them records."""

    def __init__(self, frame: bytes, record: _Record) -> None:
        """Take the first bytes of each payload, and how the record behind them is written."""
        self.schema = record.schema
        self._frame = np.frombuffer(frame, np.uint8)
        self._record = record
        self._outputs = record.outputs
        declared = "\n".join(f"output {name} {kind}" for name, kind in self._outputs.items())
        words = record.words
        program = f"""
input data  input starts
output ends int64
{declared}
starts i-> stack 0 do
  starts i-> stack data seek
  {words}
  data pos ends <- stack
loop
"""
        self._machine = ForthMachine64(program)

    def column(self, data: pa.Array) -> pa.Array | None:
        """Return the structs of a binary column, None: these need rows."""
        return self._read(data, lambda *read: _array(self._record, None, *read))

    def structs(self, data: Sequence[bytes | None]) -> Sequence[Struct] | None:
        """Return a Struct of each payload, None: these need rows, as all with records in records."""
        if not self._record.is_flat:
            return None
        found: Sequence[Struct] | None = self._read(pa.array(data, pa.binary()), self._rows)
        return found

    def _read(self, data: pa.Array, make: Callable[[Numbers, dict[str, Numbers]], Any]) -> Any:
        if data.null_count or len(data) < _LEAST_ROWS or not pa.types.is_binary(data.type):
            return None
        try:
            outputs = self._run(data)
            return None if outputs is None else make(*outputs)
        except (pa.ArrowInvalid, DataError):  # rows find the one to blame
            return None

    def _run(self, column: pa.Array) -> tuple[Numbers, dict[str, Numbers]] | None:
        """Return the column's bytes and the program's outputs; None: a payload is of another schema, or damaged."""
        data = np.frombuffer(column.buffers()[2], np.uint8)
        ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        if (np.diff(ends) < len(self._frame)).any():
            return None
        if any((data[ends[:-1] + at] != byte).any() for at, byte in enumerate(self._frame)):
            return None
        machine = self._machine
        starts = np.concatenate(([len(column)], ends[:-1] + len(self._frame))).astype(np.int32)
        try:
            machine.run({"data": data, "starts": starts})
        except ValueError:  # "read beyond", "varint too big" ...
            return None
        if not np.array_equal(np.asarray(machine.output("ends")), ends[1:]):
            return None
        return data, {name: np.array(machine.output(name)) for name in self._outputs}

    def _rows(self, data: Numbers, outputs: dict[str, Numbers]) -> Sequence[Struct]:
        lists = []
        for field in self._record.parts:
            assert isinstance(field, _Field)
            values = _plain(field, None, data, outputs).to_pylist()
            if field.schema.name in logical.PYTHON_TYPES:
                of = field.schema
                values = [None if value is None else logical.from_primitive(of, value) for value in values]
            lists.append(values)
        return Struct.all_of_checked(self.schema, map(list, zip(*lists, strict=True)))


def column_reader(schema_id_frame: bytes, plan: AvroReadPlan) -> ColumnReader | None:
    """Return the reader of a plan's payloads, which begin with ``schema_id_frame``; None: they have no column form."""
    schema = plan.schema
    is_record = isinstance(plan.wire, dict) and plan.wire.get("type") == "record"
    if schema is None or schema.type is not Type.STRUCT or plan.resolved is not None or plan.raw or not is_record:
        return None
    record = _Parts().part(plan.wire, schema)
    assert len(schema_id_frame) == LENGTH
    return ColumnReader(schema_id_frame + plan.branch, record) if isinstance(record, _Record) else None


class _Parts:
    """Finds out how the parts of a payload are written."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._named: dict[str, Any] = {}

    def part(self, wire: Any, schema: Schema) -> _Field | _Record | None:
        """Return how a value of this schema is written. None: it has no column form."""
        branch = None
        if isinstance(wire, list):
            if len(wire) != 2 or wire.count("null") != 1:
                return None
            branch = 1 - wire.index("null")
            wire = wire[branch]
        if isinstance(wire, dict) and "name" in wire:
            self._named[wire["name"]] = wire
        given = self._named.get(wire, {"type": wire}) if isinstance(wire, str) else wire
        kind = given["type"]
        if kind == "record":
            return self._record(given, schema, branch)
        if kind not in (*_NUMBERS, *_PIECES) or schema.type not in ARROW_TYPES:
            return None
        symbols = tuple(given.get("symbols", ()))
        return _Field(next(self._numbers), schema, branch, kind, given.get("size", 0), symbols)

    def _record(self, given: Any, schema: Schema, branch: int | None) -> _Record | None:
        members = given["fields"]
        is_same = [member["name"] for member in members] == [field.name for field in schema.fields]
        if not members or not is_same or schema.type is not Type.STRUCT:
            return None
        at = next(self._numbers)
        found = [self.part(member["type"], field.schema) for member, field in zip(members, schema.fields, strict=True)]
        parts = [part for part in found if part is not None]
        return _Record(at, schema, branch, parts) if len(parts) == len(found) else None


def _array(part: _Field | _Record, absent: Mask | None, data: Numbers, outputs: dict[str, Numbers]) -> pa.Array | None:
    """Return the column of a part, null where the record around it is absent. None: it has none.

    Raises DataError, ArrowInvalid: a value does not fit the schema.
    """
    if isinstance(part, _Field):
        return _logical_column(part.schema, _plain(part, absent, data, outputs))
    absent = _absent(part, absent, outputs)
    arrays = [_array(member, absent, data, outputs) for member in part.parts]
    if any(array is None for array in arrays):
        return None
    names = [field.name for field in part.schema.fields]
    return pa.StructArray.from_arrays(arrays, names, mask=None if absent is None else pa.array(absent))


def _absent(part: _Field | _Record, around: Mask | None, outputs: dict[str, Numbers]) -> Mask | None:
    """Return which values are null. Raises DataError: an unknown branch."""
    if part.branch is None:
        return around
    branches = outputs[f"b{part.at}"]
    _check(bool(((branches == 0) | (branches == 1)).all()))
    mask: Mask = branches != part.branch
    return mask


def _plain(field: _Field, around: Mask | None, data: Numbers, outputs: dict[str, Numbers]) -> pa.Array:
    """Return a field's values in Avro's form; logical types as the numbers and bytes that they are.

    Raises DataError, ArrowInvalid: a value does not fit the schema.
    """
    mask = _absent(field, around, outputs)
    if field.kind in _PIECES:
        lengths = outputs[f"l{field.at}"]
        _check(bool(((lengths >= 0) | (mask if mask is not None else False)).all()))
        pieces = binary_pieces(data, outputs[f"p{field.at}"], lengths)
        return pieces.cast(pa.string()) if field.kind == "string" else pieces
    numbers = outputs[f"n{field.at}"]
    if field.kind == "enum":
        _check(bool(((numbers >= 0) & (numbers < len(field.symbols))).all()))
        return pa.array(field.symbols, pa.string()).take(pa.array(numbers, mask=mask))
    if field.kind == "boolean":
        _check(bool((numbers <= 1).all()))
        return pa.array(numbers.astype(np.bool_), mask=mask)
    return pa.array(numbers, mask=mask).cast(ARROW_TYPES[field.schema.type])


def _logical_column(schema: Schema, column: pa.Array) -> pa.Array | None:
    """Return the column of a schema's values; None: it has none, or a value is outside of their range."""
    return moments(schema, column) if schema.name in logical.PYTHON_TYPES else column


def _check(is_good: bool) -> None:
    if not is_good:
        raise DataError("a value does not fit its Avro schema")
