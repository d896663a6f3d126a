"""Changes of random histories lead to the rows of a dictionary, and columns give what records give."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.lakehouse.changes import (
    OP,
    ChangeForm,
    ChangeRules,
    Changes,
    after_truncate,
    changes_of_batch,
    changes_of_records,
)

EXAMPLES = settings(max_examples=60, deadline=None)
MICROS = Schema(s.Type.INT64, optional=True, name="io.debezium.time.MicroTimestamp", version=1)
MEMBERS = {"id": s.INT64, "part": s.STRING, "name": s.OPTIONAL_STRING, "at": MICROS, "size": s.OPTIONAL_INT16}
ROW = struct_of(MEMBERS)
FLAT = struct_of({**MEMBERS, "__deleted": s.OPTIONAL_STRING, "__op": s.OPTIONAL_STRING})
KEY = struct_of({"id": s.INT64, "part": s.STRING})
ENVELOPE = struct_of(
    {
        "before": ROW.as_optional(),
        "after": ROW.as_optional(),
        "op": s.STRING,
        "source": struct_of({"lsn": s.OPTIONAL_INT64}, optional=True),
    }
)
ROW_TYPE = pa.struct({"id": pa.int64(), "part": pa.string(), "name": pa.string(), "at": pa.int64(), "size": pa.int16()})
FLAT_TYPE = pa.struct([*ROW_TYPE, pa.field("__deleted", pa.string()), pa.field("__op", pa.string())])
KEY_TYPE = pa.struct({"id": pa.int64(), "part": pa.string()})
ENVELOPE_TYPE = pa.struct(
    {
        "before": ROW_TYPE,
        "after": ROW_TYPE,
        "op": pa.string(),
        "source": pa.struct({"lsn": pa.int64()}),
    }
)
Event = tuple[Any, Any]  # key, value: dictionaries as JSON has them
Rows = dict[Any, dict[str, Any]]


def row_of(key: tuple[int, str], body: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(MEMBERS, (*key, *body), strict=True))


class Source:
    """A table that writes its changes down in one of the forms, and knows its rows."""

    def __init__(self, form: ChangeForm) -> None:
        self.form = form
        self.rows: Rows = {}
        self.events: list[Event] = []
        self.states: list[Rows] = []
        """The rows behind each event."""

    def _say(self, key: tuple[int, str] | None, value: Any) -> None:
        self.events.append((None if key is None else dict(zip(("id", "part"), key, strict=True)), value))
        self.states.append(dict(self.rows))

    def _envelope(self, key: tuple[int, str] | None, op: str, before: Any, after: Any) -> None:
        self._say(key, {"before": before, "after": after, "op": op, "source": {"lsn": len(self.events)}})

    def upsert(self, key: tuple[int, str], body: tuple[Any, ...], full_before: bool) -> None:
        before, after = self.rows.get(key), row_of(key, body)
        self.rows[key] = after
        if self.form is ChangeForm.DEBEZIUM:
            op = "u" if before else ("c" if body[1] else "r")
            self._envelope(key, op, before if full_before else None, after)
        else:
            flat = {"__deleted": "false", "__op": "u"} if self.form is ChangeForm.FLATTENED else {}
            self._say(key, after | flat)

    def delete(self, key: tuple[int, str], tombstone: bool) -> None:
        before = self.rows.pop(key, None)
        if self.form is ChangeForm.DEBEZIUM:
            self._envelope(key, "d", before, None)
        elif self.form is ChangeForm.FLATTENED and before is not None:
            self._say(key, before | {"__deleted": "true", "__op": "d"})
        else:
            tombstone = True
        if tombstone:
            self._say(key, None)

    def move(self, key: tuple[int, str], new: tuple[int, str], in_one: bool) -> None:
        before = self.rows.get(key)
        if before is None or new in self.rows:
            return
        body = tuple(before[name] for name in ("name", "at", "size"))
        if in_one and self.form is ChangeForm.DEBEZIUM:  # as tools other than Debezium write it
            self.rows[new] = row_of(new, body)
            del self.rows[key]
            self._envelope(new, "u", before, self.rows[new])
        else:
            self.delete(key, tombstone=True)
            self.upsert(new, body, full_before=False)

    def message(self) -> None:
        if self.form is ChangeForm.DEBEZIUM:
            self._envelope(None, "m", None, None)

    def truncate(self) -> None:
        if self.form is ChangeForm.DEBEZIUM:
            self.rows.clear()
            self._envelope(None, "t", None, None)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Draw a form, and let a seed write a history: drawn step by step, most histories would be too short."""
    source, chance = Source(draw(st.sampled_from(ChangeForm))), Random(draw(st.integers(0, 2**32)))

    def body() -> tuple[Any, ...]:
        name = chance.choice([None, "", "x", "\u00e4\u00f6"])
        return name, chance.choice([None, chance.randrange(2**50)]), chance.choice([None, chance.randrange(-100, 100)])

    def key() -> tuple[int, str]:
        return chance.randrange(1, 5), chance.choice("ab")

    for _ in range(draw(st.integers(1, 40))):
        step = chance.choices(["upsert", "delete", "move", "message", "truncate"], [8, 3, 4, 1, 0.5])[0]
        if step == "upsert":
            source.upsert(key(), body(), chance.random() < 0.5)
        elif step == "delete":
            source.delete(key(), chance.random() < 0.5)
        elif step == "move":
            source.move(key(), key(), chance.random() < 0.5)
        else:
            source.message() if step == "message" else source.truncate()
    return source


SCHEMAS = {ChangeForm.PLAIN: ROW, ChangeForm.FLATTENED: FLAT, ChangeForm.DEBEZIUM: ENVELOPE}
TYPES = {ChangeForm.PLAIN: ROW_TYPE, ChangeForm.FLATTENED: FLAT_TYPE, ChangeForm.DEBEZIUM: ENVELOPE_TYPE}


def struct(schema: Schema, value: Any) -> Any:
    return None if value is None else Struct.from_mapping(schema, value)


def records_of(events: Sequence[Event], form: ChangeForm, schemas: bool = True, first: int = 10) -> list[SinkRecord]:
    """Return the events as a converter gives them. A tombstone has no schema."""
    records = []
    for offset, (key, value) in enumerate(events, first):
        value_schema = SCHEMAS[form] if schemas and value is not None else None
        key_schema = KEY if schemas and key is not None else None
        if schemas:
            key, value = struct(KEY, key), struct(SCHEMAS[form], value)
        records.append(SinkRecord("t", 0, offset, value, value_schema, key, key_schema))
    return records


def batch_of(events: Sequence[Event], form: ChangeForm, schemas: bool = True) -> SinkBatch:
    offsets = pa.array(range(10, 10 + len(events)), pa.int64())
    values = pa.array([value for _, value in events], TYPES[form])
    keys = pa.array([key for key, _ in events], KEY_TYPE)
    has_values, has_keys = values.null_count < len(values), keys.null_count < len(keys)
    return SinkBatch(
        "t",
        0,
        offsets,
        values if has_values else pa.nulls(len(values)),
        SCHEMAS[form] if schemas and has_values else None,
        keys if has_keys else None,
        KEY if schemas and has_keys else None,
    )


def applied(changes: Changes, rows: Rows) -> dict[int, Rows]:
    """Return the rows after the changes of each offset."""
    states: dict[int, Rows] = {}
    for offset, change in zip(changes.offsets.to_pylist(), changes.table.to_pylist(), strict=True):
        rows = dict(rows)
        op = change.pop(OP)
        key = change.get("id"), change.get("part")
        if op == "t":
            assert set(change.values()) <= {None}
            rows = {}
        elif op == "d":
            assert {name for name, value in change.items() if value is not None} == {"id", "part"}
            rows.pop(key, None)
        else:
            rows[key] = {name: change.get(name) for name in MEMBERS}
        states[offset] = rows
    return states


def in_table(rows: Rows, typed: bool) -> Rows:
    """Return rows as a table holds them: with schemas, `at` is a time."""
    epoch = dt.datetime(1970, 1, 1)
    if not typed:
        return rows
    return {
        key: row | {"at": None if row["at"] is None else epoch + dt.timedelta(microseconds=row["at"])}
        for key, row in rows.items()
    }


@given(source=sources(), cut=st.integers(0, 30))
@EXAMPLES
def test_changes_behind_the_last_truncate_lead_to_the_same_rows(source: Source, cut: int) -> None:
    earlier: Rows = {(99, "z"): {"id": 99}}
    rows = earlier
    for events in (source.events[:cut], source.events[cut:]):
        for changes in changes_of_records(records_of(events, source.form), ChangeRules(source.form)):
            whole = list(applied(changes, rows).values())
            left, truncates = after_truncate(changes.table)
            offsets = changes.offsets.slice(changes.table.num_rows - left.num_rows)
            of_left = list(applied(Changes(left, offsets, ()), {} if truncates else rows).values())
            rows = whole[-1] if whole else rows
            assert (of_left[-1] if of_left else {} if truncates else rows) == rows


@given(source=sources(), cut=st.integers(0, 30), schemas=st.booleans())
@EXAMPLES
def test_changes_lead_to_the_rows_of_the_source(source: Source, cut: int, schemas: bool) -> None:
    rules = ChangeRules(source.form)
    rows: Rows = {}
    for events, first in ((source.events[:cut], 10), (source.events[cut:], 10 + cut)):
        for changes in changes_of_records(records_of(events, source.form, schemas, first), rules):
            states = applied(changes, rows)
            assert states == {offset: in_table(source.states[offset - 10], schemas) for offset in states}
            assert (changes.refused, changes.ignored) == ((), len(events) - len(states))
            rows = states[max(states)] if states else rows
    assert rows == in_table(source.rows, schemas)


@given(source=sources(), key_columns=st.sampled_from([(), ("id", "part")]), upsert=st.booleans())
@EXAMPLES
def test_columns_give_what_records_give(source: Source, key_columns: tuple[str, ...], upsert: bool) -> None:
    if not source.events:
        return
    rules = ChangeRules(source.form, upsert, key_columns)
    by_columns = changes_of_batch(batch_of(source.events, source.form), rules)
    (by_rows,) = changes_of_records(records_of(source.events, source.form), rules)
    assert by_columns is not None
    assert by_columns.table.schema == by_rows.table.schema
    assert by_columns.table.to_pylist() == by_rows.table.to_pylist()
    assert by_columns.offsets.to_pylist() == by_rows.offsets.to_pylist()
    assert (by_columns.key_columns, by_columns.ignored) == (by_rows.key_columns, by_rows.ignored)
    assert refusals([by_columns]) == refusals([by_rows])


def refusals(parts: Sequence[Changes]) -> list[tuple[int, str]]:
    return [(refused.index, str(refused.error)) for part in parts for refused in part.refused]


@given(source=sources(), seed=st.integers(0, 2**32))
@EXAMPLES
def test_faulty_records_are_refused_alone_and_in_both_forms(source: Source, seed: int) -> None:
    events, chance = list(source.events), Random(seed)
    bad: dict[int, str] = {}
    for at, (key, value) in enumerate(events):
        if value is None or chance.random() < 0.7:
            continue
        if source.form is not ChangeForm.DEBEZIUM:
            events[at] = None, {**value, "part": None}
            bad[at] = "the record has no value for the key (id, part)"
        elif value["op"] in "cru":
            fault, bad[at] = chance.choice(
                [
                    ({"op": "x"}, "op of the envelope is unknown"),
                    ({"op": None}, "has no field op"),
                    ({"after": None}, "field after of the envelope is missing"),
                ]
            )
            events[at] = key, value | fault
    rules = ChangeRules(source.form, key_columns=("id", "part"))
    schemaless = changes_of_records(records_of(events, source.form, schemas=False), rules)
    assert [index for index, _ in refusals(schemaless)] == sorted(bad)
    by_columns = changes_of_batch(batch_of(events, source.form, schemas=False), rules) if events else None
    if by_columns is not None:
        assert refusals([by_columns]) == refusals(schemaless)
        assert all(bad[index] in reason for index, reason in refusals([by_columns]))


def test_schemaless_values_of_different_kinds_are_apart_and_in_order() -> None:
    values = [{"id": 1, "a": 1}, {"id": 2, "a": 2.5}, {"id": 3, "a": "x"}, {"id": 4, "a": None}, {"id": 5, "a": 5}]
    records = [SinkRecord("t", 0, offset, value) for offset, value in enumerate(values)]
    parts = changes_of_records(records, ChangeRules(key_columns=("id",)))
    assert [offset for part in parts for offset in part.offsets.to_pylist()] == [0, 1, 2, 3, 4]
    assert [row["a"] for part in parts for row in part.table.to_pylist() if "a" in row] == [1.0, 2.5, "x", None, 5]
    assert {part.table.schema.field("a").type for part in parts} >= {pa.float64(), pa.string()}


def test_value_that_does_not_fit_its_schema_is_refused_alone() -> None:
    year_one = dt.date(1, 1, 1)
    schema = struct_of({"id": s.INT64, "day": Schema(s.Type.INT32, name="org.apache.kafka.connect.data.Date")})
    rows = [Struct.of_checked(schema, [number, "no date" if number == 2 else year_one]) for number in range(5)]
    records = [SinkRecord("t", 0, 7 + at, row, schema) for at, row in enumerate(rows)]
    parts = changes_of_records(records, ChangeRules(key_columns=("id",)))
    assert [index for index, _ in refusals(parts)] == [2]
    assert refusals(parts)[0][1].startswith("value.day: ")
    assert [row["id"] for part in parts for row in part.table.to_pylist()] == [0, 1, 3, 4]


def test_defaults_stand_for_nulls_and_need_records() -> None:
    schema = struct_of({"id": s.INT64, "n": Schema(s.Type.INT32, optional=True, default=7)})
    record = SinkRecord("t", 0, 0, Struct.of_checked(schema, [1, None]), schema)
    (found,) = changes_of_records([record], ChangeRules(key_columns=("id",)))
    assert found.table.to_pylist() == [{OP: "u", "id": 1, "n": 7}]
    values = pa.array([{"id": 1, "n": None}], pa.struct({"id": pa.int64(), "n": pa.int32()}))
    assert changes_of_batch(SinkBatch("t", 0, pa.array([0]), values, schema), ChangeRules()) is None


@pytest.mark.parametrize(
    ("envelopes", "by_columns"),
    [
        ([{"after": {"id": 1, "n": 5}, "before": None}], True),  # nothing within a null has a default
        ([{"after": {"id": 1, "n": 5}, "before": {"id": 1, "n": None}}], False),
        ([{"after": {"id": 1, "n": 5}, "before": None}, {"after": {"id": 1, "n": None}, "before": None}], False),
    ],
)
def test_envelopes_come_in_columns_unless_a_default_is_hidden(envelopes: list[Any], by_columns: bool) -> None:
    row = struct_of({"id": s.INT64, "n": Schema(s.Type.INT32, optional=True, default=7)}).as_optional()
    schema = struct_of({"op": s.STRING, "after": row, "before": row})
    of_row = pa.struct({"id": pa.int64(), "n": pa.int32()})
    kind = pa.struct({"op": pa.string(), "after": of_row, "before": of_row})
    values = pa.array([{"op": "u", **envelope} for envelope in envelopes], kind)
    batch = SinkBatch("t", 0, pa.array(range(len(envelopes))), values, schema)
    found = changes_of_batch(batch, ChangeRules(ChangeForm.DEBEZIUM, key_columns=("id",)))
    assert (found is not None) == by_columns
    assert found is None or [row["n"] for row in found.table.to_pylist()] == [5] * len(envelopes)


def test_placeholder_of_an_unchanged_large_value_is_refused() -> None:
    source = Source(ChangeForm.DEBEZIUM)
    source.upsert((1, "a"), ("__debezium_unavailable_value", 1, 1), full_before=False)
    source.upsert((2, "a"), ("text", 1, 1), full_before=False)
    (found,) = changes_of_records(records_of(source.events, source.form), ChangeRules(source.form))
    assert [(index, reason[:5]) for index, reason in refusals([found])] == [(0, "name:")]
    assert found.table["id"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("record", "rules", "reason"),
    [
        (SinkRecord("t", 0, 0, {"a": 1}), ChangeRules(), "no key with fields"),
        (SinkRecord("t", 0, 0, {"a": 1}, key="k"), ChangeRules(), "no key with fields"),
        (SinkRecord("t", 0, 0, None), ChangeRules(key_columns=("id",)), "no value for the key (id)"),
        (SinkRecord("t", 0, 0, "text", s.STRING), ChangeRules(key_columns=("id",)), "value has none"),
        (SinkRecord("t", 0, 0, "text"), ChangeRules(upsert=False), "value has none"),
        (SinkRecord("t", 0, 0, {"a": 1}, key={"id": 1}), ChangeRules(ChangeForm.DEBEZIUM), "not an envelope"),
        (SinkRecord("t", 0, 0, {"id": None}, key=None), ChangeRules(key_columns=("id",)), "no value for the key"),
        (SinkRecord("t", 0, 0, {"id": 2**64}), ChangeRules(upsert=False), "value: "),
    ],
)
def test_record_that_is_not_a_change_is_refused(record: SinkRecord, rules: ChangeRules, reason: str) -> None:
    (found,) = changes_of_records([record], rules)
    assert found.table.num_rows == 0
    assert [(index, reason in text) for index, text in refusals([found])] == [(0, True)], refusals([found])


def test_key_without_fields_is_the_only_key_column() -> None:
    rules = ChangeRules(key_columns=("id",))
    records = [
        SinkRecord("t", 0, 0, {"a": 1}, key="x"),
        SinkRecord("t", 0, 1, {"a": 2}, key="y"),
        SinkRecord("t", 0, 2, None, key="x"),
    ]
    (found,) = changes_of_records(records, rules)
    assert found.table.to_pylist() == [
        {OP: "u", "a": 1, "id": "x"},
        {OP: "u", "a": 2, "id": "y"},
        {OP: "d", "a": None, "id": "x"},
    ]
    assert found.key_columns == ("id",)
    assert not found.table.schema.field("id").nullable


def test_append_keeps_envelopes_as_rows_and_skips_records_without_a_value() -> None:
    source = Source(ChangeForm.DEBEZIUM)
    source.upsert((1, "a"), ("n", 1, 1), full_before=False)
    source.delete((1, "a"), tombstone=True)
    (found,) = changes_of_records(records_of(source.events, source.form), ChangeRules(source.form, upsert=False))
    assert found.table.column_names == [OP, "before", "after", "op", "source"]
    assert found.table["op"].to_pylist() == ["c", "d"]
    assert (found.ignored, found.refused) == (1, ())


def test_tombstone_behind_a_delete_is_ignored_where_records_have_no_key() -> None:
    source = Source(ChangeForm.DEBEZIUM)
    source.upsert((1, "a"), ("n", 1, 1), full_before=False)
    source.delete((1, "a"), tombstone=True)
    events = [(None, value) for _, value in source.events]
    (found,) = changes_of_records(records_of(events, source.form), ChangeRules(source.form, key_columns=("id",)))
    assert found.table.select([OP, "id"]).to_pylist() == [{OP: "u", "id": 1}, {OP: "d", "id": 1}]
    assert (found.ignored, found.refused) == (1, ())
