"""A threads worker whose leader looks every half second and is patient for seconds, not minutes; and a slow sink.

``python -m tests.integration.kafka.scaled_worker FILE``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.operations.placement import task_scaling
from spark_connect_rt.operations.placement.task_scaling import ScaleRules
from tests.integration.kafka import threads_worker
from tests.support.worker_process import SparkWorkerProcess

A_RECORD_S = 0.004
RULES = ScaleRules(behind_ms=1_500, up_after_ms=1_000, calm_ms=500, down_after_ms=2_000, pause_ms=1_500)


class SlowSink(SinkConnector):
    """Takes four milliseconds for a record."""

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def task_class(self) -> type[SinkTask]:
        return SlowSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{} for _ in range(max_tasks)]


class SlowSinkTask(SinkTask):
    """Waits."""

    def start(self, config: Mapping[str, str]) -> None: ...

    def put(self, records: Sequence[SinkRecord]) -> None:
        time.sleep(A_RECORD_S * len(records))

    def stop(self) -> None: ...


class ScaledWorkerProcess(SparkWorkerProcess):
    """A WorkerProcess of this module."""

    def command(self, properties_file: Path) -> list[str]:
        return [sys.executable, "-m", "tests.integration.kafka.scaled_worker", str(properties_file)]


if __name__ == "__main__":
    task_scaling.RULES, task_scaling.LOOK_EACH_S = RULES, 0.5
    threads_worker.main(sys.argv[1])
