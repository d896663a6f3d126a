"""From polled records to produce form: columns and rows, offsets, tolerance."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.records import SourceBatch, SourceRecord, Written
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.pipeline import source_pipeline
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.records.pipeline.errant_records import RetryInterrupted, RetryWait, Stage
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
from tests.unit.records.pipeline.plugins_for_tests import WORKER, Upper, find

FILE = {"filename": "f"}


def pipeline(waiting: RetryWait | None = None, **connector: str) -> SourcePipeline:
    return SourcePipeline.from_config({k.replace("_", "."): v for k, v in connector.items()}, WORKER, find, waiting)


def record(value: Any, position: int = 1, **parts: Any) -> SourceRecord:
    return SourceRecord(FILE, {"position": position}, "t", value=value, **parts)


def batch(*values: str, position: int = 9, **parts: Any) -> SourceBatch:
    return SourceBatch(FILE, {"position": position}, "t", pa.array(values, pa.string()), s.STRING, **parts)


def test_a_batch_goes_through_in_columns_and_equals_the_row_way() -> None:
    (fast,) = pipeline().convert([batch("a", 'say "b"')])
    (slow,) = pipeline(transforms="up", transforms_up_type="Upper").convert([batch("a", 'say "b"')])
    assert fast.batch.column("value").to_pylist() == [b'"a"', b'"say \\"b\\""']
    assert slow.batch.column("value").to_pylist() == [b'"A"', b'"SAY \\"B\\""']
    for converted in (fast, slow):
        assert converted.source_offsets == ((FILE, {"position": 9}),)
        assert (converted.records, converted.skipped, converted.topics) == (2, 0, ("t",))
        assert converted.batch.schema.metadata == {TOPIC: b"t"}
    assert fast.batch.schema.names == ["value"]
    assert slow.batch.schema.names == ["value", "headers"]


def test_keys_and_times_of_a_batch_are_kept() -> None:
    piece = batch("a", "b", keys=pa.array(["k", None]), key_schema=s.OPTIONAL_STRING, timestamps_ms=pa.array([5, 6]))
    for tested in (pipeline(), pipeline(transforms="up", transforms_up_type="Upper")):
        (converted,) = tested.convert([piece])
        assert converted.batch.column("key").to_pylist() == [b"k", None]
        assert converted.batch.column("timestamp").to_pylist() == [5, 6]


def test_a_null_key_with_an_envelope_is_repeated() -> None:
    connector = {"key_converter": "JsonConverter"}
    (converted,) = pipeline(**connector).convert([batch("a", "b", key_schema=s.OPTIONAL_STRING)])
    (by_row,) = pipeline(**connector).convert([record("a", key_schema=s.OPTIONAL_STRING)])
    assert converted.batch.column("key").to_pylist() == by_row.batch.column("key").to_pylist() * 2
    assert b'"payload":null' in by_row.batch.column("key")[0].as_py()


def test_rows_of_several_topics_and_partitions_keep_their_order() -> None:
    other = SourceRecord({"filename": "g"}, {"position": 7}, "u", value={"a": 1}, partition=3, key="k", timestamp_ms=4)
    (converted,) = pipeline().convert([record(1, 1), other, record(None, 2)])
    assert converted.batch.to_pylist() == [
        {"topic": "t", "partition": None, "key": None, "value": b"1", "timestamp": None},
        {"topic": "u", "partition": 3, "key": b"k", "value": b'{"a":1}', "timestamp": 4},
        {"topic": "t", "partition": None, "key": None, "value": None, "timestamp": None},
    ]
    assert converted.source_offsets == ((FILE, {"position": 2}), ({"filename": "g"}, {"position": 7}))
    assert converted.topics == ("t", "u")


def test_order_holds_between_rows_and_batches() -> None:
    converted = pipeline().convert([record("r1", 1), batch("b1", position=2), record("r2", 3)])
    values = [value for piece in converted for value in piece.batch.column("value").to_pylist()]
    assert values == [b'"r1"', b'"b1"', b'"r2"']
    assert [offset["position"] for piece in converted for _, offset in piece.source_offsets] == [
        1,
        2,
        3,
    ]


def test_empty_batch_moves_the_offset_behind_earlier_records_with_any_transform() -> None:
    moves, later = batch(position=10), SourceBatch({"filename": "g"}, {"position": 1}, "u", pa.array([], pa.string()))
    for tested in (pipeline(), pipeline(transforms="up", transforms_up_type="Upper")):
        converted = tested.convert([batch("a"), moves, later, record("b", 11)])
        assert [row["value"] for part in converted for row in part.batch.to_pylist()][-1] in (b'"b"', b'"B"')
        assert tested.rows_of_each == [1, 0, 0, 1]
        newest = {str(where): offset for part in converted for where, offset in part.source_offsets}
        assert newest == {str(FILE): {"position": 11}, str({"filename": "g"}): {"position": 1}}
        (alone,) = tested.convert([moves])
        assert (alone.records, alone.batch.num_rows, alone.source_offsets) == (0, 0, ((FILE, {"position": 10}),))


def test_many_rows_are_cut_and_a_batchs_offset_comes_only_with_its_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_pipeline, "BATCH_BYTES", 100)
    monkeypatch.setattr(source_pipeline, "JOINED_BYTES", 100)
    converted = pipeline(transforms="up", transforms_up_type="Upper").convert([batch(*"abcdefg")])
    assert sum(piece.records for piece in converted) == 7
    assert len(converted) > 1
    assert [piece.source_offsets for piece in converted[:-1]] == [()] * (len(converted) - 1)
    assert converted[-1].source_offsets == ((FILE, {"position": 9}),)


def test_tolerance_none_names_stage_topic_source_partition_and_offset() -> None:
    with pytest.raises(DataError) as caught:
        pipeline().convert([record("fine", 1), record({1, 2}, 2, partition=4)])
    assert caught.value.stage == "VALUE_CONVERTER"
    for part in ("VALUE_CONVERTER", "topic t-4", "{'filename': 'f'}", "{'position': 2}"):
        assert part in str(caught.value)
    with pytest.raises(DataError, match="TRANSFORMATION failed: ValueError: cannot upper-case bad"):
        pipeline(transforms="up", transforms_up_type="Upper").convert([batch("a", "bad")])


def test_tolerance_all_skips_and_counts_and_goes_past_the_errant_record() -> None:
    tested = pipeline(transforms="up", transforms_up_type="Upper", errors_tolerance="all")
    (converted,) = tested.convert([record("a", 1), record("bad", 2), record("drop", 3)])
    assert (converted.records, converted.skipped) == (1, 1)
    assert converted.source_offsets == ((FILE, {"position": 3}),)
    assert [(errant.stage, str(errant.error)) for errant in converted.errants] == [
        (Stage.TRANSFORMATION, "cannot upper-case bad")
    ]


def test_a_poll_of_dropped_records_still_moves_the_offset() -> None:
    (converted,) = pipeline(transforms="up", transforms_up_type="Upper").convert([record("drop", 3)])
    assert (converted.records, converted.batch.num_rows, converted.topics) == (0, 0, ())
    assert converted.source_offsets == ((FILE, {"position": 3}),)
    assert pipeline().convert([]) == []


def test_source_partition_ignores_the_order_of_its_fields_but_not_their_types() -> None:
    ab, ba = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    places = [(ab, 5), (ba, 6), (ab, 7), ({"id": 1}, 8), ({"id": True}, 9)]
    records = [SourceRecord(partition, {"position": at}, "t", "v") for partition, at in places]
    (converted,) = pipeline().convert(records)
    found = [(dict(partition), offset["position"]) for partition, offset in converted.source_offsets]
    assert repr(found) == repr([(ab, 7), ({"id": 1}, 8), ({"id": True}, 9)])


def test_retriable_errors_are_tried_again_within_the_time_limit() -> None:
    clock, waits = [0], []

    def wait(delay_ms: int) -> bool:
        waits.append(delay_ms)
        clock[0] += delay_ms
        return True

    waiting = RetryWait(now_ms=lambda: clock[0], wait_ms=wait)
    settings = {"transforms": "up", "transforms_up_type": "Upper", "errors_retry_timeout": "1000"}
    Upper.later = 2
    (converted,) = pipeline(waiting, **settings).convert([record("later")])
    assert converted.records == 1
    assert waits == [300, 600]
    Upper.later = 100
    with pytest.raises(DataError, match="not yet"):
        pipeline(waiting, **settings).convert([record("later")])
    assert waits[2:] == [300, 600, 100]
    Upper.later = 0


def test_a_stop_in_the_middle_of_retries_gives_nothing_up() -> None:
    waiting = RetryWait(now_ms=lambda: 0, wait_ms=lambda delay_ms: False)
    settings = {"transforms": "up", "transforms_up_type": "Upper", "errors_retry_timeout": "-1"}
    for tolerance in ("none", "all"):
        tested = pipeline(waiting, **settings, errors_tolerance=tolerance)
        Upper.later = 1
        with pytest.raises(RetryInterrupted):
            tested.convert([record("before", 1), record("later", 2)])
        assert tested.give_up() is None
        (converted,) = tested.convert([record("before", 1), record("later", 2)])
        assert (converted.records, converted.skipped) == (2, 0)


def test_a_connectors_own_converter_does_not_mix_with_the_workers_settings() -> None:
    (converted,) = pipeline(value_converter="JsonConverter").convert([record(1)])
    assert converted.batch.column("value").to_pylist() == [b'{"schema":null,"payload":1}']


@pytest.mark.parametrize(
    ("connector", "setting"),
    [
        ({"value_converter": "Nonsense"}, "value.converter"),
        ({"value_converter": "NoPlugin"}, "value.converter"),
        ({"key_converter": "JsonConverter", "key_converter_schemas_enable": "x"}, "key.converter.schemas.enable"),
        ({"transforms": "a", "transforms_a_type": "Nonsense"}, "transforms.a.type"),
        ({"transforms": "a"}, "transforms.a.type"),
        ({"transforms": "a", "transforms_a_type": "Upper", "transforms_a_suffix": "forbidden"}, "transforms.a.suffix"),
        ({"transforms": "a", "transforms_a_type": "Upper", "transforms_a_predicate": "p"}, "transforms.a.predicate"),
        ({"errors_tolerance": "some"}, "errors.tolerance"),
    ],
)
def test_wrong_settings_are_named(connector: dict[str, str], setting: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        pipeline(**connector)
    assert list(caught.value.problems) == [setting]


def test_predicates_choose_and_negate() -> None:
    settings = {
        "transforms": "up",
        "transforms_up_type": "Upper",
        "transforms_up_predicate": "short",
        "predicates": "short",
        "predicates_short_type": "IsShort",
    }
    (converted,) = pipeline(**settings).convert([record("ab"), record("abc")])
    assert converted.batch.column("value").to_pylist() == [b'"AB"', b'"abc"']
    (converted,) = pipeline(**settings, transforms_up_negate="true").convert([record("ab"), record("abc")])
    assert converted.batch.column("value").to_pylist() == [b'"ab"', b'"ABC"']


def test_own_writes_move_offsets_in_place_and_form_one_batch() -> None:
    written = [Written({"p": n}, {"o": n}, f"t{n}", 10, 99) for n in range(2)]
    before, both, behind = pipeline().convert([record("a"), *written, record("b", 2)])
    assert (before.records, before.written, behind.records, behind.written) == (1, None, 1, None)
    assert (both.batch.num_rows, both.records, both.written, both.topics) == (0, 20, 198, ("t0", "t1"))
    assert both.source_offsets == (({"p": 0}, {"o": 0}), ({"p": 1}, {"o": 1}))
