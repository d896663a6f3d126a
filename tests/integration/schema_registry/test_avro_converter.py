"""AvroConverter and a registry over real HTTP: bytes, subjects, versions, evolution, whose fault an error is."""

from __future__ import annotations

import logging
import ssl
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError
from spark_connect_rt.records.registry.avro_converter import AvroConverter
from spark_connect_rt.records.registry.registry_client import library
from tests.integration.schema_registry.configured import configured
from tests.support.schema_registry import SchemaRegistry

TEST_RECORD = SchemaBuilder.struct().name("test").field("a", s.INT64).field("b", s.STRING).build()
WIDER = SchemaBuilder.struct().name("test").field("a", s.INT64).field("b", s.STRING)
WIDER_RECORD = WIDER.field("c", SchemaBuilder(Type.INT32).default(5).build()).build()


def converter(registry: SchemaRegistry, is_key: bool = False, **more: str) -> AvroConverter:
    return configured(AvroConverter(), registry, is_key, **more)


def test_the_bytes_are_the_wire_formats(registry: SchemaRegistry) -> None:
    """The record and its bytes are the example of the Avro specification."""
    avro_converter = converter(registry)
    data = avro_converter.from_connect_data("t", TEST_RECORD, Struct(TEST_RECORD, {"a": 27, "b": "foo"}))
    assert data == b"\x00" + b"\x00\x00\x00\x01" + bytes.fromhex("3606666f6f")
    assert registry.shelf.subjects == {"t-value": [1]}
    read = avro_converter.to_connect_data("t", data)
    assert read.value.to_dict() == {"a": 27, "b": "foo"}
    assert read.schema is not None
    assert (read.schema.name, read.schema.version) == ("test", 1)


@pytest.mark.parametrize(
    ("schema", "value", "payload"),
    [
        (s.STRING, "hé", b"\x06h\xc3\xa9"),
        (s.OPTIONAL_STRING, "a", b"\x02\x02a"),
        (s.BYTES, b"ab", b"ab"),  # a whole value of bytes has no length: Java's serializer
        (s.OPTIONAL_BYTES, b"ab", b"\x02\x04ab"),
        (s.INT8, -1, b"\x01"),
        (s.FLOAT64, 1.0, b"\x00\x00\x00\x00\x00\x00\xf0\x3f"),
        (SchemaBuilder.array(s.INT32).build(), [1, 2], b"\x04\x02\x04\x00"),
    ],
)
def test_values_that_are_not_structs(registry: SchemaRegistry, schema: Schema, value: Any, payload: bytes) -> None:
    avro_converter = converter(registry, is_key=True)
    data = avro_converter.from_connect_data("t", schema, value)
    assert data is not None
    assert data[5:] == payload
    assert avro_converter.to_connect_data("t", data).value == value
    assert list(registry.shelf.subjects) == ["t-key"]


def test_null_is_a_tombstone_unless_the_schema_forbids_it(registry: SchemaRegistry) -> None:
    avro_converter = converter(registry)
    assert avro_converter.from_connect_data("t", s.OPTIONAL_STRING, None) is None
    assert avro_converter.from_connect_data("t", None, None) is None
    assert avro_converter.to_connect_data("t", None) == (None, None)
    with pytest.raises(DataError, match="non-optional"):
        avro_converter.from_connect_data("t", s.STRING, None)
    assert not registry.asked


def test_values_without_a_schema_come_back_without_one(registry: SchemaRegistry) -> None:
    avro_converter = converter(registry)
    value = {"a": [1, None, 2.5, "x", True, b"q"], "m": {"n": None}}
    assert avro_converter.to_connect_data("t", avro_converter.from_connect_data("t", None, value)) == (None, value)


def test_the_registry_is_asked_once_a_schema(registry: SchemaRegistry) -> None:
    avro_converter = converter(registry)
    values = [Struct(TEST_RECORD, {"a": number, "b": "x"}) for number in range(50)]
    for value in values:
        assert avro_converter.to_connect_data("t", avro_converter.from_connect_data("t", TEST_RECORD, value)).value.get(
            "a"
        ) == value.get("a")
    assert [method for method, _ in registry.asked].count("POST") <= 2
    assert len(registry.asked) <= 4


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("RecordNameStrategy", "test"), ("TopicRecordNameStrategy", "t-test"), ("TopicNameStrategy", "t-value")],
)
def test_subjects(registry: SchemaRegistry, strategy: str, subject: str) -> None:
    name = f"io.confluent.kafka.serializers.subject.{strategy}"
    avro_converter = converter(registry, value_subject_name_strategy=name)
    avro_converter.from_connect_data("t", TEST_RECORD, Struct(TEST_RECORD, {"a": 1, "b": ""}))
    assert list(registry.shelf.subjects) == [subject]
    if strategy != "TopicNameStrategy":
        with pytest.raises(DataError, match="record"):
            avro_converter.from_connect_data("t", s.STRING, "x")


def test_older_and_newer_records_are_read_as_they_were_written_or_as_the_latest(registry: SchemaRegistry) -> None:
    avro_converter = converter(registry)
    old = avro_converter.from_connect_data("t", TEST_RECORD, Struct(TEST_RECORD, {"a": 1, "b": "x"}))
    new = avro_converter.from_connect_data("t", WIDER_RECORD, Struct(WIDER_RECORD, {"a": 2, "b": "y", "c": 3}))
    reader = converter(registry)
    assert reader.to_connect_data("t", old).value.to_dict() == {"a": 1, "b": "x"}
    newest = reader.to_connect_data("t", new)
    assert newest.value.to_dict() == {"a": 2, "b": "y", "c": 3}
    assert newest.schema is not None
    assert newest.schema.version == 2
    latest = converter(registry, use_latest_version="true")
    assert latest.to_connect_data("t", old).value.to_dict() == {"a": 1, "b": "x", "c": 5}
    assert latest.to_connect_data("t", old).schema == newest.schema


def test_without_auto_register_a_schema_must_be_there(registry: SchemaRegistry) -> None:
    value = Struct(TEST_RECORD, {"a": 1, "b": "x"})
    strict = converter(registry, auto_register_schemas="false")
    with pytest.raises(DataError, match="40401"):
        strict.from_connect_data("t", TEST_RECORD, value)
    data = converter(registry).from_connect_data("t", TEST_RECORD, value)
    assert strict.from_connect_data("t", TEST_RECORD, value) == data
    converter(registry).from_connect_data("t", WIDER_RECORD, Struct(WIDER_RECORD, {"a": 1, "b": "x", "c": 1}))
    latest = converter(registry, auto_register_schemas="false", use_latest_version="true")
    with_default = latest.from_connect_data("t", TEST_RECORD, value)
    assert converter(registry).to_connect_data("t", with_default).value.to_dict() == {"a": 1, "b": "x", "c": 5}


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "magic"), (b'{"a":1}', "magic"), (b"\x00\x00", "too few"), (b"\x00\x00\x00\x00\x63x", "40403")],
)
def test_bytes_of_another_format_or_of_an_unknown_schema(registry: SchemaRegistry, data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        converter(registry).to_connect_data("t", data)


def test_a_payload_that_is_truncated_and_a_schema_of_another_type(registry: SchemaRegistry) -> None:
    avro_converter = converter(registry)
    data = avro_converter.from_connect_data("t", TEST_RECORD, Struct(TEST_RECORD, {"a": 27, "b": "foo"}))
    assert data is not None
    with pytest.raises(DataError, match="does not fit"):
        avro_converter.to_connect_data("t", data[:-2])
    registry.shelf.register("p-value", {"schema": "{}", "schemaType": "JSON"})
    with pytest.raises(DataError, match="type JSON"):
        avro_converter.to_connect_data("p", b"\x00\x00\x00\x00\x02{}")


def test_types_of_other_subjects_are_found(registry: SchemaRegistry) -> None:
    registry.shelf.register("inner", {"schema": '{"type":"record","name":"x.In","fields":[{"name":"n","type":"int"}]}'})
    outer = '{"type":"record","name":"x.Out","fields":[{"name":"in","type":"x.In"}]}'
    reference = {"name": "x.In", "subject": "inner", "version": 1}
    registry.shelf.register("t-value", {"schema": outer, "references": [reference]})
    read = converter(registry).to_connect_data("t", b"\x00\x00\x00\x00\x02\x0e")
    assert read.value.get("in").to_dict() == {"n": 7}


def test_a_registry_that_does_not_answer_may_be_asked_again(registry: SchemaRegistry) -> None:
    avro_converter, value = converter(registry), Struct(TEST_RECORD, {"a": 1, "b": "x"})
    registry.failing = 503
    with pytest.raises(RetriableError, match="503"):
        avro_converter.from_connect_data("t", TEST_RECORD, value)
    registry.failing = None
    registry.stop()
    with pytest.raises(RetriableError, match="cannot be reached") as refused:
        avro_converter.from_connect_data("t", TEST_RECORD, value)
    assert refused.value.code == "CRT-1100"
    registry.start()
    assert avro_converter.from_connect_data("t", TEST_RECORD, value)


def test_the_next_address_is_tried(registry: SchemaRegistry) -> None:
    avro_converter = AvroConverter()
    avro_converter.configure({"schema.registry.url": f"http://127.0.0.1:1,{registry.url}", "max.retries": "0"})
    assert avro_converter.from_connect_data("t", s.STRING, "x")


def test_an_incompatible_schema_is_the_records_fault(registry: SchemaRegistry) -> None:
    registry.shelf.refusing.add("t-value")
    with pytest.raises(DataError, match="incompatible"):
        converter(registry).from_connect_data("t", s.STRING, "x")


def test_credentials() -> None:
    with SchemaRegistry(user="ann:se:cret") as registry:
        for given in ({}, {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "ann:wrong"}):
            with pytest.raises(ConnectError, match="401") as refused:
                converter(registry, **given).from_connect_data("t", s.STRING, "x")
            assert refused.value.code == "CRT-1101"
            assert not isinstance(refused.value, DataError | RetriableError)
            assert "wrong" not in str(refused.value)
        info = {"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "ann:se:cret"}
        assert converter(registry, **info).from_connect_data("t", s.STRING, "x")
    with SchemaRegistry(token="abc") as registry:
        bearer = {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "abc"}
        assert converter(registry, **bearer).from_connect_data("t", s.STRING, "x")
        with pytest.raises(BadConfigError, match=r"bearer\.auth\.token"):
            converter(registry, bearer_auth_credentials_source="STATIC_TOKEN")


def test_a_missing_token_is_retriable_and_no_secret_is_shown(registry: SchemaRegistry) -> None:
    oauth = {
        "bearer_auth_credentials_source": "OAUTHBEARER",
        "bearer_auth_issuer_endpoint_url": "http://127.0.0.1:1/token",
        "bearer_auth_client_id": "id",
        "bearer_auth_client_secret": "s3cret",
        "bearer_auth_scope": "x",
    }
    avro_converter = converter(registry, **oauth)
    with pytest.raises(RetriableError, match="no token") as failed:
        avro_converter.from_connect_data("t", s.STRING, "x")
    assert "s3cret" not in str(failed.value) + repr(avro_converter._settings)


def test_tls_with_a_trust_store_and_a_key_of_ones_own(tmp_path: Path) -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    authority.cert_pem.write_to_path(str(tmp_path / "trust.pem"))
    authority.issue_cert("worker").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    trust = {"schema_registry_ssl_truststore_location": str(tmp_path / "trust.pem")}
    with SchemaRegistry(tls=server) as registry:
        own = {"schema_registry_ssl_keystore_location": str(tmp_path / "own.pem")}
        assert converter(registry, **trust, **own).from_connect_data("t", s.STRING, "x")
        for less in (trust, {}):
            with pytest.raises(RetriableError, match="127"):
                converter(registry, **less).from_connect_data("t", s.STRING, "x")
    with pytest.raises(BadConfigError, match=r"ssl\.truststore\.location"):
        converter(registry, schema_registry_ssl_truststore_location="/nowhere.pem").from_connect_data(
            "t", s.STRING, "x"
        )


def test_without_the_extra_the_error_says_what_to_install(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.cache_clear()
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConnectError, match=r"spark-connect-rt\[registry\]") as missing:
        converter(registry).from_connect_data("t", TEST_RECORD, Struct(TEST_RECORD, {"a": 1, "b": "x"}))
    assert missing.value.code == "CRT-1102"
    library.cache_clear()


def test_unknown_settings_are_reported(registry: SchemaRegistry, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        converter(registry, schemas_enable="true", made_up="1")
    assert "made.up" in caplog.text
    assert "schemas.enable" not in caplog.text
    with pytest.raises(BadConfigError, match=r"schema\.registry\.url"):
        AvroConverter().configure({}, False)
    with pytest.raises(BadConfigError, match="TopicNameStrategy"):
        converter(registry, value_subject_name_strategy="Mine")


def test_a_column_of_flat_structs_is_written_at_once(registry: SchemaRegistry) -> None:
    avro_converter = converter(registry)
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    column = avro_converter.column_from_connect_data("t", TEST_RECORD, pa.array(rows))
    assert column is not None
    assert column.to_pylist() == [avro_converter.from_connect_data("t", TEST_RECORD, row) for row in rows]
    assert avro_converter.column_from_connect_data("t", TEST_RECORD, pa.array([{"a": 1, "b": None}])) is None
