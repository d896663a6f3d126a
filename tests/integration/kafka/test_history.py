"""The history on a real broker: its stores, and a real worker (tasks on threads) over REST and its topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.app.standalone import StandaloneWorker
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.engine.executor_clients import executor_clients
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.compacted_log import LogSource
from tests.contract.history_store_contract import HistoryStoreContract
from tests.integration.kafka.threads_worker import ThreadsWorkerProcess
from tests.topics import read_values

GROUP = "history"


class TestHistoryOnKafka(HistoryStoreContract):
    @pytest.fixture(autouse=True)
    def _cluster(self, broker: EmbeddedKafka) -> Iterator[None]:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        self.clients = log_client_properties(worker_settings(settings), "history")
        self.admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
        yield
        self.admin.close()

    def source(self, topic: str) -> LogSource:
        def open_log(_: object) -> KafkaCompactedLog:
            return KafkaCompactedLog(TopicSpec(topic, 1, 1), self.admin, self.clients, exact_partitions=1)

        return LogSource(lambda: self.admin.partition_count(topic) is not None, open_log)


@pytest.mark.timeout(300)
def test_a_worker_records_undoes_and_continues_without_its_topic(broker: EmbeddedKafka, tmp_path: Path) -> None:
    topic = f"connect-{GROUP}-changes"
    own = {"connectrt.history.storage.topic": topic}
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    lines = tmp_path / "lines.txt"
    lines.write_text("zero\none\ntwo\n")
    config = {
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": "history-lines",
        "producer.override.ssl.key.password": "s3cret-1",
    }
    partition = {"filename": str(lines)}

    with ThreadsWorkerProcess(tmp_path / "a", broker.bootstrap_servers, GROUP, properties=own) as worker:

        def asked(method: str, path: str, body: Any = None) -> Any:
            answer = worker.rest.request(method, path, body)
            assert answer.status < 300, answer
            return answer.json() if answer.body else None

        def changes(query: str = "") -> list[dict[str, Any]]:
            page = asked("GET", f"/admin/history?connector=lines{query}")
            assert page["problem"] == ""
            return list(page["changes"])

        def position() -> list[Any]:
            return [offset["offset"]["position"] for offset in asked("GET", "/connectors/lines/offsets")["offsets"]]

        assert asked("GET", "/admin/history") == {"changes": [], "problem": ""}
        assert admin.partition_count(topic) is None  # nothing was changed yet
        begin = [{"partition": partition, "offset": {"position": 5}}]
        body = {"name": "lines", "config": config, "initial_offsets": begin}
        assert "altered successfully" in asked("POST", "/connectors", body)["offsets_status"]
        worker.rest.until(position, [13], 30.0, "it has read all lines from the second on")
        assert read_values(broker.bootstrap_servers, "history-lines", 2) == [b"one", b"two"]

        asked("PUT", "/connectors/lines/stop")
        worker.rest.await_states("lines", "STOPPED", [])
        asked("DELETE", "/connectors/lines/offsets")
        reset = changes("&kind=offsets")[0]
        assert (reset["action"], reset["who"], reset["after"]) == ("reset", "127.0.0.1", {"offsets": []})
        undone = asked("POST", f"/admin/history/lines/{reset['number']}/undo", {})
        assert (undone["applied"], position()) == (True, [13])
        asked("PUT", "/connectors/lines/resume")
        created = changes("&kind=config")[-1]
        assert created["after"]["producer.override.ssl.key.password"] == "[hidden]"

        _delete(broker, topic)
        asked("PUT", "/connectors/lines/pause")  # Connect goes on
        end_s = time.monotonic() + 60
        while [change["action"] for change in asked("GET", "/admin/history?connector=lines")["changes"]][:1] != [
            "pause"
        ]:
            assert time.monotonic() < end_s, asked("GET", "/admin/history?connector=lines")
            time.sleep(0.2)
        assert admin.cleanup_policy(topic) == "compact"  # made again as it must be
        asked("PUT", "/connectors/lines/resume")
    assert b"s3cret" not in b"".join(filter(None, read_values(broker.bootstrap_servers, topic, 2)))
    admin.close()


class StandaloneThreads(StandaloneWorker):
    """A standalone worker whose tasks are threads."""

    def _new_runner(self) -> TaskRunner:
        return MemoryTaskRunner(executor_clients(""))


def test_a_standalone_worker_keeps_its_changes_in_a_file(broker: EmbeddedKafka, tmp_path: Path) -> None:
    [port] = free_ports(1)
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n")
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": f"http://127.0.0.1:{port}",
    }
    config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "history-alone"}
    for expected in (["create"], ["stop", "create"]):
        worker = StandaloneThreads(settings)
        worker.start()
        try:
            worker.await_started()
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
                assert client.post("/connectors", json={"name": "a", "config": config}).status_code == 201
                page = client.get("/admin/history?connector=a").json()
                assert ([change["action"] for change in page["changes"]], page["problem"]) == (expected, "")
                assert client.put("/connectors/a/stop").status_code == 204
        finally:
            worker.stop()
    assert (tmp_path / "offsets.history").exists()


def _delete(broker: EmbeddedKafka, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in client.delete_topics([topic]).values():
        done.result(30)
