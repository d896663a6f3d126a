"""``decode`` of format("connectrt") with the converters of a Schema Registry."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.engine.datasource.open_task import open_task
from spark_connect_rt.engine.datasource.read_options import Decode, ReadLimits
from spark_connect_rt.engine.datasource.sampling import sampled_kinds
from spark_connect_rt.engine.datasource.stream_position import TaskPartition
from spark_connect_rt.engine.datasource.value_readers import CONVERTERS
from spark_connect_rt.engine.executor_clients import FACTORY
from tests.support.schema_registry import SchemaRegistry

ORDER = SchemaBuilder.struct().name("Order").field("id", schemas.INT64).field("by", schemas.OPTIONAL_STRING).build()


class Orders(SourceTask):
    """Two orders and a tombstone."""

    def start(self, config: object) -> None:
        """Nothing yet was polled."""
        self._done = False

    def poll(self) -> Sequence[SourceRecord | SourceBatch]:
        """Return them once."""
        mine, yours = ({"id": 1, "by": "me"}, {"id": 2, "by": "you"})
        values = () if self._done else (Struct(ORDER, mine), None, Struct(ORDER, yours))
        self._done = True
        return [SourceRecord({}, {}, "orders", value, ORDER if value else None) for value in values]

    def stop(self) -> None:
        """Nothing."""


@pytest.mark.parametrize("written", ["avro", "protobuf", "jsonschema"])
@pytest.mark.parametrize("said", [True, False], ids=["own-settings", "the-writers-settings"])
def test_values_of_a_registry_are_typed_columns(written: str, said: bool, registry: SchemaRegistry) -> None:
    config = {
        "key.converter": CONVERTERS["string"],
        "value.converter": CONVERTERS[written],
        "value.converter.schema.registry.url": registry.url,
    }
    decode = Decode("value", written, {"schema.registry.url": registry.url} if said else {})
    partition = TaskPartition(f"{__name__}:Orders", {}, config, FACTORY, ReadLimits("latest"), (), (decode,))
    kinds = sampled_kinds([partition], [decode])
    task = open_task(TaskPartition(partition.task_class, {}, config, FACTORY, partition.limits, (), (decode,), kinds))
    found = [row["value"] for batch in task.poll() or () for row in batch.to_pylist()]
    assert found == [{"id": 1, "by": "me"}, None, {"id": 2, "by": "you"}]
