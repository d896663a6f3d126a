"""The configuration of a source of any format that Spark reads; engine/formats/spark_source.py does the work.

Offsets are ``{"format": f, "path" or "table": what}`` -> by mode: ``{"rows": n}`` once, ``{"rows": n, "pass": k}``
bulk, ``{"column": c, "type": Spark's, "value": the greatest read}`` incremental, ``{"batch": n, "offset": the stream's
own}`` stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.api.spark_source import SparkSourceTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.spark_connectors import BULK, CONFIG, INCREMENTAL, ONCE, STREAM, problems
from spark_connect_rt.errors import ConnectError

OFFSET_FIELDS = {ONCE: ("rows",), BULK: ("rows", "pass"), INCREMENTAL: ("type", "value"), STREAM: ("batch", "offset")}


class SparkFormatSourceConnector(SourceConnector):
    """Reads any table, path, query or stream that Spark can read.

    One task, one table, path, query or stream.
    """

    def config_def(self) -> ConfigDef:
        """Declare the settings; ``spark.option.*`` go to Spark's reader as they are."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the marker of tasks that Spark itself runs."""
        return SparkSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration: ``spark.parallelism`` spreads the work, not tasks."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other."""
        return problems(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Records and offset are in different transactions."""
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        mode = (config.get("spark.mode") or ONCE).lower()
        for partition, offset in offsets:
            if offset is None:
                continue  # every stored offset may be removed
            if not (partition or {}).get("format"):
                raise ConnectError(f"a source partition must have a 'format', not {partition}")
            missing = [name for name in OFFSET_FIELDS[mode] if offset.get(name) is None]
            if missing:
                raise ConnectError(
                    f"an offset of spark.mode={mode} must have {', '.join(missing)}, but is {dict(offset)}"
                )
            if mode == STREAM and (isinstance(offset["batch"], bool) or not isinstance(offset["batch"], int)):
                raise ConnectError(f"'batch' must be a whole number, not {offset['batch']!r}")
        return True
