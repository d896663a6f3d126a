"""A task whose brokers do not answer says so: from the client that finds out to the task's status."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.task_runner import TaskMeasured
from spark_connect_rt.errors import RetriableError, TimedOutError
from spark_connect_rt.kafka import cluster_contact
from spark_connect_rt.kafka.reading.broker_links import BrokerLinks
from spark_connect_rt.kafka.reading.fetch_settings import fetch_settings
from spark_connect_rt.kafka.writing import column_producer
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.kafka.writing.column_producer import ColumnProducer
from spark_connect_rt.kafka.writing.column_settings import column_settings, settings_of
from spark_connect_rt.kafka.writing.column_transactions import ColumnTransactionalProducer
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.runtime.herder.health import AWAY_MS, Stall, stall_of
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures
from spark_connect_rt.runtime.worker.worker_task import Movement

NOWHERE = "127.0.0.1:1"


def on_a_task_thread(work: Any) -> list[tuple[str, str]]:
    """Run what a task's thread would; return what its clients said of their clusters."""
    said: list[tuple[str, str]] = []

    def run() -> None:
        cluster_contact.listen(lambda servers, why: said.append((servers, why)))
        work(said)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    return said


def test_a_reader_says_that_no_broker_answers() -> None:
    def read(_: object) -> None:
        links = BrokerLinks(fetch_settings({"bootstrap.servers": f"PLAINTEXT://{NOWHERE}"}))
        with pytest.raises(RetriableError):
            asyncio.run(links.refresh({"t"}))

    [(servers, why)] = on_a_task_thread(read)
    assert servers == NOWHERE
    assert why


def test_a_producer_says_that_no_broker_takes_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_producer, "CONTACT_EACH_S", 0.05)

    def write(said: list[tuple[str, str]]) -> None:
        producer = ColumnProducer(settings_of({"bootstrap.servers": NOWHERE, "retry.backoff.ms": "10"}))
        rows = pa.record_batch({"value": pa.array([b"1"])}).replace_schema_metadata({TOPIC: "t"})
        producer.produce(rows)
        end_s = time.monotonic() + 15
        while not said and time.monotonic() < end_s:
            time.sleep(0.02)
        producer.close()

    assert on_a_task_thread(write)[0][0] == NOWHERE


def test_nothing_is_logged_on_other_threads() -> None:
    cluster_contact.lost(NOWHERE, "x")
    cluster_contact.found(NOWHERE)


def test_the_meter_reports_lost_brokers_each_time_and_that_they_are_back_once() -> None:
    meter = TaskMeter("reader")
    meter.contact(NOWHERE, "refused")
    meter.contact(NOWHERE, "timed out")  # the first reason stays: a status that says another each second helps nobody
    now_s = time.monotonic()
    first, second = meter.news(now_s), meter.news(now_s + 30)
    assert first is not None
    assert second is not None
    assert first["away"] == second["away"] == f"no broker at {NOWHERE} answers: refused"
    assert second["away_ms"] >= 30_000
    meter.contact(NOWHERE, "")
    back = meter.news(now_s + 31)
    assert back is not None
    assert "away" not in back
    assert meter.news(now_s + 32) is None


def test_meter_reports_each_event_once_and_no_more_than_twenty_at_a_time() -> None:
    meter = TaskMeter("reader")
    meter.news(time.monotonic())
    for number in range(30):
        meter.record_event(f"event {number} " + "x" * 1_000, topic="t")
    news = meter.news(time.monotonic())
    assert news is not None
    assert [(text.split(" x")[0], len(text), more) for text, more in news["events"]] == [
        (f"event {number}", 500, {"topic": "t"}) for number in range(20)
    ]
    assert meter.news(time.monotonic()) is None


def test_brokers_that_do_not_answer_are_named_within_half_a_minute_and_until_they_do() -> None:
    def measured(away: str, away_ms: int) -> TaskMeasured:
        return TaskMeasured(ConnectorTaskId("c", 0), 1, 1, "reader", {}, {}, away=away, away_ms=away_ms)

    measures = TaskMeasures(0)
    measures.take(measured("no broker at h:1 answers: refused", 1_000), 2_000)
    movement = Movement(0, away=measures.away())
    assert stall_of(movement, 1_000 + AWAY_MS - 1, 120_000) is None
    assert stall_of(movement, 1_000 + AWAY_MS, 120_000) == Stall(1_000, "no broker at h:1 answers: refused")
    assert AWAY_MS < 30_000
    measures.take(measured("", 0), 3_000)
    assert measures.away() == ()


ROWS = pa.record_batch({"value": pa.array([b"1"])}).replace_schema_metadata({TOPIC: "t"})


def test_producer_of_librdkafka_says_that_no_broker_takes_its_records() -> None:
    def write(_: object) -> None:
        producer = KafkaBatchProducer({"bootstrap.servers": NOWHERE})
        producer.produce(ROWS)
        with pytest.raises(TimedOutError):
            producer.flush(3_000)
        producer.close()

    said = on_a_task_thread(write)
    assert said[0][0] == NOWHERE
    assert "refused" in said[0][1].lower()


def test_transactional_producer_of_librdkafka_says_that_no_broker_answers_its_claim() -> None:
    def claim(_: object) -> None:
        producer = KafkaTransactionalProducer({"bootstrap.servers": NOWHERE, "transactional.id": "t"})
        with pytest.raises(TimedOutError):
            producer.claim(3_000)
        producer.close()

    said = on_a_task_thread(claim)
    assert said[0][0] == NOWHERE
    assert said[0][1]


def test_transactional_producer_says_that_no_broker_answers_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_producer, "CONTACT_EACH_S", 0.05)

    def claim(_: object) -> None:
        properties = {"bootstrap.servers": NOWHERE, "transactional.id": "t", "retry.backoff.ms": "10"}
        settings = column_settings(properties)
        assert settings is not None
        producer = ColumnTransactionalProducer(settings)
        with pytest.raises(TimedOutError):
            producer.claim(1_000)
        producer.close()

    said = on_a_task_thread(claim)
    assert said[0][0] == NOWHERE
    assert said[0][1]
