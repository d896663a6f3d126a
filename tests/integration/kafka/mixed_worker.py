"""Our worker as a process that can be killed: the real herder, stores, REST and Kafka clients; tasks are threads.

``python -m tests.integration.kafka.mixed_worker FILE``. Spark is left out: it costs 20 CPU seconds a start, and what
Spark adds to a kill is shown by tests/e2e.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.app.serving import stop_asked
from spark_connect_rt.app.wiring import ClusterId, herder_dependencies
from spark_connect_rt.config.worker_config import advertised, parse_listeners
from spark_connect_rt.config.worker_settings import parse_distributed
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.kafka.internal_topics import admin_of
from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.support.worker_process import SparkWorkerProcess


class OurWorkerProcess(SparkWorkerProcess):
    """A WorkerProcess of this module."""

    def command(self, properties_file: Path) -> list[str]:
        return [sys.executable, "-m", "tests.integration.kafka.mixed_worker", str(properties_file)]

    def environment(self) -> dict[str, str]:
        root = str(Path(__file__).resolve().parents[3])
        return {**super().environment(), "PYTHONPATH": root}


def main(file: str) -> None:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    raw = dict(line.partition("=")[::2] for line in lines)
    config = parse_distributed(raw)
    listener = parse_listeners(config.rest.listeners)[0]
    address = advertised(config.rest, listener.host)
    runner = MemoryTaskRunner(KafkaExecutorClients())
    deps = herder_dependencies(config, address, admin_of(config), runner, ClusterId())
    herder = DistributedHerder(deps)
    server = RestServer(create_app(herder, deps.peers), listener.host, listener.port)
    server.start()
    ended = stop_asked()
    herder.start()
    ended.wait()
    herder.stop(40)
    server.stop()


if __name__ == "__main__":
    main(sys.argv[1])
