"""Sources of files of every format, the file sink and datagen in a real worker that is killed: a restart goes on where
it was, bad input is dead or replaced, and nothing is lost.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.connectors.samples.datagen_source import parse_fields, rows
from tests.e2e.commands import until
from tests.integration.kafka.http_and_kafka import JSON, NO_JSON, TOLERANT
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.numbered_lines import create_topics
from tests.topics import count_records, read_values

LIMIT_S = 60.0
pytestmark = pytest.mark.timeout(5 * LIMIT_S)
FORMATS = ("csv", "jsonl", "parquet")
GENERATED, FILES, ROWS = 750, 6, 50


class Files:
    """A folder for each format, a file of lines, and the topics of one group."""

    def __init__(self, group: str, servers: str, folder: Path) -> None:
        self.group, self.servers, self.folder = group, servers, folder
        for kind in FORMATS:
            (folder / kind).mkdir(parents=True)
        create_topics(servers, [self.topic(name) for name in (*FORMATS, "lines", "generated")])

    def topic(self, name: str) -> str:
        return f"{self.group}-{name}"

    def configs(self) -> dict[str, dict[str, str]]:
        directories = {
            kind: {
                "connector.class": "DirectorySource",
                "directory": str(self.folder / kind),
                "format": kind,
                "file.settle.ms": "0",
                "poll.interval.ms": "100",
                **({} if kind == "parquet" else {"schema": "n:int64"}),
            }
            for kind in FORMATS
        }
        others = {
            "lines": {"connector.class": "FileStreamSource", "file": str(self.folder / "in.txt")},
            "generated": {
                "connector.class": "DatagenSource",
                "datagen.rate": "50",
                "datagen.batch.records": "10",
                "datagen.max.records": str(GENERATED),
            },
        }
        text = {**JSON, "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
        sources = {
            self.topic(name): {**(text if name == "lines" else JSON), **TOLERANT, **config, **self._own(name)}
            for name, config in {**directories, **others}.items()
        }
        sink = {"connector.class": "FileStreamSink", "topics": self.topic("csv"), "file": str(self.folder / "out.txt")}
        dead = {"errors.deadletterqueue.topic.name": self.topic("dead-out")}
        return {**sources, self.topic("out"): {**JSON, **TOLERANT, **sink, **dead}}

    def _own(self, name: str) -> dict[str, str]:
        return {"topic": self.topic(name), "errors.deadletterqueue.topic.name": self.topic(f"dead-{name}")}

    def write(self, first: int) -> None:
        """Write files with the numbers from ``first`` on, and as many lines."""
        for number in range(FILES):
            numbers = range(first + number * ROWS, first + (number + 1) * ROWS)
            name = f"{first + number:06}"
            self._put("csv", name, "".join(f"{n}\n" for n in ("n", *numbers)).encode())
            self._put("jsonl", name, b"".join(orjson.dumps({"n": n}) + b"\n" for n in numbers))
            pq.write_table(pa.table({"n": numbers}), self.folder / f".{name}")
            (self.folder / f".{name}").rename(self.folder / "parquet" / name)
        with (self.folder / "in.txt").open("ab") as file:
            file.write(b"".join(b"%d\n" % n for n in range(first, first + FILES * ROWS)))

    def write_what_is_bad(self) -> None:
        """Write a bad row or file of each format, and a line that is no UTF-8."""
        self._put("csv", "bad", b"n\nno number\n")
        self._put("jsonl", "bad", b'{"n":\n')
        self._put("parquet", "bad", b"PAR1 no")
        with (self.folder / "in.txt").open("ab") as file:
            file.write(b"\xff\n")
        producer = Producer({"bootstrap.servers": self.servers})
        producer.produce(self.topic("csv"), NO_JSON)
        assert producer.flush(30) == 0

    def _put(self, kind: str, name: str, data: bytes) -> None:
        """Have a whole file appear at once."""
        (self.folder / f".{kind}").write_bytes(data)
        (self.folder / f".{kind}").rename(self.folder / kind / name)

    def values(self, name: str) -> list[bytes]:
        topic = self.topic(name)
        return [value or b"" for value in read_values(self.servers, topic, count_records(self.servers, topic))]

    def numbers(self, name: str) -> list[int]:
        """Return the numbers that came, in a topic of a source or in the sink's file; not what is bad."""
        if name == "out":
            lines = (self.folder / "out.txt").read_text().splitlines() if (self.folder / "out.txt").exists() else []
            return [int(line[3:-1]) for line in lines if line.startswith("{n=") and line.endswith("}")]
        values = [value for value in self.values(name) if value not in (NO_JSON, "\ufffd".encode())]
        return [int(value) if name == "lines" else orjson.loads(value)["n"] for value in values]


def test_a_killed_worker_continues_with_its_files_and_bad_input_is_dead(broker: EmbeddedKafka, tmp_path: Path) -> None:
    group = f"files-{uuid.uuid4().hex[:8]}"
    files = Files(group, broker.bootstrap_servers, tmp_path / "data")
    worker = OurWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, group)
    places = (*FORMATS, "lines", "out")
    first, every = set(range(FILES * ROWS)), set(range(1_000 + FILES * ROWS)) - set(range(FILES * ROWS, 1_000))

    def told() -> str:
        return worker.log_file.read_text(errors="replace")[-3000:]

    def came(wanted: set[int]) -> None:
        for name in places:
            until(lambda name=name: set(files.numbers(name)) == wanted, LIMIT_S, f"every number in {name}", told)

    files.write(0)
    with worker:
        for name, config in files.configs().items():
            worker.rest.create(name, config)
        came(first)
        sunk = f"/connectors/{files.topic('out')}/offsets"
        until(  # else the sink would rightly write all of it again
            lambda: (
                [offset["offset"]["kafka_offset"] for offset in worker.rest.request("GET", sunk).json()["offsets"]]
                == [len(first)]
            ),
            LIMIT_S,
            "the sink's commit",
            told,
        )
        worker.kill()
        assert len(files.values("generated")) < GENERATED, "it was killed in mid-flow"
        files.write(1_000)
        files.write_what_is_bad()
        worker.start()
        came(every)
        schema = parse_fields("orders")
        generated = {orjson.dumps(row["orderid"]) for row in rows(schema, 0, 0, GENERATED).to_pylist()}
        until(
            lambda: {orjson.dumps(orjson.loads(file)["orderid"]) for file in files.values("generated")} == generated,
            LIMIT_S,
            "every generated record",
            told,
        )
        for name in ("csv", "jsonl", "out"):
            dead = f"dead-{name}"
            until(lambda dead=dead: bool(files.values(dead)), LIMIT_S, f"a dead letter in {dead}", told)
        unreadable = f"unreadable input at file {files.folder / 'parquet' / 'bad'}"  # no row of it is there to be dead
        until(lambda: unreadable in worker.log_file.read_text(errors="replace"), LIMIT_S, "the bad Parquet file", told)
        states = {name: worker.rest.states(name) for name in files.configs()}
        assert states == {name: ("RUNNING", ["RUNNING"]) for name in states}, told()
        assert worker.stop() == 0
    for name in places:
        repeated = len(files.numbers(name)) - len(every)
        assert repeated < len(first), f"{name} started over"
    assert "\ufffd".encode() in files.values("lines"), "what is no UTF-8 is replaced, as by Java"
    assert [file.strip() for file in files.values("dead-csv")] == [b"no number"]
    assert [file.strip() for file in files.values("dead-jsonl")] == [b'{"n":']
    assert set(files.values("dead-out")) == {NO_JSON}
