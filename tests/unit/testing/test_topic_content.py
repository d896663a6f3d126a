"""What the Java proofs compare: nothing that says something of the data may be hidden by it."""

from __future__ import annotations

from tests.support.topic_content import Content, digests, normalised

CHANGE = b'{"after":{"id":1},"source":{"ts_ms":5,"lsn":7,"txId":3,"sequence":"[\\"6\\",\\"7\\"]"},"op":"u","ts_us":9}'
SNAPSHOT = CHANGE.replace(b'"op":"u"', b'"op":"r"')


def record(value: bytes | None, key: bytes = b"k", *headers: tuple[str, bytes]) -> Content:
    return Content(key, value, headers)


def test_clocks_and_the_runs_id_are_left_out_and_nothing_else() -> None:
    other_clock = CHANGE.replace(b'"ts_us":9', b'"ts_us":10')
    run = [record(value, b"k", ("__debezium.context.runId", value[-2:-1])) for value in (CHANGE, other_clock)]
    assert normalised(run[0]) == normalised(run[1])
    for old, new in ((b'"id":1', b'"id":2'), (b'"lsn":7', b'"lsn":8'), (b'"txId":3', b'"txId":4')):
        assert normalised(record(CHANGE)) != normalised(record(CHANGE.replace(old, new)))
    assert normalised(record(CHANGE, b"k", ("h", b"1"))) != normalised(record(CHANGE, b"k", ("h", b"2")))


def test_of_a_snapshot_the_place_in_the_log_is_left_out_too() -> None:
    assert normalised(record(SNAPSHOT)) == normalised(record(SNAPSHOT.replace(b'"lsn":7', b'"lsn":8')))
    assert normalised(record(SNAPSHOT)) != normalised(record(SNAPSHOT.replace(b'"id":1', b'"id":2')))


def test_digests_show_order_and_loss_by_key_and_ignore_repetitions() -> None:
    content, two, gone = record(b"1"), record(b"2"), record(None)
    whole = digests([content, two, gone])
    assert whole == digests([content, two, content, two, gone])
    assert whole != digests([two, content, gone])
    assert whole != digests([content, gone])
    assert digests([content]) != digests([record(b"1", b"other")])
