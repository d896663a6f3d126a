import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import status_records as records
from spark_connect_rt.topics.status_records import (
    ConnectorStatusKey,
    StatusFields,
    StatusKey,
    TaskStatusKey,
    TopicStatus,
    TopicStatusKey,
)


@pytest.mark.parametrize(
    ("key", "encoded"),
    [
        (ConnectorStatusKey("a-b"), b"status-connector-a-b"),
        (TaskStatusKey(ConnectorTaskId("a-b", 3)), b"status-task-a-b-3"),
        (TopicStatusKey("c:connector-d", "t"), b"status-topic-t:connector-c:connector-d"),
    ],
)
def test_keys_are_javas_and_read_back(key: StatusKey, encoded: bytes) -> None:
    assert records.encode_key(key) == encoded
    assert records.decode_key(encoded) == key


def test_values_have_javas_field_order_and_a_null_trace() -> None:
    fields = StatusFields("RUNNING", None, "h:8083", 7)
    encoded = records.encode_status(fields)
    assert encoded.startswith(b'{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":7')
    assert records.decode_status(encoded) == fields


def test_a_trace_with_invalid_utf8_is_reported() -> None:
    encoded = records.encode_status(StatusFields("FAILED", "no such file: caf\udce9.csv", "h:8083", 7))
    assert records.decode_status(encoded).trace == "no such file: caf\\udce9.csv"


def test_a_status_of_an_older_worker_reads() -> None:
    old = b'{"state":"FAILED","trace":"boom","worker_id":"h:8083","generation":7}'
    assert records.decode_status(old) == StatusFields("FAILED", "boom", "h:8083", 7)


def test_a_generation_is_narrowed_to_32_bits() -> None:
    value = b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":4294967295}'
    assert records.decode_status(value).generation == -1


def test_a_topic_status_is_javas_and_reads_back() -> None:
    status = TopicStatus("t", "c", 2, 1690000000000)
    encoded = records.encode_topic_status(status)
    assert encoded == b'{"topic":{"name":"t","connector":"c","task":2,"discoverTimestamp":1690000000000}}'
    assert records.decode_topic_status(encoded) == status


@pytest.mark.parametrize("key", [b"status-task-a", b"status-task-a-x", b"status-topic-t", b"status-topic-:connector-c"])
def test_broken_keys_are_refused(key: bytes) -> None:
    with pytest.raises(DataError):
        records.decode_key(key)


ENDLESS = b'{"topic":{"name":"t","connector":"c","task":1e400,"discoverTimestamp":1}}'


@pytest.mark.parametrize("value", [b"1", b"{}", b'{"state":"RUNNING","worker_id":"w"}', b'{"topic":[]}', ENDLESS])
def test_broken_values_are_refused(value: bytes) -> None:
    with pytest.raises(DataError):
        records.decode_status(value)
    with pytest.raises(DataError):
        records.decode_topic_status(value)


def test_an_unknown_kind_of_key_is_nothing() -> None:
    assert records.decode_key(b"status-other-x") is None
    assert records.decode_key(None) is None
