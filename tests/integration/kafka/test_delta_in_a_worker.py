"""The Delta sink in two real workers that are killed and frozen: every record is in the table exactly once.

One worker is killed while records arrive. The other is frozen for longer than the group waits, so that it wakes up as a
zombie.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.e2e.commands import until
from tests.integration.kafka.http_and_kafka import JSON
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.integration.kafka.test_iceberg_in_a_worker import KEYS, LIMIT_S, PARTITIONS, SESSION_MS, Changes

pytestmark = pytest.mark.timeout(6 * LIMIT_S)


class Lake:
    """Tables below a folder, and two connectors that write one topic to them: appended and upserted."""

    def __init__(self, folder: Path, group: str) -> None:
        self.folder, self.topic = folder, f"{group}-changes"

    def config(self, kind: str) -> dict[str, str]:
        upserts = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "key"}
        return {
            "connector.class": "DeltaSink",
            "tasks.max": "2",
            "topics": self.topic,
            "iceberg.tables": f"shop.{kind}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "300",
            "delta.root": str(self.folder),
            "consumer.override.session.timeout.ms": str(SESSION_MS),
            "consumer.override.heartbeat.interval.ms": "1000",
            **JSON,
            **(upserts if kind == "upserted" else {}),
        }

    def table(self, kind: str) -> DeltaTable | None:
        try:
            return DeltaTable(str(self.folder / "shop" / kind))
        except TableNotFoundError:
            return None

    def rows(self, kind: str) -> list[tuple[str, int]]:
        """Return the rows: (key, n)."""
        table = self.table(kind)
        if table is None:
            return []
        found = table.to_pyarrow_table()
        return sorted(zip(found["key"].to_pylist(), found["n"].to_pylist(), strict=True))


def test_killed_and_frozen_workers_write_every_record_exactly_once(broker: EmbeddedKafka, tmp_path: Path) -> None:
    group = f"delta-{uuid.uuid4().hex[:8]}"
    servers = broker.bootstrap_servers
    lake = Lake(tmp_path / "lake", group)
    admin = KafkaAdmin({"bootstrap.servers": servers})
    admin.create_topic(TopicSpec(lake.topic, PARTITIONS, 1, {}))
    admin.close()
    workers = [OurWorkerProcess(tmp_path / f"worker{number}", servers, group) for number in range(2)]
    changes = Changes(servers, lake.topic)

    def logged() -> str:
        return "\n".join(worker.log_file.read_text(errors="replace")[-3000:] for worker in workers)

    def wait_for(kind: str, least: int) -> None:
        until(lambda: len(lake.rows(kind)) >= least, LIMIT_S, f"{least} rows in {kind}", logged)

    with workers[0], workers[1]:
        for kind in ("appended", "upserted"):
            workers[0].rest.create(f"{group}-{kind}", lake.config(kind))
        changes.start()
        wait_for("appended", 500)
        wait_for("upserted", KEYS)

        workers[0].kill()
        workers[0].start()
        wait_for("appended", len(lake.rows("appended")) + 500)

        os.kill(workers[1].pid, signal.SIGSTOP)
        frozen_s = time.monotonic()
        wait_for("appended", len(lake.rows("appended")) + 500)
        while time.monotonic() - frozen_s < 2 * SESSION_MS / 1000:
            time.sleep(0.1)
        os.kill(workers[1].pid, signal.SIGCONT)
        wait_for("appended", len(lake.rows("appended")) + 500)

        changes.end()
        until(lambda: len(lake.rows("appended")) >= changes.sent, LIMIT_S, "every record", logged)
        until(lambda: lake.rows("upserted") == changes.upserted(), LIMIT_S, "every key's last change", logged)
        repeated = Counter(lake.rows("appended")) - Counter(changes.appended())
        assert not repeated, logged()
        assert lake.rows("appended") == changes.appended()
        for kind in ("appended", "upserted"):
            table = lake.table(kind)
            assert table is not None
            assert table.version() >= 10
        for worker in workers:
            assert worker.stop() == 0
