"""Connectors and source tasks show sentences in the events of the group, under their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.testing.in_process_cluster import InProcessCluster


class ReportingSource(SourceConnector):
    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def start(self, config: Mapping[str, str]) -> None:
        self.context.record_event("a topic was created again", topic="t")

    def task_class(self) -> type[SourceTask]:
        return ReportingTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]


class ReportingTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.context.record_event("4 records were deleted before they were read", topic="t", partition=3)

    def poll(self) -> Sequence[SourceRecord]:
        return []

    def stop(self) -> None: ...


def test_reports_of_a_connector_and_its_task_are_events_of_the_group() -> None:
    config = {"connector.class": "ReportingSource", "value.converter": "StringConverter"}
    with InProcessCluster({"ReportingSource": ReportingSource}) as cluster:
        cluster.add_worker()
        cluster.on_leader(lambda herder: herder.submit(CreateConnector("c", config)))
        (worker,) = cluster.workers.values()

        def reported() -> list[tuple[str | None, int | None, str, Mapping[str, object]]]:
            events = [event for event in worker.events.events() if event.kind == "report"]
            return [(event.connector, event.task, event.summary, event.details) for event in events]

        cluster.until(lambda: len(reported()) == 2)
        assert sorted(reported(), key=lambda event: event[1] is not None) == [
            ("c", None, "a topic was created again", {"topic": "t"}),
            ("c", 0, "4 records were deleted before they were read", {"topic": "t", "partition": 3}),
        ]
