"""A whole worker of ours as a process, whose tasks are threads: no Spark, which costs 20 CPU seconds a start.

``python -m tests.integration.kafka.threads_worker FILE``. Everything else is the real one, plug-ins included.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_connect_rt.app.distributed import DistributedWorker, bring_up
from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.serving import stop_asked
from spark_connect_rt.app.settings_file import read_settings
from spark_connect_rt.engine.executor_clients import executor_clients
from spark_connect_rt.engine.process_plugins import plugin_folders
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.support.worker_process import SparkWorkerProcess


class ThreadsWorkerProcess(SparkWorkerProcess):
    """A WorkerProcess of this module."""

    def command(self, properties_file: Path) -> list[str]:
        return [sys.executable, "-m", "tests.integration.kafka.threads_worker", str(properties_file)]


class ThreadsWorker(DistributedWorker):
    """A worker with the engine's twin on threads."""

    def _new_runner(self) -> TaskRunner:
        return MemoryTaskRunner(executor_clients(",".join(plugin_folders(self.config.raw))))


def main(file: str) -> None:
    settings = read_settings(Path(file))
    set_up_logging(settings)
    worker = ThreadsWorker(settings)
    ended = stop_asked()
    bring_up(worker)
    ended.wait()
    worker.stop()


if __name__ == "__main__":
    main(sys.argv[1])
