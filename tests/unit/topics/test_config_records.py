import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_records import RecordKey, RecordKind, SessionKey


def test_keys_are_javas() -> None:
    assert records.connector_key("s") == b"connector-s"
    assert records.task_key(ConnectorTaskId("s-x", 3)) == b"task-s-x-3"
    assert records.commit_key("s") == b"commit-s"
    assert records.target_state_key("s") == b"target-state-s"
    assert records.task_count_key("s") == b"tasks-fencing-s"
    assert records.session_key_key() == b"session-key"
    assert records.restart_key("s") == b"restart-connector-s"
    assert records.logger_key("org.x") == b"logger-cluster-org.x"


def test_values_are_javas() -> None:
    assert records.encode_properties({"b": "1", "a": None}) == b'{"properties":{"b":"1","a":null}}'
    assert records.encode_commit(2) == b'{"tasks":2}'
    assert records.encode_task_count(2) == b'{"task-count":2}'
    assert records.encode_restart_request(True, False) == b'{"include-tasks":true,"only-failed":false}'
    assert records.encode_logger_level("debug") == b'{"level":"debug"}'
    key = SessionKey(b"\x00\x01", "HmacSHA256", 5)
    encoded = records.encode_session_key(key)
    assert encoded == b'{"key":"AAE=","algorithm":"HmacSHA256","creation-timestamp":5}'
    assert records.decode_session_key(records.decode_value(encoded)) == key
    assert "AAE" not in repr(key)
    assert "x00" not in repr(key)


def test_stopped_looks_paused_to_old_workers() -> None:
    assert records.encode_target_state("STOPPED") == b'{"state":"PAUSED","state.v2":"STOPPED"}'
    assert records.encode_target_state("STARTED") == b'{"state":"STARTED","state.v2":"STARTED"}'


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"target-state-a", RecordKey(RecordKind.TARGET_STATE, "a")),
        (b"connector-a-b", RecordKey(RecordKind.CONNECTOR, "a-b")),
        (b"task-a-b-12", RecordKey(RecordKind.TASK, "a-b", 12)),
        (b"commit-a", RecordKey(RecordKind.COMMIT, "a")),
        (b"restart-connector-a", RecordKey(RecordKind.RESTART, "a")),
        (b"tasks-fencing-a", RecordKey(RecordKind.TASK_COUNT, "a")),
        (b"session-key", RecordKey(RecordKind.SESSION_KEY, "")),
        (b"session-keys", None),
        (b"logger-cluster-root", RecordKey(RecordKind.LOGGER, "root")),
        (b"new-kind-a", None),
        (None, None),
    ],
)
def test_keys_decode(key: bytes | None, expected: RecordKey | None) -> None:
    assert records.decode_key(key) == expected


@pytest.mark.parametrize("key", [b"task-a", b"task-a-x", b"task-a-"])
def test_a_task_key_without_a_number_is_refused(key: bytes) -> None:
    with pytest.raises(DataError):
        records.decode_key(key)


def test_the_newer_field_of_a_target_state_wins() -> None:
    assert records.decode_target_state({"state": "PAUSED", "state.v2": "STOPPED"}) == "STOPPED"
    assert records.decode_target_state({"state": "PAUSED", "state.v2": None}) == "PAUSED"
    assert records.decode_target_state({"state": "PAUSED", "state.v2": 1}) == "PAUSED"
    assert records.decode_target_state({"state": "PAUSED"}) == "PAUSED"
    with pytest.raises(DataError):
        records.decode_target_state({"state": 1})


def test_restart_flags_default_to_false() -> None:
    request = records.decode_restart_request({"include-tasks": "yes"})
    assert (request.include_tasks, request.only_failed) == (False, False)
    with pytest.raises(DataError):
        records.decode_restart_request([])


@pytest.mark.parametrize("bad", [None, [], {}, {"tasks": None}, {"tasks": "2"}, {"tasks": 2.0}, {"tasks": True}])
def test_a_commit_needs_a_whole_number(bad: object) -> None:
    with pytest.raises(DataError):
        records.decode_commit(bad)
