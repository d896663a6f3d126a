"""Generated records for trials, demonstrations and tests (``datagen``), the same ones at every run.

Partition ``{"task": t}``, offset ``{"n": next}``: record n of a task is a function of the seed, the task and n.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import OPTIONAL_STRING, Field, Schema
from spark_connect_rt.api.data.schema import Type as DatagenValuesType
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, non_empty
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.connectors.samples.numbered_source import (
    HANDOVER_MS,
    records_allowed,
    wait_for_handover_ms,
    wall_clock_ms,
)
from spark_connect_rt.errors import ConnectError

# Values of datagen: a function of (seed, field, n) alone, a whole column at once. Pure.
#
# The numbers are splitmix64's, so record n is the same whatever batch it comes in, and on every machine.


_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Generated:
    """One field: its schema, and the column of its values for the numbers and random words of some records."""

    name: str
    schema: Schema
    column: Callable[[Any, Any], pa.Array]
    null_per_mille: int = 0


def random_words(seed: int, stream: int, numbers: Any) -> Any:
    """Return 64 random bits for each number, as uint64; ``stream`` distinguishes fields."""
    start = np.uint64((seed * 0xD1342543DE82EF95 + stream * 0x2545F4914F6CDD1D) & _MASK)
    with np.errstate(over="ignore"):
        x = start + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def rows(fields: Sequence[Generated], seed: int, first: int, count: int) -> pa.StructArray:
    """Return records ``first`` to ``first + count - 1`` as structs."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    columns = []
    for stream, field in enumerate(fields):
        column = field.column(numbers, random_words(seed, 2 * stream, numbers))
        if field.null_per_mille:
            chosen = random_words(seed, 2 * stream + 1, numbers) % np.uint64(1000) < np.uint64(field.null_per_mille)
            column = pc.if_else(pa.array(chosen), pa.scalar(None, column.type), column)
        columns.append(column)
    return pa.StructArray.from_arrays(columns, names=[field.name for field in fields])


def row_schema(fields: Sequence[Generated], name: str | None) -> Schema:
    """Return the Connect schema of the rows."""
    members = tuple(Field(field.name, at, field.schema) for at, field in enumerate(fields))
    return Schema(DatagenValuesType.STRUCT, name=name, fields=members)


def parse_fields(text: str) -> tuple[Generated, ...]:
    """Return the fields of ``{"name": {"kind": ..., ...}}``, or of a quickstart's name.

    Raises ValueError saying what is wrong with which field.
    """
    if text.strip() in QUICKSTARTS:
        given: Any = QUICKSTARTS[text.strip()]
    else:
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError(f"must be one of {', '.join(QUICKSTARTS)} or JSON: {error}") from error
    if not isinstance(given, dict) or not given:
        raise ValueError("must be an object: field -> how it is generated")
    return tuple(_field(name, how) for name, how in given.items())


def _field(name: str, how: Any) -> Generated:
    if not isinstance(how, dict) or how.get("kind") not in _KINDS:
        raise ValueError(f"field {name}: kind must be one of {', '.join(_KINDS)}")
    make, settings = _KINDS[how["kind"]]
    unknown = how.keys() - settings.keys() - {"kind", "null_per_mille"}
    if unknown:
        raise ValueError(f"field {name}: {how['kind']} does not take {', '.join(sorted(unknown))}")
    nulls = how.get("null_per_mille", 0)
    if not isinstance(nulls, int) or not 0 <= nulls <= 1000:
        raise ValueError(f"field {name}: null_per_mille must be 0 to 1000")
    try:
        schema, column = make({**settings, **how})
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"field {name}: {error}") from error
    return Generated(name, schema.as_optional(nulls > 0), column, nulls)


Made = tuple[Schema, Callable[[Any, Any], pa.Array]]


def _sequence(how: Mapping[str, Any]) -> Made:
    start, step = int(how["start"]), int(how["step"])
    return s.INT64, lambda numbers, _: pa.array(numbers * step + start)


def _integers(how: Mapping[str, Any]) -> Made:
    least, most = int(how["min"]), int(how["max"])
    if not -(1 << 63) <= least <= most < 1 << 63 or most - least >= _MASK:
        raise ValueError("min must not be above max")
    span = np.uint64(most - least + 1)
    return s.INT64, lambda _, words: pa.array((words % span).astype(np.int64) + least)


def _small(how: Mapping[str, Any]) -> Made:
    least, most = int(how["min"]), int(how["max"])
    if not -(1 << 31) <= least <= most < 1 << 31:
        raise ValueError("min must not be above max, both of 32 bits")
    _, column = _integers(how)
    return s.INT32, lambda numbers, words: column(numbers, words).cast(pa.int32())


def _floats(how: Mapping[str, Any]) -> Made:
    least, most, digits = float(how["min"]), float(how["max"]), int(how["digits"])
    if not least <= most:
        raise ValueError("min must not be above max")
    return s.FLOAT64, lambda _, words: pa.array(
        np.round(least + (most - least) * (words >> np.uint64(11)) / float(1 << 53), digits)
    )


def _choice(how: Mapping[str, Any]) -> Made:
    options = how["of"]
    if not isinstance(options, list) or not options or not all(isinstance(option, str) for option in options):
        raise ValueError("of must list texts")
    texts = pa.array(options, pa.string())
    return s.STRING, lambda _, words: texts.take(pa.array((words % np.uint64(len(options))).astype(np.int64)))


def _text(how: Mapping[str, Any]) -> Made:
    prefix, size = str(how["prefix"]), int(how["distinct"])
    if size < 1:
        raise ValueError("distinct must be at least 1")
    _, column = _integers({"min": 0, "max": size - 1})
    return s.STRING, lambda numbers, words: pc.binary_join_element_wise(
        pa.scalar(prefix), column(numbers, words).cast(pa.string()), pa.scalar("")
    )


def _booleans(how: Mapping[str, Any]) -> Made:
    limit = np.uint64(int(how["true_per_mille"]))
    return s.BOOLEAN, lambda _, words: pa.array(words % np.uint64(1000) < limit)


def _timestamps(how: Mapping[str, Any]) -> Made:
    start, step = int(how["start_ms"]), int(how["step_ms"])
    kind = pa.timestamp("ms", tz="UTC")
    return logical.timestamp_schema(), lambda numbers, _: pa.array(numbers * step + start).cast(kind)


_KINDS: dict[str, tuple[Callable[[Mapping[str, Any]], Made], dict[str, Any]]] = {
    "sequence": (_sequence, {"start": 0, "step": 1}),
    "int": (_small, {"min": 0, "max": 2**31 - 1}),
    "long": (_integers, {"min": 0, "max": 2**62}),
    "double": (_floats, {"min": 0, "max": 1, "digits": 6}),
    "choice": (_choice, {"of": None}),
    "text": (_text, {"prefix": "", "distinct": 1_000_000}),
    "boolean": (_booleans, {"true_per_mille": 500}),
    "timestamp": (_timestamps, {"start_ms": 1_700_000_000_000, "step_ms": 1_000}),
}
_REGIONS = [f"Region_{number}" for number in range(1, 10)]
QUICKSTARTS: dict[str, dict[str, Any]] = {
    "orders": {
        "ordertime": {"kind": "timestamp"},
        "orderid": {"kind": "sequence"},
        "itemid": {"kind": "text", "prefix": "Item_", "distinct": 1000},
        "orderunits": {"kind": "double", "min": 0.1, "max": 10},
        "city": {"kind": "text", "prefix": "City_", "distinct": 100},
    },
    "users": {
        "registertime": {"kind": "long", "min": 1_487_715_775_521, "max": 1_519_273_364_600},
        "userid": {"kind": "text", "prefix": "User_", "distinct": 10},
        "regionid": {"kind": "choice", "of": _REGIONS},
        "gender": {"kind": "choice", "of": ["MALE", "FEMALE", "OTHER"]},
    },
    "pageviews": {
        "viewtime": {"kind": "sequence", "start": 1, "step": 10},
        "userid": {"kind": "text", "prefix": "User_", "distinct": 10},
        "pageid": {"kind": "text", "prefix": "Page_", "distinct": 100},
    },
}

TASK, NEXT, TASK_SETTING = "task", "n", "datagen.task"


def _readable(value: Any) -> str | None:
    try:
        parse_fields(value or "")
    except ValueError as error:
        return str(error)
    return None


CONFIG = ConfigDef(
    [
        ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "Topic that the records are sent to.", non_empty),
        ConfigKey(
            "datagen.schema",
            Type.STRING,
            "orders",
            Importance.HIGH,
            'orders, users, pageviews, or JSON: {"field": {"kind": '
            '"sequence|int|long|double|choice|text|boolean|timestamp", ...}}. null_per_mille of a field is the '
            "number of nulls per 1000 values.",
            _readable,
        ),
        ConfigKey("datagen.schema.name", Type.STRING, None, Importance.LOW, "Name of the records' schema."),
        ConfigKey("datagen.seed", Type.LONG, 0, Importance.MEDIUM, "Seed of the generated values."),
        ConfigKey("datagen.key.field", Type.STRING, None, Importance.MEDIUM, "Field whose text is the record's key."),
        ConfigKey(
            "datagen.rate",
            Type.DOUBLE,
            -1,
            Importance.MEDIUM,
            "Records per second of each task. Below 0: no limit.",
        ),
        ConfigKey(
            "datagen.max.records",
            Type.LONG,
            -1,
            Importance.MEDIUM,
            "Records of each task over all its runs. Below 0: no limit.",
        ),
        ConfigKey("datagen.batch.records", Type.INT, 10_000, Importance.LOW, "Most records of one poll.", AtLeast(1)),
    ]
)


class DatagenSourceConnector(SourceConnector):
    """Generates sample records at a chosen rate, for trials and tests.

    As many tasks as are asked for, each with its own records.
    """

    def config_def(self) -> ConfigDef:
        """Return the declaration of the connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of the connector's tasks."""
        return DatagenSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task, with its number."""
        return [{**self.config, TASK_SETTING: str(task)} for task in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check that the key is one of the fields."""
        key, schema = config.get("datagen.key.field"), config.get("datagen.schema") or "orders"
        if key is None or _readable(schema) is not None:
            return {}
        names = [field.name for field in parse_fields(schema)]
        if key in names:
            return {}
        return {"datagen.key.field": [f"{key} is not a field of datagen.schema. Use one of {', '.join(names)}"]}

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {TASK} or offset.keys() != {NEXT}:
                raise ConnectError(f'offsets of datagen must be {{"{TASK}": number}} -> {{"{NEXT}": number}}')
            for value in (partition[TASK], offset[NEXT]):
                if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                    raise ConnectError(f"{value!r} in an offset of datagen is not a whole number from 0 on")
        return True


class DatagenSourceTask(SourceTask):
    """Generates batches of columns at the rate that is asked for."""

    clock: Callable[[], int] = staticmethod(wall_clock_ms)

    def start(self, config: Mapping[str, str]) -> None:
        """Resume after the last record that was sent. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self._task = int(config.get(TASK_SETTING, 0))
        self._fields = parse_fields(values["datagen.schema"])
        self._schema = row_schema(self._fields, values["datagen.schema.name"])
        self._topic, self._key = values["topic"], values["datagen.key.field"]
        self._seed: int = values["datagen.seed"] * 1_000_003 + self._task
        self._rate: float = values["datagen.rate"]
        self._most: int = values["datagen.max.records"]
        self._batch: int = values["datagen.batch.records"]
        (stored,) = self.context.offset_reader.offsets([{TASK: self._task}])
        self._next = int((stored or {}).get(NEXT, 0))
        self._sent, self._handed_ms, self._began_ms = 0, -HANDOVER_MS, self.clock()

    @timed
    def poll(self) -> Sequence[SourceBatch] | None:
        """Return the records that are due, None when there are none. Handovers are up to 500 ms apart."""
        elapsed_ms = self.clock() - self._began_ms
        room = self._room()
        if room <= 0 or self._wait_ms(elapsed_ms, room) > 0:
            return None
        allowed = records_allowed(self._rate, elapsed_ms)
        count = room if allowed is None else min(room, allowed - self._sent)
        if count <= 0:
            return None
        structs = rows(self._fields, self._seed, self._next, count)
        self._next += count
        self._sent += count
        self._handed_ms = elapsed_ms
        keys = None if self._key is None else pc.cast(structs.field(self._key), pa.string())
        key_schema = None if keys is None else OPTIONAL_STRING
        offset = {NEXT: self._next}
        return [SourceBatch({TASK: self._task}, offset, self._topic, structs, self._schema, keys, key_schema)]

    def idle_wait_ms(self) -> int:
        """Return when records are handed over next, in ms."""
        room = self._room()
        return HANDOVER_MS if room <= 0 else max(1, self._wait_ms(self.clock() - self._began_ms, room))

    def has_more(self) -> bool | None:
        """Return False once ``datagen.max.records`` are generated, until then None: a rate may delay the next ones."""
        return False if 0 <= self._most <= self._next else None

    def _room(self) -> int:
        """Return how many records the next poll may return."""
        return self._batch if self._most < 0 else min(self._batch, self._most - self._next)

    def _wait_ms(self, elapsed_ms: int, room: int) -> int:
        return wait_for_handover_ms(self._rate, elapsed_ms, self._sent, self._handed_ms, room)

    def stop(self) -> None:
        """There is nothing to close."""
