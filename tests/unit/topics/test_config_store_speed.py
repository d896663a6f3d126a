"""A worker reads the configuration of ten thousand tasks within a second of CPU."""

from __future__ import annotations

import time

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics import config_records
from spark_connect_rt.topics.config_store import ConfigStore

CONNECTORS, TASKS = 1_000, 10
CONFIG = {f"setting.{number}": f"value {number}" for number in range(10)}


def test_ten_thousand_tasks_are_folded_within_a_second() -> None:
    topic = MemoryLogTopic("configs")
    config = config_records.encode_properties(CONFIG)
    for number in range(CONNECTORS):
        name = f"connector-{number}"
        tasks = [(config_records.task_key(ConnectorTaskId(name, task)), config) for task in range(TASKS)]
        commit = (config_records.commit_key(name), config_records.encode_commit(TASKS))
        topic.write([(config_records.connector_key(name), config), *tasks, commit])
    store = ConfigStore(MemoryCompactedLog(topic))
    begun_s = time.process_time()
    store.start(lambda _: None)
    assert time.process_time() - begun_s < 1.0
    assert len(store.snapshot().task_configs) == CONNECTORS * TASKS
    store.stop()
