"""HTTP and Kafka connectors in a real worker that is killed in mid-flow: nothing is lost, bad input is dead."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from starlette.responses import Response

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.integration.http_service import HttpService
from tests.integration.kafka.http_and_kafka import NO_JSON, REFUSED, FourConnectors, Inbox, Items
from tests.integration.kafka.mixed_worker import OurWorkerProcess

TIMES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.flush.interval.ms": "500",
}
LIMIT_S = 60.0
pytestmark = pytest.mark.timeout(4 * LIMIT_S)


def bad_answer(number: int) -> Response | None:
    if number % 9 == 1:
        return Response(status_code=500)
    return Response(b"<html>no JSON</html>") if number % 9 == 2 else None


def test_a_killed_worker_loses_nothing_of_its_http_and_kafka_connectors(broker: EmbeddedKafka, tmp_path: Path) -> None:
    group, items, inbox = f"four-{uuid.uuid4().hex[:8]}", Items(200, bad_answer), Inbox()
    with HttpService(items) as feed, HttpService(inbox) as target:
        four = FourConnectors(group, broker.bootstrap_servers, feed, target)
        worker = OurWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, group, properties=TIMES)
        with worker:
            four.create(worker.rest)

            def told() -> str:
                return worker.log_file.read_text(errors="replace")[-3000:]

            until(lambda: len(inbox.taken) >= 30, LIMIT_S, "items flow", told)
            worker.kill()
            four.add_what_is_no_json()
            items.count = 400
            worker.start()
            every = set(range(1, 401))
            until(lambda: set(inbox.taken) >= every - {REFUSED}, LIMIT_S, "every item at the web service", told)
            until(lambda: set(four.numbers(four.sunk)) >= every, LIMIT_S, "every item in the last topic", told)
            until(lambda: NO_JSON in four.values(four.dead_records), LIMIT_S, "the dead letter", told)
            states = {name: worker.rest.states(name) for name in four.configs()}
            assert states == {name: ("RUNNING", ["RUNNING"]) for name in states}, told()
            assert worker.stop() == 0
    for topic in (four.read, four.copied, four.sunk):
        assert set(four.numbers(topic)) == every
    assert NO_JSON in four.values(four.sunk), "bytes are bytes to KafkaSink"
    assert set(four.stages(four.dead_records)) == {b"VALUE_CONVERTER", b"TASK_PUT"}
    assert set(four.stages(four.dead_items)) == {b"TASK_POLL"}
    assert b"<html>no JSON</html>" in four.values(four.dead_items)
