"""The common parts of transformations: sides, structs from mappings, schemas made once."""

from __future__ import annotations

import pytest

from spark_connect_rt.api.data.schema import INT32, OPTIONAL_STRING, Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord, altered
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.transforms.key_or_value import SchemaCache, rebuilt, require_struct
from spark_connect_rt.records.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue

INNER = struct_of({"x": INT32})
OUTER = struct_of({"in": INNER, "s": OPTIONAL_STRING})


def test_an_altered_record_is_a_new_one() -> None:
    for record in (
        SourceRecord({"p": 1}, {"o": 2}, "t", "v", headers=(Header("h", 1),)),
        SinkRecord("t", 1, 2, "v", timestamp_ms=5),
    ):
        changed = altered(record, topic="u", value=None)
        assert (changed.topic, changed.value, record.topic, record.value) == ("u", None, "t", "v")
        assert altered(changed, topic="t", value="v") == record
        assert type(changed) is type(record)


def test_the_mapping_of_an_arrow_column_becomes_a_struct_all_the_way_down() -> None:
    made = require_struct(OUTER, {"in": {"x": 1}, "s": None}, "test")
    assert made == Struct(OUTER, {"in": Struct(INNER, {"x": 1})})
    with pytest.raises(DataError, match='null used for required field: "in"'):
        rebuilt(OUTER, [None, "a"])
    with pytest.raises(DataError, match=r"Only Struct objects supported for \[test\], found: java.lang.String"):
        require_struct(OUTER, "a", "test")


def test_a_schema_is_made_once_and_the_cache_does_not_grow() -> None:
    made: list[Schema] = []

    def make(schema: Schema) -> Schema:
        made.append(schema)
        return schema.as_optional()

    cache = SchemaCache[Schema]()
    schemas = [struct_of({f"f{number}": INT32}) for number in range(40)]
    for schema in schemas:
        assert cache.get(schema, make) == cache.get(schema, make)
    assert made == schemas
    assert len(cache._made) <= cache.LIMIT


def test_the_key_variant_leaves_the_value_alone() -> None:
    record = SourceRecord({}, {}, "t", {"a": 1}, key={"a": 1})
    for cls, key, value in ((ReplaceFieldKey, {"b": 1}, {"a": 1}), (ReplaceFieldValue, {"a": 1}, {"b": 1})):
        transformation = cls()
        transformation.configure({"renames": "a:b"})
        changed = transformation.apply(record)
        assert changed is not None
        assert (changed.key, changed.value) == (key, value)


def test_only_structs_have_fields() -> None:
    with pytest.raises(DataError, match="non-struct"):
        Schema(Type.INT8).field("a")
