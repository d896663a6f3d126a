"""Java's own bytes of the three internal topics: what we decode, we write again as the same bytes."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.topics import config_records, offset_records, status_records
from spark_connect_rt.topics.config_records import RecordKey, RecordKind, TargetState
from spark_connect_rt.topics.config_state import ConfigFold, LoggerLevelUpdated, RestartRequested
from spark_connect_rt.topics.offset_records import OffsetFold
from spark_connect_rt.topics.status_records import TopicStatusKey
from spark_connect_rt.topics.status_store import StatusFold
from tests.parity.golden.recordings import recording, records


def _config_key_again(key: RecordKey) -> bytes:
    named = {
        RecordKind.CONNECTOR: config_records.connector_key,
        RecordKind.COMMIT: config_records.commit_key,
        RecordKind.TARGET_STATE: config_records.target_state_key,
        RecordKind.TASK_COUNT: config_records.task_count_key,
        RecordKind.RESTART: config_records.restart_key,
        RecordKind.LOGGER: config_records.logger_key,
    }
    if key.kind is RecordKind.SESSION_KEY:
        return config_records.session_key_key()
    return config_records.task_key(key.task_id) if key.kind is RecordKind.TASK else named[key.kind](key.name)


def _config_value_again(kind: RecordKind, value: bytes) -> bytes:
    decoded = config_records.decode_value(value)
    match kind:
        case RecordKind.CONNECTOR | RecordKind.TASK:
            return config_records.encode_properties(config_records.decode_properties(decoded))
        case RecordKind.COMMIT:
            return config_records.encode_commit(config_records.decode_commit(decoded))
        case RecordKind.TARGET_STATE:
            return config_records.encode_target_state(config_records.decode_target_state(decoded))
        case RecordKind.TASK_COUNT:
            return config_records.encode_task_count(config_records.decode_task_count(decoded))
        case RecordKind.SESSION_KEY:
            return config_records.encode_session_key(config_records.decode_session_key(decoded))
        case RecordKind.RESTART:
            request = config_records.decode_restart_request(decoded)
            return config_records.encode_restart_request(request.include_tasks, request.only_failed)
        case RecordKind.LOGGER:
            return config_records.encode_logger_level(config_records.decode_logger_level(decoded))


def test_config_records_are_written_again_byte_for_byte() -> None:
    """Of every kind but the one that is ours: Java never writes it."""
    seen = set()
    for _, key, value in records("configs"):
        decoded = config_records.decode_key(key)
        assert decoded is not None, key
        seen.add(decoded.kind)
        assert _config_key_again(decoded) == key
        if value is not None:
            assert _config_value_again(decoded.kind, value) == value
    assert seen == set(RecordKind) - {RecordKind.PENDING}, "the recording lost a kind of record"


def test_status_records_are_written_again_byte_for_byte() -> None:
    seen = set()
    for _, key, value in records("statuses"):
        decoded = status_records.decode_key(key)
        assert decoded is not None, key
        seen.add(type(decoded))
        assert status_records.encode_key(decoded) == key
        if value is None:
            continue
        if isinstance(decoded, TopicStatusKey):
            assert status_records.encode_topic_status(status_records.decode_topic_status(value)) == value
        else:
            assert status_records.encode_status(status_records.decode_status(value)) == value
    assert len(seen) == 3, "the recording lost a kind of record"


def test_offset_records_are_written_again_byte_for_byte() -> None:
    found = records("offsets")
    assert found
    for _, key, value in found:
        assert offset_records.encode_key(*offset_records.decode_key(key)) == key
        assert offset_records.encode_value(offset_records.decode_value(value)) == value


def test_the_config_recording_folds_to_what_java_said_over_rest() -> None:
    fold = ConfigFold()
    events: list[object] = []
    for record in recording("topics")["configs"]:
        value = record["value"]
        events += fold.apply(record["offset"], record["key"].encode(), None if value is None else value.encode())
    state = fold.snapshot()
    answers = {answer["name"]: answer for answer in recording("rest")["answers"]}
    assert answers["what is left"]["body"] == '["snk","later"]'
    assert set(state.connectors()) == {"snk", "later"}
    assert state.target_state("snk") is TargetState.STOPPED
    assert state.target_state("later") is TargetState.STOPPED
    assert state.tasks("snk") == ()
    assert state.offset == recording("topics")["configs"][-1]["offset"] + 1
    assert state.inconsistent == frozenset()
    assert RestartRequested("src", include_tasks=True, only_failed=False) in events
    assert LoggerLevelUpdated("org.example", "DEBUG") in events


def test_the_exactly_once_recording_folds_to_running_tasks() -> None:
    fold = ConfigFold()
    for record in recording("topics-exactly-once")["configs"]:
        fold.apply(record["offset"], record["key"].encode(), record["value"].encode())
    state = fold.snapshot()
    assert state.tasks("src") == (ConnectorTaskId("src", 0),)
    task = state.task_config(ConnectorTaskId("src", 0))
    assert task is not None
    assert task.written()["batch.size"] == "100"
    assert state.task_count_record("src") == 1
    assert state.pending_fencing == frozenset()


def test_the_offset_recording_is_found_and_written_again_under_its_own_key() -> None:
    fold = OffsetFold()
    last = b""
    for record in recording("topics")["offsets"]:
        last = record["key"].encode()
        fold.apply(last, record["value"].encode())
    assert fold.connector_offsets("src") == [({"filename": "in.txt"}, {"position": 14})]
    written = fold.writes("src", {"filename": "in.txt"}, {"position": 20})
    assert list(written) == [(last, b'{"position":20}')]


@pytest.mark.parametrize(("connector", "known"), [("later", True), ("src", False), ("bad", False)])
def test_the_status_recording_folds_to_who_is_left(connector: str, known: bool) -> None:
    fold = StatusFold()
    for record in recording("topics")["statuses"]:
        value = record["value"]
        fold.apply(record["key"].encode(), None if value is None else value.encode())
    assert (connector in fold.connectors) is known
    assert fold.tasks(connector) == {}
    assert fold.topics("src") == ()
