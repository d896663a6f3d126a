"""Debezium's JDBC sink: upserts into PostgreSQL, table made by the sink, batches of 500."""

from __future__ import annotations

import time

import psycopg
from confluent_kafka import Producer

from bench.hosted.captured import database_server
from bench.lab import Lab
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.turns import all_exact, note_speed, take_turns
from tests.support.postgres_server import PostgresServer, jdbc_url
from tests.support.worker_process import WorkerProcess

TARGET = 1.0
LIMIT_S = 300.0
_ID = '{"field":"id","type":"int32","optional":false}'
_NAME = '{"field":"name","type":"string","optional":true}'
_STRUCT = '{"schema":{"type":"struct","optional":false,"fields":['
_VALUE = _STRUCT + _ID + "," + _NAME + ']},"payload":{"id":%d,"name":"name %d"}}'
_KEY = _STRUCT + _ID + ']},"payload":{"id":%d}}'


def run(lab: Lab, short: bool) -> Result:
    """Have both write the table."""
    records = 1_000 if short else 100_000
    topic = _fill(lab, records)
    result = Result("hosted_jdbc", "records/s of Debezium's JDBC sink", "records_per_s", True, f">={TARGET}")
    with database_server() as server:
        take_turns(result, lab, short, lambda who, worker: _move(lab, server, who, worker, topic, records), None)
    truth = next(run.figures["sha256"] for run in result.runs if run.who.startswith("java"))
    for run_ in result.runs:
        run_.figures["exact"] = run_.figures.pop("sha256") == truth
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    note_speed(result, lab)
    lab.delete_topic(topic)
    return result


def _fill(lab: Lab, records: int) -> str:
    topic = lab.fresh("upserts")
    lab.create_topic(topic)
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "queue.buffering.max.messages": records + 1})
    for number in range(records):
        producer.produce(topic, _VALUE % (number, number), _KEY % number, partition=0)
    producer.flush()
    return topic


def _move(lab: Lab, server: PostgresServer, who: str, worker: WorkerProcess, topic: str, records: int) -> Run:
    url, name = server.create_database("sink"), lab.fresh("jdbc")
    config = {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": jdbc_url(url).partition("?")[0],
        "connection.username": "postgres",
        "connection.password": "postgres",
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "batch.size": "500",
        "collection.name.format": "sunk",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    with (
        psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection,
        CpuMeter(worker.processes) as meter,
    ):
        begun = time.monotonic()
        worker.rest.create(name, config)
        figures = _watch(connection, records, begun)
        table = connection.execute("SELECT md5(string_agg(id || name, ',' ORDER BY id)) FROM sunk").fetchone()
    worker.rest.delete(name)
    return Run(who, {**figures, "cpu_s": round(meter.used_s, 1), "sha256": table and table[0]})


def _watch(connection: psycopg.Connection[tuple[object, ...]], records: int, begun: float) -> dict[str, float]:
    """Count the table's rows, ten times a second: a count reads all of it."""
    first_at, first_count, count = begun, 0, 0
    while count < records and time.monotonic() - begun < LIMIT_S:
        made = connection.execute("SELECT to_regclass('sunk') IS NOT NULL").fetchone()
        row = connection.execute("SELECT count(*) FROM sunk").fetchone() if made and made[0] else None
        count = int(str(row[0])) if row else 0
        if count and not first_count:
            first_at, first_count = time.monotonic(), count
        time.sleep(0.1)
    now = time.monotonic()
    flow_s, moved = (now - first_at, count - first_count) if first_count < count else (now - begun, count)
    return {
        "records_per_s": round(moved / flow_s),
        "with_start": round(count / (now - begun)),
        "first_s": round(first_at - begun, 2),
        "whole_s": round(now - begun, 2),
    }
