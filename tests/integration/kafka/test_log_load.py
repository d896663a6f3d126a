"""A long topic is read for its last values only; a snapshot spares the head, and is thrown away when in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.logs import bulk_read, bulk_read_process
from spark_connect_rt.kafka.logs.bulk_read_process import SHARE_FROM_COUNT
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.log_snapshot import LogCache, decode_snapshot, encode_snapshot
from spark_connect_rt.topics.offset_store import OffsetStore
from tests.contract.compacted_log_contract import LIMIT_MS, CompactedLogContract, Seen, fresh_name, until

PARTITIONS = 3


class Lab:
    """One topic, its logs one after the other, and the file between them."""

    share_from = SHARE_FROM_COUNT

    def __init__(self, servers: str, admin: KafkaAdmin, folder: Path, bulk_from: int) -> None:
        self.topic, self.admin, self.bulk_from = fresh_name("long"), admin, bulk_from
        self.raw_admin = AdminClient({"bootstrap.servers": servers})
        self.clients = log_client_properties(
            worker_settings({"bootstrap.servers": servers, "group.id": "g"}), "offsets"
        )
        self.now_ms = 1_000_000
        self.cache = LogCache(folder, lambda: self.now_ms)

    def log(self, cached: bool = True) -> KafkaCompactedLog:
        load = LatestLoad(self.cache if cached else None, self.bulk_from, self.share_from)
        return KafkaCompactedLog(TopicSpec(self.topic, PARTITIONS, 1), self.admin, self.clients, load=load)

    def run(self, *records: tuple[bytes, bytes | None], cached: bool = True) -> tuple[list[LogRecord], Seen]:
        """Start, read to the end, append and stop; return what the load delivered, and everything."""
        log, seen = self.log(cached), Seen()
        log.start(seen)
        log.read_to_end(LIMIT_MS)
        loaded = list(seen.records)
        log.append(records)
        log.read_to_end(LIMIT_MS)
        log.stop()
        return loaded, seen

    @property
    def file(self) -> Path:
        (found,) = self.cache._directory.iterdir()
        return found

    def set(self, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic, incremental_configs=[entry])
        self.raw_admin.incremental_alter_configs([resource])[resource].result(20)
        until(lambda: (self.admin.topic_settings(self.topic) or {}).get(name) == value)  # the broker follows later


@pytest.fixture(scope="module")
def admin(broker: EmbeddedKafka) -> Iterator[KafkaAdmin]:
    made = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    yield made
    made.close()


@pytest.fixture(params=[1, 10**9], ids=["in whole batches", "record by record"])
def bulk_from(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def lab(broker: EmbeddedKafka, admin: KafkaAdmin, tmp_path: Path, bulk_from: int) -> Lab:
    return Lab(broker.bootstrap_servers, admin, tmp_path, bulk_from)


class TestLogWithLoad(CompactedLogContract):
    """Everything a log promises holds for one that loads, but that a start may return early and leave records out."""

    @pytest.fixture(autouse=True)
    def _cluster(self, lab: Lab) -> Iterator[None]:
        self.lab = lab
        yield
        del self.lab

    def new_log(self, topic: str, partitions: int = 1) -> KafkaCompactedLog:
        spec = TopicSpec(topic, partitions, 1)
        load = LatestLoad(self.lab.cache, self.lab.bulk_from)
        return KafkaCompactedLog(spec, self.lab.admin, self.lab.clients, load=load)

    def started(self, topic: str, partitions: int = 1) -> tuple[KafkaCompactedLog, Seen]:  # type: ignore[override]
        log, seen = self.new_log(topic, partitions), Seen()
        log.start(seen)
        log.read_to_end(LIMIT_MS)
        return log, seen


def numbered(count: int, keys: int) -> list[tuple[bytes, bytes | None]]:
    return [(b"k%d" % (n % keys), b"%d" % n) for n in range(count)]


def test_only_the_last_record_of_each_key_is_delivered(lab: Lab) -> None:
    lab.run(*numbered(5_000, 10), (b"k3", None), cached=False)
    loaded, _ = lab.run(cached=False)
    assert len(loaded) == 10
    assert {r.key: r.value for r in loaded} == {b"k%d" % n: None if n == 3 else b"%d" % (4_990 + n) for n in range(10)}
    assert [r.timestamp_ms for r in loaded] == sorted(r.timestamp_ms for r in loaded)


def test_the_next_start_reads_only_the_tail(lab: Lab) -> None:
    lab.run(*numbered(3_000, 10))
    assert lab.file.stat().st_size < 5_000
    lab.run((b"k1", b"new"), (b"k2", None), (b"k99", b"x"))
    loaded, seen = lab.run()
    expected = {b"k%d" % n: b"%d" % (2_990 + n) for n in range(10)} | {b"k1": b"new", b"k99": b"x"}
    del expected[b"k2"]
    assert {r.key: r.value for r in loaded if r.value is not None} == expected
    assert len(seen.records) <= len(expected) + 1
    before = decode_snapshot(lab.file.read_bytes())
    lab.run()
    assert decode_snapshot(lab.file.read_bytes()).records == before.records
    full, _ = lab.run(cached=False)
    assert {(r.key, r.value) for r in full if r.value is not None} == set(expected.items())


def test_records_from_the_snapshot_are_not_fetched_again(lab: Lab) -> None:
    """Told by a snapshot that holds what the topic does not: only this shows that it was believed."""
    lab.run(*numbered(100, 10))
    snapshot = decode_snapshot(lab.file.read_bytes())
    partition, offset, _, value, timestamp = snapshot.records[0]
    marked = (partition, offset, b"only here", value, timestamp)
    lab.file.write_bytes(encode_snapshot(replace(snapshot, records=(*snapshot.records, marked))))
    assert b"only here" in {r.key for r in lab.run()[0]}


def test_a_topic_created_again_is_read_from_its_beginning(lab: Lab) -> None:
    lab.run(*numbered(100, 10))
    lab.raw_admin.delete_topics([lab.topic])[lab.topic].result(20)
    while lab.admin.partition_count(lab.topic) is not None:
        pass
    lab.run(*[(b"k%d" % n, b"again") for n in range(5)], cached=False)
    loaded, _ = lab.run()
    assert {r.key: r.value for r in loaded} == {b"k%d" % n: b"again" for n in range(5)}


def test_another_history_behind_the_same_offsets_is_noticed(lab: Lab) -> None:
    """A truncated log that grew again past the bookmark: only the record at the bookmark tells."""
    lab.run(*numbered(100, 10))
    snapshot = decode_snapshot(lab.file.read_bytes())
    marks = {number: replace(mark, last_checksum=1) for number, mark in snapshot.bookmarks.items()}
    invented = (0, 0, b"of the other history", b"x", 1)
    lab.file.write_bytes(encode_snapshot(replace(snapshot, bookmarks=marks, records=(invented,))))
    loaded, _ = lab.run()
    assert {r.key: r.value for r in loaded} == {b"k%d" % n: b"%d" % (90 + n) for n in range(10)}


def test_deleted_records_are_not_kept_alive(lab: Lab) -> None:
    lab.run(*numbered(100, 10))
    ends = [ClientPartition(lab.topic, number, -1) for number in range(PARTITIONS)]
    lab.set("cleanup.policy", "delete")  # brokers delete records of no other topic
    until(lambda: are_deleted(lab, ends))  # the broker hears of the policy a little later
    lab.set("cleanup.policy", "compact")
    assert lab.run()[0] == []


def test_an_old_snapshot_may_have_missed_a_deletion(lab: Lab) -> None:
    lab.run(*numbered(100, 10))
    lab.set("delete.retention.ms", "60000")
    snapshot = decode_snapshot(lab.file.read_bytes())
    lab.file.write_bytes(encode_snapshot(replace(snapshot, records=((0, 0, b"its tombstone is gone", b"x", 1),))))
    lab.now_ms += 30_001
    assert {r.key for r in lab.run()[0]} == {b"k%d" % n for n in range(10)}


def are_deleted(lab: Lab, ends: list[ClientPartition]) -> bool:
    try:
        for future in lab.raw_admin.delete_records(ends).values():
            future.result(20)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff" * 50])
def test_a_corrupt_file_is_replaced(lab: Lab, damage: bytes) -> None:
    lab.run(*numbered(100, 10))
    lab.file.write_bytes(damage)
    assert len(lab.run()[0]) == 10
    assert len(decode_snapshot(lab.file.read_bytes()).records) == 10


def test_a_wrong_topic_still_fails_the_start(lab: Lab) -> None:
    lab.admin.create_topic(TopicSpec(lab.topic, 1, 1, {"cleanup.policy": "delete"}))
    with pytest.raises(BadConfigError, match="must be compact"):
        lab.log().start(Seen())


def test_failed_load_is_raised_to_its_waiter(lab: Lab) -> None:
    lab.run(*numbered(2_000, 10), cached=False)
    log = lab.log(cached=False)

    def refuse(_: object) -> None:
        raise ConnectError("cannot fold")

    log.start(refuse)
    with pytest.raises(ConnectError, match="cannot fold"):
        log.read_to_end(LIMIT_MS)
    log.stop()


def test_offsets_are_right_from_the_first_question_on(lab: Lab) -> None:
    for start in range(3):
        writer = OffsetStore(lab.log(cached=False))
        writer.start()
        for number in range(200):
            writer.put("c", [({"file": str(number % 10)}, {"position": start * 1_000 + number})])
        writer.flush(LIMIT_MS)
        writer.stop()
        store = OffsetStore(lab.log())  # cold first, then from its snapshot
        store.start()
        expected = [{"position": start * 1_000 + 190 + number} for number in range(10)]
        assert store.read("c", [{"file": str(number)} for number in range(10)]) == expected
        store.stop()
        again = OffsetStore(lab.log())
        again.start()
        assert len(again.connector_offsets("c")) == 10
        again.stop()


def test_batches_read_whole_hold_the_records_of_a_consumer(lab: Lab, broker: EmbeddedKafka) -> None:
    """Transactions, aborted ones too, and every codec; by the same answers from the consumer."""
    lab.run(*numbered(300, 50))
    clients = {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}  # as Java and our logs
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        producer = Producer({**clients, "compression.type": codec})
        for number in range(200):
            producer.produce(lab.topic, b"%s %d" % (codec.encode(), number), b"k%d" % number)
        assert producer.flush(20) == 0
    for end in ("commit_transaction", "abort_transaction"):
        producer = Producer({**clients, "transactional.id": fresh_name("writer")})
        producer.init_transactions(20)
        producer.begin_transaction()
        for number in range(150, 250):
            producer.produce(lab.topic, end.encode(), b"k%d" % number)
        assert producer.flush(20) == 0  # else an abort would never send them
        getattr(producer, end)(20)
    for isolation in ("read_committed", "read_uncommitted"):
        lab.clients = replace(lab.clients, consumer={**lab.clients.consumer, "isolation.level": isolation})
        values = {record.key: record.value for record in lab.run(cached=False)[0]}
        last = b"commit_transaction" if isolation == "read_committed" else b"abort_transaction"
        assert values == {b"k%d" % n: last if n >= 150 else b"zstd %d" % n for n in range(250)}


def counting(log: KafkaCompactedLog) -> list[int]:
    """Return how many messages the consumer reads at a time, to be filled."""
    taken: list[int] = []
    assert log._load is not None
    take = log._load.take

    def counted(messages: Sequence[Any], last: Mapping[int, Any]) -> bool:
        taken.append(len(messages))
        return take(messages, last)

    log._load.take = counted  # type: ignore[method-assign]
    return taken


def test_batches_read_whole_need_no_consumer(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.run(*numbered(1_000, 10), cached=False)
    log = lab.log(cached=False)
    taken = counting(log)
    with caplog.at_level("INFO"):
        log.start(Seen())
        log.read_to_end(LIMIT_MS)
    log.stop()
    assert (sum(taken) == 0) == (lab.bulk_from == 1)
    assert "record by record" not in caplog.text


def test_consumer_reads_logs_that_cannot_be_read_in_whole_batches(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lab.run(*numbered(1_000, 10), cached=False)
    with caplog.at_level("INFO"), monkeypatch.context() as refused:
        refused.setattr(bulk_read, "connection_arguments", _refuse_security)
        loaded, _ = lab.run(cached=False)
    assert {record.key for record in loaded} == {b"k%d" % n for n in range(10)}
    assert ("record by record" in caplog.text) == (lab.bulk_from == 1)


def _refuse_security(config: object) -> dict[str, object]:
    raise BadConfigError({"sasl.mechanism": ["GSSAPI needs the Python library gssapi"]})


@pytest.mark.parametrize(("module", "lives"), [(bulk_read_process.MODULE, True), ("no.such.module", False)])
@pytest.mark.parametrize("bulk_from", [1], indirect=True)
def test_several_processes_read_what_one_does_and_need_not_live(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, module: str, lives: bool
) -> None:
    lab.run(*numbered(1_000, 10), cached=False)
    alone, _ = lab.run(cached=False)
    monkeypatch.setattr(bulk_read_process, "MODULE", module)
    monkeypatch.setattr(bulk_read_process, "cpu_count", lambda: PARTITIONS)
    lab.share_from = 1
    log, seen = lab.log(cached=False), Seen()
    taken = counting(log)
    log.start(seen)
    log.read_to_end(LIMIT_MS)
    log.stop()
    assert seen.records == alone
    assert len(alone) == 10
    assert (sum(taken) == 0) == lives  # of who brought nothing the consumer reads the part
