"""SQL connectors on a real PostgreSQL: one source task (incrementing), one sink task (upsert by key), 1 M rows each.

There is no JDBC connector of Kafka's own to run beside: the limit is what the database gives and takes without Kafka.
Source: ADBC reads the same SELECT into Arrow columns. Sink: COPY of the same rows into a table with the same key. Keys
that are in the table already: COPY into a temporary table and INSERT ... ON CONFLICT, in lots of a poll's size.
A run is ``exact`` when topic or table hold every row once, as it was.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
from adbc_driver_postgresql import dbapi
from confluent_kafka import Producer

from bench.lab import Lab, TopicTruth
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from bench.source import watch
from spark_connect_rt.connectors.sql.sql_settings import adbc_uri
from tests.support.postgres_server import PostgresServer
from tests.support.worker_process import WorkerProcess

FULL, SMALL = 1_000_000, 5_000
RUN_LIMIT_S = 600.0
COLUMNS = "id BIGINT PRIMARY KEY, word TEXT, amount DOUBLE PRECISION, n INTEGER, yes BOOLEAN"
FILL = """INSERT INTO orders SELECT g, 'word number ' || g, g / 8.0, (g % 1000)::int, g % 2 = 0
 FROM generate_series(1, {count}) g"""
DIGEST = "SELECT count(*), sum(id), sum(amount), sum(n), sum(length(word)), count(*) FILTER (WHERE yes) FROM {table}"
UPSERT = """INSERT INTO copies SELECT * FROM stage ON CONFLICT (id)
 DO UPDATE SET word = EXCLUDED.word, amount = EXCLUDED.amount, n = EXCLUDED.n, yes = EXCLUDED.yes"""
LOT = 5_000  # max.poll.records as it is by default
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


def run(lab: Lab, short: bool) -> Result:
    """Source and limit, sink and limit, in turn; five of each, the first with a worker and a broker that are cold."""
    count, times = (SMALL, 1) if short else (FULL, 5)
    result = Result(
        "sql", "rows/s of one SqlSource task (and, by its own rows, of one SqlSink task)", "rows_per_s", True, "exact"
    )
    with PostgresServer() as server:
        bench = _Bench(lab, server.create_database("bench"), count)
        worker = lab.side("ours")
        for _ in range(times):
            if worker is not None:
                result.runs.append(bench.source(worker))
            result.runs.append(bench.source_limit())
        topic = bench.fill_topic()
        for _ in range(times):
            if worker is not None:
                result.runs.append(bench.sink(worker, topic))
            result.runs.append(bench.sink_limit())
        for _ in range(times):
            if worker is not None:
                result.runs.append(bench.sink(worker, topic, known=True))
            result.runs.append(bench.upsert_limit())
        lab.delete_topic(topic)
        bench.close()
    result.conclude()
    for keys, bare in (("sink", "COPY"), ("known keys", "COPY and INSERT ... ON CONFLICT")):
        ours, limit = result.median(f"ours ({keys})"), result.median(f"limit ({keys})")
        if ours and limit:
            result.notes.append(f"upsert, {keys}: {ours:,.0f} rows/s, {ours / limit:.2f} of a bare {bare}")
    result.notes += lab.complaints
    result.met = worker is not None and all(turn.figures.get("exact", True) for turn in result.runs)
    return result


class _Bench:
    """One database with the table ``orders``."""

    def __init__(self, lab: Lab, url: str, count: int) -> None:
        self._lab, self._url, self._count = lab, url, count
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self._connection = self._engine.connect()
        self._run(f"CREATE TABLE orders ({COLUMNS})", FILL.format(count=count), "ANALYZE orders")
        self._wanted = self._digest("orders")

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._connection.execute(sa.text(statement))
            self._connection.commit()

    def _digest(self, table: str) -> tuple[object, ...]:
        return tuple(self._connection.execute(sa.text(DIGEST.format(table=table))).one())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def source(self, worker: WorkerProcess) -> Run:
        """Copy the table into a topic."""
        name = self._lab.fresh("sql-in")
        topic = f"{name}-orders"
        self._lab.create_topic(topic)
        truth = TopicTruth(self._lab.bootstrap_servers, topic)
        truth.end()
        with CpuMeter(worker.processes) as meter:
            begun = time.monotonic()
            config = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "orders", **JSON}
            self._create(worker, name, "SqlSource", {**config, "topic.prefix": f"{name}-"})
            watched = watch(truth, self._count, begun)
        figures = {"rows_per_s": watched.pop("records_per_s"), **watched, "cpu_s": round(meter.used_s, 1)}
        worker.rest.delete(name)
        figures["exact"] = truth.digest()[0] == self._count
        truth.close()
        self._lab.delete_topic(topic)
        return Run("ours", figures)

    def source_limit(self) -> Run:
        """Read the same rows into Arrow columns, and do nothing with them."""
        begun, rows = time.monotonic(), 0
        with dbapi.connect(adbc_uri(self._engine.url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, word, amount, n, yes FROM orders ORDER BY id")
            for batch in cursor.fetch_record_batch():
                rows += batch.num_rows
        whole_s = time.monotonic() - begun
        return Run(
            "limit", {"rows_per_s": round(rows / whole_s), "whole_s": round(whole_s, 2), "exact": rows == self._count}
        )

    def fill_topic(self) -> str:
        """Write every row as JSON into one partition."""
        topic = self._lab.fresh("sql-rows")
        self._lab.create_topic(topic)
        producer = Producer({"bootstrap.servers": self._lab.bootstrap_servers, "linger.ms": 5, "batch.size": 1 << 20})
        rows = self._connection.execute(sa.text("SELECT row_to_json(orders)::text FROM orders ORDER BY id"))
        for (text,) in rows:
            while True:
                try:
                    producer.produce(topic, text.encode())
                    break
                except BufferError:
                    producer.poll(0.5)
        producer.flush()
        self._connection.rollback()
        return topic

    def _make_copies(self, known: bool) -> None:
        """Make the sink's table: empty, or with every key and other values."""
        fill = ["INSERT INTO copies SELECT id, '', 0, 0, false FROM orders"] if known else []
        self._run("DROP TABLE IF EXISTS copies", f"CREATE TABLE copies ({COLUMNS})", *fill, "ANALYZE copies")

    def sink(self, worker: WorkerProcess, topic: str, known: bool = False) -> Run:
        """Upsert every record of the topic into an empty table, or into one with all of the keys."""
        self._make_copies(known)
        name = self._lab.fresh("sql-out")
        config = {"topics": topic, "table.name.format": "copies", "insert.mode": "upsert"}
        with CpuMeter(worker.processes) as meter:
            begun = time.monotonic()
            keys = {"pk.mode": "record_value", "pk.fields": "id"}
            self._create(worker, name, "SqlSink", {**config, **keys, **JSON})
            figures = self._watch_table(begun, known)
        figures["cpu_s"] = round(meter.used_s, 1)
        worker.rest.delete(name)
        figures["exact"] = self._digest("copies") == self._wanted
        return Run("ours (known keys)" if known else "ours (sink)", figures)

    def _watch_table(self, begun: float, known: bool) -> dict[str, float]:
        """Look at the greatest key, which the records bring last; from the first commit seen to the last.

        Keys that were there: at the greatest of a hundred that got its values.
        """
        marks = ", ".join(str(self._count * part // 100) for part in range(1, 101))
        look = "SELECT coalesce(max(id), 0) FROM copies" + (f" WHERE id IN ({marks}) AND word <> ''" if known else "")
        first_at, first, last = begun, 0, 0
        while last < self._count and time.monotonic() - begun < RUN_LIMIT_S:
            last = self._connection.execute(sa.text(look)).scalar_one()
            self._connection.rollback()
            if last and not first:
                first_at, first = time.monotonic(), last
            time.sleep(0.05)
        now = time.monotonic()
        moved, flow_s = (last - first, now - first_at) if first < last else (last, now - begun)
        return {
            "rows_per_s": round(moved / flow_s),
            "first_s": round(first_at - begun, 2),
            "whole_s": round(now - begun, 2),
        }

    def sink_limit(self) -> Run:
        """Take the rows out as CSV, then COPY them into an empty table with the same key."""
        self._make_copies(known=False)
        driver = self._connection.connection.driver_connection
        assert driver is not None
        with driver.cursor() as cursor:
            data = b"".join(self._csv_lines(cursor))
            begun = time.monotonic()
            with cursor.copy("COPY copies FROM STDIN (FORMAT csv)") as copy:
                copy.write(data)
            driver.commit()
        whole_s = time.monotonic() - begun
        exact = self._digest("copies") == self._wanted
        return Run(
            "limit (sink)", {"rows_per_s": round(self._count / whole_s), "whole_s": round(whole_s, 2), "exact": exact}
        )

    @staticmethod
    def _csv_lines(cursor: Any) -> list[bytes]:
        with cursor.copy("COPY (SELECT * FROM orders ORDER BY id) TO STDOUT (FORMAT csv)") as copy:
            return [bytes(line) for line in copy]

    def upsert_limit(self) -> Run:
        """Upsert the same rows into a table with all of the keys, a poll's rows at a time and in a transaction."""
        self._make_copies(known=True)
        driver: Any = self._connection.connection.driver_connection
        with driver.cursor() as cursor:
            lines = self._csv_lines(cursor)
            cursor.execute("CREATE TEMPORARY TABLE stage ON COMMIT DELETE ROWS AS SELECT * FROM copies WITH NO DATA")
            driver.commit()
            begun = time.monotonic()
            for start in range(0, len(lines), LOT):
                with cursor.copy("COPY stage FROM STDIN (FORMAT csv)") as copy:
                    copy.write(b"".join(lines[start : start + LOT]))
                cursor.execute(UPSERT)
                driver.commit()
            whole_s = time.monotonic() - begun
            cursor.execute("DROP TABLE stage")
            driver.commit()
        figures = {"rows_per_s": round(self._count / whole_s), "whole_s": round(whole_s, 2)}
        return Run("limit (known keys)", {**figures, "exact": self._digest("copies") == self._wanted})

    def _create(self, worker: WorkerProcess, name: str, kind: str, config: dict[str, str]) -> None:
        worker.rest.create(name, {"connector.class": kind, "tasks.max": "1", "connection.url": self._url, **config})
