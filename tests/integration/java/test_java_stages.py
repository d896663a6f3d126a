"""Java transformations, predicates, converters and providers serve Python connectors: real JVMs."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord
from spark_connect_rt.engine.java_host.stages.config_providers import JavaConfigProvider
from spark_connect_rt.engine.java_host.stages.converters import JavaConverter, JavaHeaderConverter
from spark_connect_rt.engine.java_host.stages.transformations import JavaPredicate, JavaTransformation
from spark_connect_rt.engine.previews.stage_walk import StageWalk
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain
from tests.support.java_test_plugins import LABEL, MARKED, TABLE, TOPIC_IS

FAST = ("-XX:TieredStopAtLevel=1",)
KAFKA = "org.apache.kafka.connect.transforms"
PLAIN = {"key.converter": "StringConverter", "value.converter": "JsonConverter", "header.converter": "StringConverter"}
ORDER = struct_of(
    {
        "id": Schema(Type.INT64),
        "small": Schema(Type.INT8),
        "share": Schema(Type.FLOAT64),
        "name": Schema(Type.STRING, optional=True),
        "price": logical.decimal_schema(2),
        "data": Schema(Type.BYTES),
        "tags": Schema(Type.MAP, key_schema=Schema(Type.STRING), value_schema=Schema(Type.INT32)),
        "inner": struct_of({"a": Schema(Type.BOOLEAN)}),
    }
)


def order(number: int) -> Struct:
    inner = ORDER.field("inner")
    assert inner is not None
    return Struct(
        ORDER,
        {
            "id": number,
            "small": number % 100,
            "share": number / 7,
            "name": None if number % 3 == 0 else f"n{number}",
            "price": Decimal(number).scaleb(-2),
            "data": bytes([number % 256]),
            "tags": {"x": number},
            "inner": Struct(inner.schema, {"a": number % 2 == 0}),
        },
    )


class Finder:
    """Finds Java's plug-in where the name begins with ``java:``, else the bundled one."""

    KINDS: Mapping[str, type[Any]] = {
        LABEL: JavaTransformation,
        TOPIC_IS: JavaPredicate,
        TABLE: JavaConfigProvider,
        MARKED: JavaConverter,
    }

    def __init__(self, code: JavaCode) -> None:
        self._code = code
        self._bundled = bundled_plugins()

    def __call__(self, name: str) -> type[Any]:
        kind, _, java = name.rpartition(":")
        if not kind:
            return self._bundled.class_of(name)
        bases = {"transform": JavaTransformation, "predicate": JavaPredicate, "header": JavaHeaderConverter}
        base = bases.get(kind) or self.KINDS[java]
        return type(java.rpartition(".")[2], (base,), {"java_class": java, "java_code": self._code})


@pytest.fixture(scope="module")
def find(misbehaving_plugins: Path) -> Finder:
    return Finder(JavaCode((str(misbehaving_plugins / "misbehaving"),), heap="96m", options=FAST))


def source_record(number: int, value: Any = None, **more: Any) -> SourceRecord:
    given: dict[str, Any] = {
        "key": f"k{number}",
        "key_schema": Schema(Type.STRING),
        "value": order(number) if value is None else value,
        "value_schema": ORDER if value is None else None,
        "timestamp_ms": 1_700_000_000_000 + number,
        "headers": (Header("h", number, Schema(Type.INT32)),),
    } | more
    return SourceRecord({"p": 1}, {"o": number}, "orders", **given)


STEPS: Mapping[str, Mapping[str, str]] = {
    "Cast$Value": {"spec": "id:string,small:int32,share:float32"},
    "ReplaceField$Value": {"exclude": "data", "renames": "name:title"},
    "InsertField$Value": {"topic.field": "t", "timestamp.field": "at", "static.field": "s", "static.value": "v"},
    "MaskField$Value": {"fields": "id"},
    "HoistField$Key": {"field": "k"},
    "InsertHeader": {"header": "new", "value.literal": "7"},
    "DropHeaders": {"headers": "h"},
    "HeaderFrom$Value": {"fields": "id", "headers": "id", "operation": "copy"},
    "ValueToKey": {"fields": "id,name"},
    "SetSchemaMetadata$Value": {"schema.name": "com.Order", "schema.version": "3"},
    "RegexRouter": {"regex": "(.*)", "replacement": "to-$1"},
    "TimestampRouter": {"topic.format": "${topic}-${timestamp}", "timestamp.format": "yyyyMMdd"},
    "ExtractField$Value": {"field": "name"},
}


@pytest.mark.parametrize("sink", [False, True], ids=["source", "sink"])
def test_kafkas_own_transformations_give_what_ours_of_the_same_name_give(find: Finder, sink: bool) -> None:
    records: list[Any] = [source_record(number) for number in range(20)]
    if sink:
        fields = ("value", "value_schema", "key", "key_schema", "timestamp_ms", "headers")
        records = [
            SinkRecord("orders", 3, at, **{name: getattr(r, name) for name in fields}) for at, r in enumerate(records)
        ]
    for name, config in STEPS.items():
        settings = {f"transforms.x.{key}": value for key, value in config.items()}
        ours = TransformationChain.from_config(
            {"transforms": "x", "transforms.x.type": f"{KAFKA}.{name}"} | settings, find
        )
        theirs = TransformationChain.from_config(
            {"transforms": "x", "transforms.x.type": f"transform:{KAFKA}.{name}"} | settings, find
        )
        theirs.prepare(records)
        for record in records:
            assert theirs.apply(record) == ours.apply(record), name
        theirs.close()


def test_a_mixed_chain_crosses_once_for_neighbours_and_each_step_asks_its_predicate(find: Finder) -> None:
    config = {
        "transforms": "label,route,ours,again",
        "transforms.label.type": f"transform:{LABEL}",
        "transforms.label.label": "first",
        "transforms.label.predicate": "java",
        "transforms.route.type": f"transform:{KAFKA}.RegexRouter",
        "transforms.route.regex": "orders",
        "transforms.route.replacement": "others",
        "transforms.ours.type": f"{KAFKA}.InsertHeader",
        "transforms.ours.header": "ours",
        "transforms.ours.value.literal": "1",
        "transforms.ours.predicate": "java",
        "transforms.ours.negate": "true",
        "transforms.again.type": f"transform:{LABEL}",
        "transforms.again.label": "second",
        "transforms.again.predicate": "ours",
        "predicates": "java,ours",
        "predicates.java.type": f"predicate:{TOPIC_IS}",
        "predicates.java.topic": "orders",
        "predicates.ours.type": f"{KAFKA}.predicates.HasHeaderKey",
        "predicates.ours.name": "labelled",
    }
    chain = TransformationChain.from_config(config, find)
    assert [len(part.steps) for part in chain.parts] == [2, 1, 1]
    given = [
        source_record(0, {"a": 1}, headers=()),
        source_record(1, "drop"),
        source_record(2, "refuse"),
        SourceRecord({}, {}, "else", value={"a": 2}),
    ]
    passed = chain.prepare(given)
    assert len(passed) == 2
    first = chain.apply(given[0])
    assert first is not None
    assert (first.topic, first.value) == ("others", {"a": 1, "label": "second"})
    assert [(h.key, h.value) for h in first.headers] == [("labelled", "first"), ("ours", 1), ("labelled", "second")]
    assert first.source_offset == {"o": 0}
    assert chain.apply(given[1]) is None
    with pytest.raises(Exception, match="TRANSFORMATION") as raised:
        chain.apply(given[2])
    assert isinstance(raised.value.__cause__, DataError)
    assert "refused on purpose" in str(raised.value.__cause__)
    last = chain.apply(given[3])
    assert last is not None
    assert (last.topic, last.value, [h.key for h in last.headers]) == ("else", {"a": 2}, ["ours"])
    chain.close()


def test_source_tolerates_java_refusals_and_its_converter_bytes_pass_unchanged(find: Finder) -> None:
    config = {
        "key.converter": f"v:{MARKED}",
        "key.converter.mark": "K",
        "value.converter": f"v:{MARKED}",
        "header.converter": f"header:{MARKED}",
        "transforms": "label",
        "transforms.label.type": f"transform:{LABEL}",
        "transforms.label.label": "l",
        "errors.tolerance": "all",
    }
    pipeline = SourcePipeline.from_config(config, {}, find)
    records = [source_record(0, "one"), source_record(1, "refuse"), source_record(2, "drop"), source_record(3, "four")]
    (converted,) = pipeline.convert(records)
    rows = converted.batch.to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(b"K\xfek0", b"M\xfeone"), (b"K\xfek3", b"M\xfefour")]
    assert rows[0]["headers"] == [{"key": "h", "value": b"M\xfe0"}, {"key": "labelled", "value": b"M\xfel"}]
    assert converted.skipped == 1
    assert "refused on purpose" in str(converted.errants[0].error)
    assert converted.source_offsets == (({"p": 1}, {"o": 3}),)
    pipeline.close()


def test_a_sink_reads_with_javas_converter_and_skips_what_it_cannot_read(find: Finder) -> None:
    config = PLAIN | {
        "value.converter": f"v:{MARKED}",
        "transforms": "label",
        "transforms.label.type": f"transform:{LABEL}",
        "transforms.label.label": "l",
        "errors.tolerance": "all",
    }
    pipeline = SinkPipeline.from_config(config, {}, find)
    batch = pa.record_batch(
        {
            "offset": pa.array([5, 6, 7, 8], pa.int64()),
            "value": pa.array([b"M\xfea", b"unmarked", b"M\xfedrop", None], pa.binary()),
        }
    ).replace_schema_metadata({TOPIC: b"t", b"connectrt.partition": b"2"})
    converted = pipeline.convert(batch)
    assert [(r.offset, r.value, [h.key for h in r.headers]) for r in converted.records] == [
        (5, "a", ["labelled"]),
        (8, None, ["labelled"]),
    ]
    assert converted.skipped == 1
    assert "without its mark" in str(converted.errants[0].error)
    pipeline.close()


def test_a_preview_shows_each_record_behind_each_of_javas_stages(find: Finder) -> None:
    config = {
        "key.converter": f"v:{MARKED}",
        "value.converter": f"v:{MARKED}",
        "header.converter": f"header:{MARKED}",
        "transforms": "label,route",
        "transforms.label.type": f"transform:{LABEL}",
        "transforms.label.label": "l",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "to-$1",
    }
    walk = StageWalk(config, {}, find)
    shown, dropped, refused = (walk.of_source(source_record(0, text)).stages for text in ("one", "drop", "refuse"))
    assert [stage["stage"] for stage in shown] == ["polled", "transforms.label", "transforms.route", "converted"]
    assert [stage["record"]["topic"] for stage in shown] == ["orders", "orders", "to-orders", "to-orders"]
    assert [header["name"] for header in shown[1]["record"]["headers"]] == ["h", "labelled"]
    assert base64.b64decode(shown[-1]["bytes"]["value"]) == b"M\xfeone"
    assert dropped[-1] == {"stage": "transforms.label", "record": None}
    assert "refused on purpose" in refused[-1]["error"]
    read = walk.of_sink(("t", 0, 5, None, None, b"M\xfea", None)).stages
    assert [stage["record"]["value"] for stage in read] == ["a"] * 3
    assert "without its mark" in walk.of_sink(("t", 0, 6, None, None, b"unmarked", None)).stages[0]["error"]
    walk.close()


def test_java_config_def_and_refusal_name_the_setting(find: Finder) -> None:
    made = find(f"transform:{LABEL}")()
    assert [key.name for key in made.config_def()] == ["label", "misbehave"]
    config = PLAIN | {"transforms": "label", "transforms.label.type": f"transform:{LABEL}"}
    with pytest.raises(BadConfigError, match='label: Missing required configuration "label"'):
        SourcePipeline.from_config(config, {}, find)


def test_a_java_provider_resolves_references_for_as_long_as_it_says(find: Finder) -> None:
    worker = {
        "config.providers": "t",
        "config.providers.t.class": f"v:{TABLE}",
        "config.providers.t.param.secrets.password": "secret",
        "config.providers.t.param.ttl.ms": "5000",
    }
    providers = ConfigProviders.from_config(worker, find)
    resolved = providers.resolve({"a": "${t:secrets:password}", "b": "plain"})
    assert (dict(resolved), resolved.ttl_ms) == ({"a": "secret", "b": "plain"}, 5000)
    with pytest.raises(BadConfigError, match="the path is refused"):
        providers.resolve({"a": "${t:refused:x}"})


def test_a_killed_jvm_is_replaced_and_the_batch_goes_through_again(find: Finder) -> None:
    made = find(f"transform:{LABEL}")()
    made.configure({"label": "l"})
    before = made.apply(source_record(1, {"a": 1}))
    os.kill(made.jvm_pid, signal.SIGKILL)
    assert made.apply(source_record(1, {"a": 1})) == before
    made.close()
