"""What of a worker shows and replays dead letters, without the rest of it; as a process, to be killed.

``python -m tests.integration.kafka.dead_letter_worker BOOTSTRAP_SERVERS NAME``: for each line it reads, it forks one
that carries out replays until it dies, and says its pid. What takes seconds, the imports, is done once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.operations.dead_letters.letter_topics import QUEUE
from spark_connect_rt.operations.dead_letters.wiring import dead_letters
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from tests.support.worker_process import worker_properties


class Views:
    """The connectors that there are."""

    def __init__(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        self.configs = configs

    def list_connectors(self) -> list[str]:
        return sorted(self.configs)

    def connector_config(self, name: str) -> StoredConfig:
        if name not in self.configs:
            raise NotFoundError(f"Connector {name} not found")
        return StoredConfig(self.configs[name])


class FakeFeed:
    """A connector of a replay's own that only pretends: a test says what it has committed, and how it is."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.running: dict[str, Mapping[str, str]] = {}
        self.taken: dict[str, int] = {}  # topic -> offset
        self.why = ""
        self.leads = True

    def can_begin(self) -> bool:
        return self.leads

    def begin(self, name: str, config: Mapping[str, str]) -> None:
        self.running[name] = config

    def config_of(self, connector: str) -> Mapping[str, str]:
        return self.views.connector_config(connector).written()

    def trouble(self, name: str) -> str:
        return self.why

    def committed(self, name: str) -> Mapping[str, int]:
        return dict(self.taken)

    def end(self, name: str) -> None:
        self.running.pop(name, None)

    def forget(self, name: str) -> None:
        self.taken.clear()


class DeadLetterWorker:
    """One worker's desk and replays; ``name`` makes group, topics and the one connector, ``orders``."""

    def __init__(self, bootstrap_servers: str, name: str, worker: str = "one:1", **more: str) -> None:
        self.name = name
        self.queue, self.lines = f"{name}-dead", f"{name}-lines"
        self.config = distributed_config(worker_properties(bootstrap_servers, name, 1))
        orders = {
            "name": "orders",
            "connector.class": "FileStreamSink",
            "topics": self.lines,
            QUEUE: self.queue,
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            **more,
        }
        self.views = Views({"orders": orders})
        self.admin = KafkaAdmin({"bootstrap.servers": bootstrap_servers})
        deps: Any = SimpleNamespace(resolve=dict, plugins=bundled_plugins(), clock=SystemClock(), group_offsets=None)
        herder: Any = SimpleNamespace(views=self.views)
        self.desk, self.replays = dead_letters(self.config, worker, deps, herder, self.admin)

    def fake_feed(self) -> FakeFeed:
        """Put a pretending connector where a sink would be fed."""
        made = FakeFeed(self.views)
        self.replays._parts = replace(self.replays._parts, feed=made)
        return made

    def close(self) -> None:
        self.replays.stop()
        self.admin.close()


class Nursery:
    """Worker processes, one after another: each is killed before the next begins."""

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        command = [sys.executable, "-m", __name__, bootstrap_servers, name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = 0

    def begin(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()
        self.pid = int(self._process.stdout.readline())

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.pid = 0

    def close(self) -> None:
        if self.pid:
            self.kill()
        self._process.kill()
        self._process.communicate()


def main(bootstrap_servers: str, name: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin.readline():
        pid = os.fork()
        if not pid:
            worker = DeadLetterWorker(bootstrap_servers, name)
            worker.replays.start()
            threading.Event().wait()
        print(pid, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
