"""Generated records for trials, demonstrations and tests (``datagen``), the same ones at every run.

Partition ``{"task": t}``, offset ``{"n": next}``: record n of a task is a function of the seed, the task and n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import OPTIONAL_STRING
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, non_empty
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.connectors.samples.datagen_values import parse_fields, row_schema, rows
from spark_connect_rt.connectors.samples.numbered_source import wall_clock_ms
from spark_connect_rt.connectors.samples.pacing import HANDOVER_MS, records_allowed, wait_for_handover_ms
from spark_connect_rt.errors import ConnectError

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

    As many tasks as are asked for, each with records of its own.
    """

    def config_def(self) -> ConfigDef:
        """Declare the settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the task."""
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
        """Go on behind the last record that was sent. Raises BadConfigError."""
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

    def _room(self) -> int:
        """Return how many records the next poll may return."""
        return self._batch if self._most < 0 else min(self._batch, self._most - self._next)

    def _wait_ms(self, elapsed_ms: int, room: int) -> int:
        return wait_for_handover_ms(self._rate, elapsed_ms, self._sent, self._handed_ms, room)

    def stop(self) -> None:
        """There is nothing to close."""
