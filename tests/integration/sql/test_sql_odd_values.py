"""Values that a database has and Python has not: one row is refused by name, whichever way it is read.

And positions: a column whose values an offset cannot hold is refused when the table is planned; no other repeats rows.
"""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.errors import ConnectError, DataError
from tests.integration.sql.conftest import Database
from tests.integration.sql.test_sql_source import BOTH, INCREMENTING, TIMES, harness

WAYS = ["true", "false"]  # connectrt.sql.arrow
ODD = [  # type, a good value, values that may or may not have a form
    ("date", "2024-02-29", ["infinity", "-infinity", "0044-03-15 BC", "12000-01-01", "0001-01-01", "9999-12-31"]),
    ("timestamp", "2024-07-01 12:00:00", ["infinity", "-infinity", "0044-03-15 BC", "12000-01-01", "9999-12-31 23:00"]),
    ("timestamptz", "2024-07-01 12:00:00+00", ["infinity", "-infinity", "0044-03-15 BC", "12000-01-01", "0001-01-01"]),
    ("time", "10:11:12", ["24:00:00", "23:59:59.999999"]),
    ("timetz", "10:11:12+00", ["24:00:00+00"]),
    ("numeric(10,2)", "1.25", ["NaN", "-99999999.99"]),
    ("numeric", "1.25", ["NaN", "Infinity", "1e100", "1e-100"]),
    ("numeric(76,2)", "1.25", ["NaN", "1" + "0" * 73]),
    ("numeric(1000,500)", "1.25", ["NaN", "1e400"]),
    ("double precision", "1.25", ["NaN", "Infinity", "-0", "1e308", "5e-324"]),
    ("real", "1.25", ["NaN", "Infinity", "1e38"]),
    ("bigint", "1", ["9223372036854775807", "-9223372036854775808"]),
    ("interval", "1 day", ["-178000000 years", "infinity"]),
    ("money", "1", ["-92233720368547758.08"]),
    ("int4range", "[1,2)", ["empty", "(,)"]),
    ("bytea", "\\x00", ["\\x"]),
    ("date[]", "{2024-02-29}", ["{infinity}"]),
]  # fmt: skip


def read(database: Database, arrow: str, **settings: Any) -> tuple[list[Any], list[str]]:
    """Return the records and places of refused rows of four looks."""
    with harness(database, **settings, **{"connectrt.sql.arrow": arrow, "errors.tolerance": "all"}) as source:
        records = [record.json() for _ in range(4) for record in source.poll()]
        return records, [errant.place for errant in source.errants]


@pytest.mark.parametrize(("kind", "good", "odd"), ODD, ids=lambda value: value if isinstance(value, str) else "")
def test_a_value_without_a_form_is_one_refused_row_both_ways(
    postgres_database: Database, kind: str, good: str, odd: list[str]
) -> None:
    values = [good, *odd, good]
    rows = ", ".join(f"({number}, '{value}')" for number, value in enumerate(values)).replace(":", "\\:")
    postgres_database.run(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})", f"INSERT INTO t VALUES {rows}")
    by_columns, by_rows = (read(postgres_database, arrow, **INCREMENTING) for arrow in WAYS)
    # NaN is no JSON number, so a record's text shows it by its name.
    assert repr(by_columns) == repr(by_rows)
    records, places = by_columns
    assert {record["id"] for record in records} >= {0, len(values) - 1}
    assert len(records) + len(places) == len(values), "each row once, as a record or refused"
    assert all(place.startswith("table public.t id ") for place in places)
    if kind in ("date", "timestamp", "timestamptz"):
        assert places[:4] == [f"table public.t id {number}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("arrow", WAYS)
@pytest.mark.parametrize("last", ["infinity", "0044-03-15 BC"])
def test_a_refused_row_names_table_key_and_column_and_is_refused_once(
    postgres_database: Database, arrow: str, last: str
) -> None:
    postgres_database.run(
        "CREATE TABLE ev (name TEXT PRIMARY KEY, n INT, valid_to TIMESTAMPTZ)",
        f"INSERT INTO ev VALUES ('a', 1, '2026-01-01'), ('b', 2, '{last}')",
    )
    settings = {"mode": "incrementing", "incrementing.column.name": "n", "validate.non.null": "false"}
    records, places = read(postgres_database, arrow, **settings)
    assert [record["n"] for record in records] == [1]
    assert places == ["table public.ev n 2"], "the last row of a look is passed, too"
    settings["connectrt.sql.arrow"] = arrow
    with harness(postgres_database, **settings) as strict, pytest.raises(DataError) as refused:
        strict.poll()
    assert "table public.ev n 2" in str(refused.value)
    assert "column valid_to" in str(refused.value)
    with harness(postgres_database, **{"connectrt.sql.arrow": arrow}) as bulk, pytest.raises(DataError) as refused:
        bulk.poll()
    assert "table public.ev name b" in str(refused.value)


@pytest.mark.parametrize("arrow", WAYS)
@pytest.mark.parametrize("settings", [INCREMENTING, BOTH], ids=["incrementing", "both"])
def test_rows_with_a_null_number_are_left_out(
    postgres_database: Database, settings: dict[str, str], arrow: str
) -> None:
    postgres_database.run(
        "CREATE TABLE ninc (id INT, changed TIMESTAMP)",
        "INSERT INTO ninc VALUES (1, '2024-01-01'), (NULL, '2024-01-02'), (2, '2024-01-03'), (NULL, '2024-01-04')",
    )
    records, places = read(postgres_database, arrow, **settings, **{"validate.non.null": "false"})
    assert [record["id"] for record in records] == [1, 2]
    assert places == []


POSITIONS = [  # mode, type, two values in their order; None: the column is refused
    (INCREMENTING, "smallint", ("1", "2")),
    (INCREMENTING, "bigint", ("1", "9223372036854775807")),
    (INCREMENTING, "numeric(20,0)", ("1", "9223372036854775807")),
    (INCREMENTING, "numeric", ("1", "2")),
    (INCREMENTING, "numeric(10,2)", None),
    (INCREMENTING, "real", None),
    (INCREMENTING, "double precision", None),
    (INCREMENTING, "text", None),
    (INCREMENTING, "uuid", None),
    (INCREMENTING, "date", None),
    (INCREMENTING, "boolean", None),
    (TIMES, "timestamp", ("2024-01-01 00:00:00.000001", "2024-01-01 00:00:00.000002")),
    (TIMES, "timestamptz", ("2024-01-01 00:00:00.000001+00", "2024-01-01 00:00:00.000002+00")),
    (TIMES, "timestamp(0)", ("2024-01-01", "2024-01-02")),
    (TIMES, "date", ("2024-01-01", "2024-01-02")),
    (TIMES, "time", None),
    (TIMES, "text", None),
    (TIMES, "bigint", None),
]
NO_NULLS = {"validate.non.null": "false", "batch.max.rows": "1"}


@pytest.mark.parametrize("arrow", WAYS)
@pytest.mark.parametrize(("mode", "kind", "values"), POSITIONS, ids=str)
def test_a_position_repeats_no_row_or_its_column_is_refused(
    postgres_database: Database, mode: dict[str, str], kind: str, values: tuple[str, str] | None, arrow: str
) -> None:
    column = "id" if mode is INCREMENTING else "changed"
    postgres_database.run(f"CREATE TABLE t ({column} {kind}, w TEXT)")
    settings = {**mode, **NO_NULLS, "connectrt.sql.arrow": arrow}
    if values is None:
        with harness(postgres_database, **settings) as source, pytest.raises(ConnectError) as refused:
            source.poll()
        assert f"column {column} of public.t has type" in str(refused.value)
        return
    rows = ", ".join(f"('{value}', '{number}')" for number, value in enumerate(values)).replace(":", "\\:")
    postgres_database.run(f"INSERT INTO t VALUES {rows}")
    with harness(postgres_database, **settings) as source:
        assert [record.json()["w"] for record in source.poll_all()] == ["0", "1"]
        assert [source.poll() for _ in range(3)] == [[], [], []]
        source.restart()
        assert [source.poll() for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize("arrow", WAYS)
@pytest.mark.parametrize("value", ["1.5", "9223372036854775808", "NaN"])
def test_a_number_that_an_offset_cannot_hold_is_named(postgres_database: Database, value: str, arrow: str) -> None:
    postgres_database.run("CREATE TABLE t (id NUMERIC)", f"INSERT INTO t VALUES ({value!r})")
    settings = {**INCREMENTING, **NO_NULLS, "connectrt.sql.arrow": arrow}
    with harness(postgres_database, **settings) as source, pytest.raises(ConnectError) as refused:
        source.poll()
    assert f"public.t has '{value}' in its incrementing column id" in str(refused.value)


def test_no_fault_of_data_shows_an_error_of_python(sqlite_database: Database) -> None:
    """SQLite puts any value into any column; of kinds mixed in one column its ADBC driver makes text."""
    kinds = {
        "n": "INTEGER",
        "r": "REAL",
        "m": "NUMERIC(10,2)",
        "d": "DATE",
        "h": "TIME",
        "at": "TIMESTAMP",
        "b": "BOOLEAN",
    }
    odd = ["'x'", "1.5", "x'00'", "9999999999999999999999", "''", "'24:00'", "-1", "'12000-01-01'"]
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    sqlite_database.run(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
    cells = [(name, value) for name in kinds for value in odd]
    for number, (name, value) in enumerate(cells):
        sqlite_database.run(f"INSERT INTO t (id, {name}) VALUES ({number}, {value})".replace(":", "\\:"))
    for arrow in WAYS:
        records, places = read(sqlite_database, arrow, **INCREMENTING)
        assert len(records) + len(places) == len(cells)
        assert places
        settings = {**INCREMENTING, "connectrt.sql.arrow": arrow}
        with harness(sqlite_database, **settings) as source, pytest.raises(DataError, match="table t id 0: TASK_POLL"):
            source.poll()


@pytest.mark.parametrize("value", ["1719828000123", "1.5", "'x'", "'2024-07-01 12:00:00.5'", "'20240701'", "''"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE", "TIME", "NUMERIC(10,2)", "INTEGER", "BOOLEAN", "REAL"])
def test_a_column_of_one_odd_kind_is_read_the_same_both_ways(sqlite_database: Database, kind: str, value: str) -> None:
    insert = f"INSERT INTO t VALUES (1, {value}), (2, {value})".replace(":", "\\:")
    sqlite_database.run(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {kind})", insert)
    by_columns, by_rows = (read(sqlite_database, arrow, **INCREMENTING) for arrow in WAYS)
    assert repr(by_columns) == repr(by_rows)


@pytest.mark.parametrize("arrow", WAYS)
def test_times_that_the_clock_skips_or_repeats_come_once_and_hide_no_later_row(
    postgres_database: Database, arrow: str
) -> None:
    """In Berlin 02:30 of the last Sunday in March is no time, and that of October comes twice."""
    postgres_database.run("CREATE TABLE t (id INT, changed TIMESTAMP NOT NULL)")
    settings = {**TIMES, "db.timezone": "Europe/Berlin", "connectrt.sql.arrow": arrow}
    rows = [
        ("2024-03-31 02\\:30", 1711848600000),  # 03:30 of the new clock
        ("2024-03-31 03\\:10", 1711847400000),
        ("2024-10-27 02\\:30", 1729989000000),  # the first
        ("2024-10-27 03\\:10", 1729995000000),
    ]
    with harness(postgres_database, **settings) as source:
        for number, (clock, ms) in enumerate(rows):
            postgres_database.run(f"INSERT INTO t VALUES ({number}, '{clock}')")
            assert [record.json() for record in source.poll_all()] == [{"id": number, "changed": ms}]
            assert [source.poll() for _ in range(3)] == [[], [], []]
