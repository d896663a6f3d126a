"""A group of workers in memory, each with its REST API and its own history; no sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, cast

import httpx

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.operations.events.service import in_order
from spark_connect_rt.operations.history.service import WorkerHistory
from spark_connect_rt.operations.history.wiring import history_over
from spark_connect_rt.runtime.group_events import GroupEvent
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.testing.memory_connectors import MemorySink, MemorySource
from spark_connect_rt.topics.compacted_log import LogSource
from spark_connect_rt.topics.offset_changes import OffsetPair
from tests.unit.rest.conftest import ask
from tests.unit.rest.test_over_herders import AppPeers, Workers

_PASSWORD = ConfigKey("db.password", Type.PASSWORD, None, Importance.LOW, "A secret.")


class AlteredSource(MemorySource):
    """Takes any offsets, and has a password."""

    refuses = False

    def config_def(self) -> ConfigDef:
        return ConfigDef((*super().config_def(), _PASSWORD))

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        if type(self).refuses:
            raise ValueError("these offsets are none")
        return True


class AlteredSink(MemorySink):
    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        return True


class HistoryTopics:
    """What the broker holds of the history; not there until something is written."""

    def __init__(self) -> None:
        self.changes, self.course = MemoryLogTopic("history"), MemoryLogTopic("history-course")

    def sources(self) -> tuple[LogSource, LogSource]:
        return self._source(self.changes), self._source(self.course)

    @staticmethod
    def _source(topic: MemoryLogTopic) -> LogSource:
        return LogSource(lambda: topic.ends() != [0], lambda on_end: MemoryCompactedLog(topic))


class HistoryWorkers(Workers):
    """As Workers, with a history each."""

    def __init__(self, cluster: InProcessCluster, *names: str) -> None:
        self.cluster, self.peers, self.topics = cluster, AppPeers(), HistoryTopics()
        self.histories: dict[str, WorkerHistory] = {}
        self.out_of_range: Sequence[str] = ()
        cluster.on_made = self._made
        for name in names:
            cluster.add_worker(name)
        cluster.until_stable()

    def _made(self, name: str, deps: HerderDependencies, herder: DistributedHerder) -> None:
        history = history_over(
            self.topics.sources(),
            f"{name}:8083",
            deps,
            herder.views,
            is_alone=False,
            range_problems=self._range_problems,
            course_period_s=3600.0,
            name_client=cast(EventMemory, deps.record_event).name_client,
        )
        self.histories[name] = history
        history.start()
        self.peers.apps[f"{name}:8083"] = create_app(herder, self.peers, management=Management(history=history))

    def _range_problems(self, connector: str, pairs: Sequence[OffsetPair]) -> Sequence[str]:
        return self.out_of_range

    def asked(self, method: str, path: str, body: object = None, worker: str = "w1", **headers: str) -> httpx.Response:
        data = None if body is None else json.dumps(body).encode()
        return ask(self.peers.apps[f"{worker}:8083"], method, path, data, **headers)

    def ok(self, method: str, path: str, body: object = None, worker: str = "w1", **headers: str) -> Any:
        answer = self.asked(method, path, body, worker, **headers)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def changes(self, connector: str, query: str = "", worker: str = "w1") -> list[dict[str, Any]]:
        page = self.ok("GET", f"/admin/history?connector={connector}{query}", worker=worker)
        assert page["problem"] == ""
        return list(page["changes"])

    def events(self, *kinds: str) -> list[GroupEvent]:
        """Return the group's events of these kinds, oldest first, as any worker gathers them."""
        seen = (worker.events.events() for worker in self.cluster.workers.values())
        return [event for event in in_order(chain.from_iterable(seen)) if event.kind in kinds]

    def position(self, connector: str, worker: str = "w1") -> int | None:
        """Return where the first task of a source is."""
        found = self.ok("GET", f"/connectors/{connector}/offsets", worker=worker)["offsets"]
        return next((entry["offset"]["position"] for entry in found), None)

    def close(self) -> None:
        for history in self.histories.values():
            history.stop()
