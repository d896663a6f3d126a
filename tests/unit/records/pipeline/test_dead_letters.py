"""Records of a dead letter queue: Java's headers in Java's order, original bytes, and the sources' own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.api.records import ConsumeRow, Header, SourceRecord
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import BadConfigError, DataError, RetriableError
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.errant_records import (
    JAVA_SINK_TASK,
    FailedRecord,
    RefusedRecord,
    Stage,
    error_message,
    error_name,
    java_trace,
    log_sentence,
)
from tests.unit.records.pipeline.plugins_for_tests import WORKER, Upper, find

TASK = ConnectorTaskId("sink", 3)
CONSUMED: ConsumeRow = ("in", 2, 41, 1_700_000_000_000, b"k", b"{bad", [{"key": "mine", "value": b"\x00"}])
NAMES = {JsonConverter: "org.apache.kafka.connect.json.JsonConverter"}


def name_of(cls: type[Any]) -> str:
    return NAMES.get(cls) or public_name(cls)


def letters(**settings: str) -> DeadLetters:
    config = {f"errors.deadletterqueue.{name}": value for name, value in settings.items()}
    headers = config.pop("errors.deadletterqueue.headers", "true")
    config = {"errors.deadletterqueue.topic.name": "dlq", **config}
    told = ReportSettings.from_config({**config, "errors.deadletterqueue.context.headers.enable": headers})
    return DeadLetters(told, TASK, name_of)


def errant(record: Any = CONSUMED, error: Exception | None = None) -> FailedRecord:
    return FailedRecord("place", Stage.VALUE_CONVERTER, error or DataError("no JSON: ü"), JsonConverter, record)


def test_a_sinks_dead_letter_is_what_was_consumed() -> None:
    assert letters(headers="false").of_sink(errant()) == (
        "dlq",
        None,
        b"k",
        b"{bad",
        [("mine", b"\x00")],
        1_700_000_000_000,
    )
    plain: ConsumeRow = ("in", 0, 1, None, None, None, None)
    assert letters(headers="false").of_sink(errant(plain)) == ("dlq", None, None, None, None, None)


def test_no_secret_is_in_a_dead_letters_headers() -> None:
    letters_of = letters()
    hiding = replace(letters_of, hide=lambda text: text.replace("s3cret", "[hidden]"))
    row = hiding.of_sink(errant(error=DataError("login with s3cret was refused")))
    assert row is not None
    headers = dict(row[4] or [])
    assert headers["__connect.errors.exception.message"] == b"login with [hidden] was refused"
    assert b"s3cret" not in (headers["__connect.errors.exception.stacktrace"] or b"")


def test_context_headers_are_javas_in_its_order_behind_the_records_own() -> None:
    row = letters().of_sink(errant())
    assert row is not None
    headers = row[4] or []
    assert headers[:-1] == [
        ("mine", b"\x00"),
        ("__connect.errors.topic", b"in"),
        ("__connect.errors.partition", b"2"),
        ("__connect.errors.offset", b"41"),
        ("__connect.errors.connector.name", b"sink"),
        ("__connect.errors.task.id", b"3"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.class.name", b"org.apache.kafka.connect.json.JsonConverter"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", "no JSON: ü".encode()),
    ]
    name, trace = headers[-1]
    assert name == "__connect.errors.exception.stacktrace"
    assert trace is not None
    assert trace.startswith("org.apache.kafka.connect.errors.DataException: no JSON: ü\n".encode())


def test_an_error_without_a_message_has_a_null_header() -> None:
    row = letters().of_sink(errant(error=ValueError()))
    assert row is not None
    assert dict(row[4] or [])["__connect.errors.exception.message"] is None


class _Own(DataError):
    """An error class that a connector defines."""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (RetriableError("x"), "org.apache.kafka.connect.errors.RetriableException"),
        (BadConfigError({"a": ["b"]}), "org.apache.kafka.common.config.ConfigException"),
        (ValueError("x"), "builtins.ValueError"),
        (_Own("x"), f"{__name__}._Own"),
    ],
)
def test_errors_have_javas_names_where_ours_stand_for_them(error: Exception, name: str) -> None:
    assert error_name(error) == name
    assert error_message(error) == str(error)


def _raise_with_cause() -> None:
    try:
        raise ValueError("inner")
    except ValueError as error:
        raise DataError("outer") from error


def test_a_trace_has_javas_form() -> None:
    with pytest.raises(DataError) as raised:
        _raise_with_cause()
    lines = java_trace(raised.value).splitlines()
    assert lines[0] == "org.apache.kafka.connect.errors.DataException: outer"
    assert lines[1].startswith(f"\tat {__name__}._raise_with_cause(test_dead_letters.py:")
    cause = lines.index("Caused by: builtins.ValueError: inner")
    assert lines[cause + 1].startswith("\tat ")


def test_the_log_has_javas_sentences() -> None:
    began = "Error encountered in task sink-3. Executing stage 'VALUE_CONVERTER' with class "
    json = "'org.apache.kafka.connect.json.JsonConverter'"
    assert log_sentence(TASK, errant(), name_of, with_record=False) == f"{began}{json}."
    assert log_sentence(TASK, errant(), name_of, with_record=True) == (
        f"{began}{json}, where consumed record is {{topic='in', partition=2, offset=41, timestamp=1700000000000, "
        "timestampType=CreateTime}."
    )
    put = FailedRecord("place", Stage.TASK_PUT, ValueError("x"), JAVA_SINK_TASK, None)
    assert f"with class '{JAVA_SINK_TASK}'." in log_sentence(TASK, put, name_of, with_record=True)
    record = SourceRecord({"f": "a"}, {"o": 1}, "t", value="v", value_schema=s.STRING, headers=(Header("h", 1),))
    assert (
        "where source record is = SourceRecord{sourcePartition={f=a}, sourceOffset={o=1}} ConnectRecord{topic='t'"
        in (log_sentence(TASK, errant(record), name_of, with_record=True))
    )


def converters() -> ConnectorConverters:
    return ConnectorConverters.from_config({}, WORKER, find)


def test_a_sources_dead_letter_is_what_its_converters_make_of_the_record() -> None:
    record = SourceRecord({"f": "a"}, {"o": 9}, "t", {"a": 1}, key="k", timestamp_ms=5, headers=(Header("h", "x"),))
    errant = FailedRecord("place", Stage.TRANSFORMATION, ValueError("no"), Upper, record)
    row = letters().of_source(errant, converters())
    assert row is not None
    assert (row[:4], row[5]) == (("dlq", None, b"k", b'{"a":1}'), 5)
    assert (row[4] or [])[:9] == [
        ("h", b"x"),
        ("__connect.errors.topic", b"t"),
        ("__connect.errors.partition", b"-1"),
        ("__connect.errors.offset", b"-1"),
        ("__connect.errors.source.partition", b'{"f":"a"}'),
        ("__connect.errors.source.offset", b'{"o":9}'),
        ("__connect.errors.key.encoding", b"converter"),
        ("__connect.errors.value.encoding", b"converter"),
        ("__connect.errors.connector.name", b"sink"),
    ]


@pytest.mark.parametrize(
    ("value", "schema", "stored", "encoding"),
    [({"a": "text"}, s.INT64, b'{"a":"text"}', b"json"), ({1, 2}, None, b"{1, 2}", b"text")],
)
def test_unconverted_value_is_stored_as_json_or_text(value: Any, schema: Any, stored: bytes, encoding: bytes) -> None:
    record = SourceRecord({}, {}, "t", value, value_schema=schema)
    row = letters().of_source(errant(record), converters())
    assert row is not None
    assert (row[3], dict(row[4] or [])["__connect.errors.value.encoding"]) == (stored, encoding)


def header_texts(row: Any) -> dict[str, str]:
    return {name.rpartition(".errors.")[2]: (value or b"").decode() for name, value in row[4] or ()}


def test_letter_of_a_small_refused_record_is_the_record() -> None:
    refused = RefusedRecord.of(DataError("no key"), ("out", None), (None, b"v"), [("mine", b"1")], 5)
    assert letters(headers="false").of_refused(refused) == ("dlq", None, None, b"v", [("mine", b"1")], 5)
    found = header_texts(letters().of_refused(refused))
    assert (found["topic"], found["partition"], found["stage"], found["mine"]) == ("out", "-1", "KAFKA_PRODUCE", "1")
    assert "value.encoding" not in found


def test_letter_of_a_large_refused_record_refers_to_it() -> None:
    refused = RefusedRecord.of(DataError("too large"), ("out", 3), (b"k", b"x" * 2_000_000))
    letter = letters(headers="false").of_refused(refused)
    assert (letter[2], letter[3]) == (b"k", b"x" * 1024)
    found = header_texts(letter)
    assert (found["topic"], found["partition"]) == ("out", "3")
    assert (found["record.size"], found["value.encoding"]) == ("2000001", "truncated")


def test_letter_that_the_queue_refuses_is_cut_if_it_has_context_headers() -> None:
    written = letters().of_sink(errant())
    assert written is not None
    refused = RefusedRecord.of(DataError("too large"), ("dlq", 0), (b"k", b"x" * 70_000), written[4] or ())
    letter = letters().of_refused_letter(refused)
    assert letter is not None
    found = header_texts(letter)
    assert (found["topic"], found["offset"], letter[3]) == ("in", "41", b"x" * 1024)
    assert found["value.encoding"] == "truncated"
    assert letters(headers="false").of_refused_letter(refused) is None
    small = RefusedRecord.of(DataError("no key"), ("dlq", 0), (None, b"v"), written[4] or ())
    assert letters().of_refused_letter(small) is None  # it would be refused again
