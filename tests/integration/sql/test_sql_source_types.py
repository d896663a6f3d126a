"""Every column type has its Connect form, and the same one whether it is read in Arrow columns or in rows."""

from __future__ import annotations

import base64

import pytest

from tests.integration.sql.conftest import Database
from tests.integration.sql.test_sql_source import INCREMENTING, harness

TYPES = """CREATE TABLE kinds (id BIGSERIAL PRIMARY KEY, small SMALLINT, money NUMERIC(10,2), huge NUMERIC(60,3),
 free NUMERIC, day DATE, hour TIME, at TIMESTAMP, zoned TIMESTAMPTZ, raw BYTEA, tree JSONB, uid UUID, list INT[],
 single REAL, double DOUBLE PRECISION, yes BOOLEAN, mood mood)"""
VALUES = """INSERT INTO kinds (small, money, huge, free, day, hour, at, zoned, raw, tree, uid,
 list, single, double, yes, mood) VALUES (
 7, 12.50, 123456789012345678901234567890123456789012.125, 3.14159, '2024-02-29', '10:11:12.5',
 '2024-07-01 12:00:00.123456', '2024-07-01 12:00:00+02', '\\x00ff', '{"a": [1]}',
 '12345678-1234-1234-1234-123456789abc', '{1,2}', 1.5, 2.25, true, 'glad')"""


@pytest.mark.parametrize("arrow", ["true", "false"])
def test_every_type_of_postgresql_has_its_connect_form(
    postgres_database: Database, arrow: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    postgres_database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        TYPES,
        VALUES.replace(":", "\\:"),
        "INSERT INTO kinds DEFAULT VALUES",
    )
    settings = {"mode": "incrementing", "connectrt.sql.arrow": arrow, "db.timezone": "Europe/Berlin"}
    with harness(
        postgres_database,
        **settings,
        **{"value.converter": "JsonConverter", "value.converter.decimal.format": "NUMERIC"},
    ) as source:
        records = [record.json() for record in source.poll_all()]
    fields = {
        field["field"]: (field["type"], field.get("name", "").rpartition(".")[2], field["optional"])
        for field in records[0]["schema"]["fields"]
    }
    assert records[0]["schema"]["name"] == "kinds"
    assert fields == {
        "id": ("int64", "", False),
        "small": ("int16", "", True),
        "money": ("bytes", "Decimal", True),
        "huge": ("bytes", "Decimal", True),
        "free": ("string", "", True),
        "day": ("int32", "Date", True),
        "hour": ("int32", "Time", True),
        "at": ("int64", "Timestamp", True),
        "zoned": ("int64", "Timestamp", True),
        "raw": ("bytes", "", True),
        "tree": ("string", "", True),
        "uid": ("string", "", True),
        "list": ("string", "", True),
        "single": ("float", "", True),
        "double": ("double", "", True),
        "yes": ("boolean", "", True),
        "mood": ("string", "", True),
    }
    assert records[0]["payload"] == {
        "id": 1,
        "small": 7,
        "money": 12.5,
        "huge": 123456789012345678901234567890123456789012.125,
        "free": "3.14159",
        "day": 19782,
        "hour": 36672500,
        "at": 1719828000123,  # 12:00 in Berlin
        "zoned": 1719828000000,
        "raw": base64.b64encode(b"\x00\xff").decode(),
        "tree": '{"a": [1]}',
        "uid": "12345678-1234-1234-1234-123456789abc",
        "list": "{1,2}",
        "single": 1.5,
        "double": 2.25,
        "yes": True,
        "mood": "glad",
    }
    assert records[1]["payload"] == {**dict.fromkeys(fields, None), "id": 2}
    assert "is read row by row" not in caplog.text


LOOSE = """CREATE TABLE kinds (id INTEGER PRIMARY KEY, money NUMERIC(10,2), day DATE, hour TIME, at TIMESTAMP,
 yes BOOLEAN, real REAL, raw BLOB)"""


@pytest.mark.parametrize("arrow", ["true", "false"])
def test_sqlite_has_the_same_forms_both_ways(
    sqlite_database: Database, arrow: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = "1, 12.5, '2024-02-29', '10:11:12.5', '2024-07-01 12:00:00.123', 1, 1.5, x'00ff'"
    sqlite_database.run(
        LOOSE, f"INSERT INTO kinds VALUES ({row.replace(':', chr(92) + ':')})", "INSERT INTO kinds (id) VALUES (2)"
    )
    caplog.set_level("INFO")
    with harness(sqlite_database, **INCREMENTING, **{"connectrt.sql.arrow": arrow}) as source:
        full, empty = [record.json() for record in source.poll_all()]
    assert full == {
        "id": 1,
        "money": base64.b64encode((1250).to_bytes(2, "big")).decode(),
        "day": 19782,
        "hour": 36672500,
        "at": 1719835200123,
        "yes": True,
        "real": 1.5,
        "raw": base64.b64encode(b"\x00\xff").decode(),
    }
    assert empty == {**dict.fromkeys(full), "id": 2}
    assert "is read row by row" not in caplog.text


@pytest.mark.parametrize(
    ("mapping", "wanted"),
    [
        ("none", ("bytes", "bytes", "bytes", "string")),
        ("precision_only", ("int8", "int32", "bytes", "string")),
        ("best_fit", ("int8", "int32", "double", "double")),
        ("best_fit_eager_double", ("int8", "int32", "double", "double")),
    ],
)
def test_numeric_mapping(postgres_database: Database, mapping: str, wanted: tuple[str, ...]) -> None:
    postgres_database.run(
        "CREATE TABLE numbers (id INT PRIMARY KEY, a NUMERIC(2), b NUMERIC(9,0), c NUMERIC(5,2), d NUMERIC)",
        "INSERT INTO numbers VALUES (1, 12, 123456789, 1.25, 2.5)",
    )
    with harness(
        postgres_database, **INCREMENTING, **{"numeric.mapping": mapping, "value.converter": "JsonConverter"}
    ) as source:
        (record,) = source.poll_all()
    assert tuple(field["type"] for field in record.json()["schema"]["fields"][1:]) == wanted
