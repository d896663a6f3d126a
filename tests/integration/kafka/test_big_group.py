"""A group whose assignments Java's form could not carry, on a broker with its default settings.

The long form, 200 workers and 100,000 tasks: ``./bench.sh live_group``.
"""

from __future__ import annotations

import uuid

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.support.live_group import LiveGroup

TIMES = {"session.timeout.ms": "30000", "heartbeat.interval.ms": "300"}


def test_forty_thousand_tasks_fit_into_a_record_of_a_broker_as_it_is(broker: EmbeddedKafka) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"big-{uuid.uuid4()}", **TIMES}
    group = LiveGroup(settings, connectors=40, tasks=1_000)
    try:
        group.join(4)
        group.until(group.is_settled, limit_s=60)
        group.join(1)
        group.until(group.is_settled, limit_s=60)
        assert {worker.protocol for worker in group.workers} == {"connectrt-sessioned-compact"}
    finally:
        group.close()
