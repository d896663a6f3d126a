"""Records to rows: keys, columns, and what is left of many records with one key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.api.data.schema import INT32, OPTIONAL_STRING, STRING, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.connectors.sql.sql_rows import Row, RowReader, RowShape, TableRows, runs_of
from spark_connect_rt.connectors.sql.sql_source_config import CONFIG
from spark_connect_rt.connectors.sql.sql_tables import FoundTable, TableId, read_tables, unmatched_names
from spark_connect_rt.connectors.sql.sql_target import table_of
from spark_connect_rt.errors import BadConfigError, DataError

ORDER = struct_of({"id": INT32, "word": OPTIONAL_STRING, "more": STRING})
VALUE = Struct(ORDER, {"id": 1, "word": None, "more": "x"})


def record(value: Any = VALUE, value_schema: Any = ORDER, **parts: Any) -> SinkRecord:
    return SinkRecord("t", 2, 3, value, value_schema, **parts)


def read(
    mode: str, sink_record: SinkRecord, *fields: str, whitelist: tuple[str, ...] = (), deletes: bool = False
) -> Any:
    shape, row = RowReader(mode, fields, whitelist, deletes).read(sink_record)
    return shape.keys, shape.columns, row


def test_each_pk_mode_has_its_columns() -> None:
    assert read("none", record()) == ((), ("id", "word", "more"), (1, None, "x"))
    assert read("record_value", record(), "more") == (("more",), ("more", "id", "word"), ("x", 1, None))
    assert read("record_key", record(key="k", key_schema=STRING), "id") == (
        ("id",),
        ("id", "word", "more"),
        ("k", None, "x"),
    )
    keys, _, row = read("kafka", record(), whitelist=("word",))
    assert (keys, row) == (("__connect_topic", "__connect_partition", "__connect_offset"), ("t", 2, 3, None))


def test_a_map_without_schema_is_a_row_too() -> None:
    sink_record = record({"id": 1, "a": 2}, None, key={"id": 9}, key_schema=None)
    assert read("record_key", sink_record) == (("id",), ("id", "a"), (9, 2))


def test_a_record_without_value_deletes_by_its_key() -> None:
    sink_record = record(None, None, key=5, key_schema=INT32)
    shape, row = RowReader("record_key", ["id"], (), True).read(sink_record)
    assert (shape.deletes, shape.columns, row) == (True, ("id",), (5,))


@pytest.mark.parametrize(
    ("mode", "fields", "sink_record", "said"),
    [
        ("record_value", ("no",), record(), "has no field no"),
        ("record_key", ("id",), record(), "without a key has no primary key"),
        ("record_key", (), record(key=1, key_schema=INT32), "must name one column"),
        ("none", (), record(7, INT32), "must be a struct, or a map"),
        ("none", (), record(None, None), "needs delete.enabled"),
    ],
)
def test_a_record_without_a_row_says_why(
    mode: str, fields: tuple[str, ...], sink_record: SinkRecord, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        RowReader(mode, fields, (), False).read(sink_record)


FULL = RowShape(("id",), ("id", "a", "b"), (None, None, None))
PART = RowShape(("id",), ("id", "a"), (None, None))
GONE = RowShape(("id",), ("id",), (None,), deletes=True)


def written(table: dict[Any, dict[str, Any]], runs: list[TableRows]) -> dict[Any, dict[str, Any]]:
    """A table with upserts: what a database would hold."""
    for run in runs:
        keys = [row[0] for row in run.rows]
        assert len(set(keys)) == len(keys), "one statement touches a row only once"
        for row in run.rows:
            if run.shape.deletes:
                table.pop(row[0], None)
            else:
                table.setdefault(row[0], {}).update(zip(run.shape.columns, row, strict=True))
    return table


@given(st.lists(st.tuples(st.sampled_from([FULL, PART, GONE]), st.integers(0, 3), st.integers(0, 9)), max_size=25))
def test_merged_rows_leave_the_same_table_as_single_rows(steps: list[tuple[RowShape, int, int]]) -> None:
    pairs: list[tuple[RowShape, Row]] = [
        (shape, (key, *[value] * (len(shape.columns) - 1))) for shape, key, value in steps
    ]
    one_by_one: dict[Any, dict[str, Any]] = {}
    for shape, row in pairs:
        written(one_by_one, [TableRows(shape, [row])])
    assert written({}, runs_of(pairs, replaces=True)) == one_by_one


def test_inserts_stay_in_their_order() -> None:
    pairs: list[tuple[RowShape, Row]] = [(FULL, (1, 1, 1)), (FULL, (1, 2, 2)), (PART, (2, 2)), (FULL, (3, 3, 3))]
    assert [(run.shape, run.rows) for run in runs_of(pairs, replaces=False)] == [
        (FULL, [(1, 1, 1), (1, 2, 2)]),
        (PART, [(2, 2)]),
        (FULL, [(3, 3, 3)]),
    ]


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("${topic}", "a"),
        ("sales.${topic}", "sales.a"),
        ('"x.${topic}"', "x.a"),
        ('s."x""y"', 's.x"y'),
        ("db.s.${topic}", "s.a"),
    ],
)
def test_a_tables_name_may_have_a_schema_and_quotes(form: str, wanted: str) -> None:
    assert str(table_of(form, "a", "db")) == wanted


@pytest.mark.parametrize(
    ("form", "topic"),
    [
        ("${topic}", "srv.public.orders"),
        ("kafka_${topic}", "srv.public.orders"),
        ("kafka_${topic}", "db.public.orders"),
        ("${topic}", "a.b.c.d"),
        ("${topic}", "a..b"),
        ('x"${topic}"', "a"),
        ("${topic}.", "a"),
    ],
)
def test_no_part_of_a_tables_name_is_dropped(form: str, topic: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        table_of(form, topic, "db")
    assert set(refused.value.problems) == {"table.name.format"}


def values_of(**settings: str) -> dict[str, Any]:
    return CONFIG.parse({"connection.url": "jdbc:postgresql://h/shop", **settings})


FOUND = [
    FoundTable(TableId("public", "Orders"), "TABLE"),
    FoundTable(TableId("public", "part"), "PARTITIONED TABLE"),
    FoundTable(TableId("public", "part_1"), "TABLE", frozenset({TableId("public", "part")})),
    FoundTable(TableId("public", "mv"), "MATERIALIZED VIEW"),
]


@pytest.mark.parametrize(
    "name", ["Orders", "public.Orders", "shop.public.Orders", '"Orders"', 'shop."public"."Orders"']
)
def test_a_whitelist_may_quote_a_table_and_name_its_database(name: str) -> None:
    values = values_of(**{"table.whitelist": name})
    assert read_tables(FOUND, values, "shop") == [TableId("public", "Orders")]
    assert unmatched_names(FOUND, values, "shop") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orders", "no table has the name orders. There is public.Orders"),
        ("PUBLIC.ORDERS", "no table has the name PUBLIC.ORDERS. There is public.Orders"),
        ("srv.public.Orders", "no table has the name srv.public.Orders. There is public.Orders"),
        ("srv.public.x", "Its first part would be the database, which is shop"),
        ("mv", "mv is a MATERIALIZED VIEW. Add that to table.types, which is TABLE"),
        ("x", "no table has the name x"),
    ],
)
def test_a_name_that_no_table_has_is_answered_with_the_near_one(name: str, said: str) -> None:
    values = values_of(**{"table.whitelist": name})
    assert read_tables(FOUND, values, "shop") == []
    (sentence,) = unmatched_names(FOUND, values, "shop")
    assert said in sentence


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ("", ["Orders", "part_1"]),
        ("TABLE,PARTITIONED TABLE", ["Orders", "part"]),
        ("partitioned table, materialized view", ["part", "mv"]),
    ],
)
def test_each_row_of_a_partitioned_table_is_read_once(kinds: str, names: list[str]) -> None:
    values = values_of(**{"table.types": kinds})
    assert [table.name for table in read_tables(FOUND, values, "shop")] == names
