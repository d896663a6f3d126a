"""Port TableMemory over the tables of Spark-written sinks: any worker's driver reaches them, not only the writer's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.base.ids import TopicPartition


class SparkTables:
    """``runner`` is the late one: a session is asked for when a table is."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def held(self, connector: str, config: Mapping[str, str]) -> Mapping[TopicPartition, tuple[int, int]]:
        """See ``kafka.ports_group_offsets.TableMemory.held``."""
        from spark_connect_rt.engine.formats.table_memory import held_by_table

        return held_by_table(self._runner.real().session(), connector, config)

    def forget(self, connector: str, config: Mapping[str, str]) -> None:
        """See ``kafka.ports_group_offsets.TableMemory.forget``."""
        from spark_connect_rt.engine.formats.table_memory import forget_table

        forget_table(self._runner.real().session(), connector, config)
