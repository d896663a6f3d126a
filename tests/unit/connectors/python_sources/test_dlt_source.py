"""DltSource with resources of a few lines: passes, offsets, restarts in mid-flow, schemas, deletions, failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.connector import ExactlyOnceSupport
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.mirror import named_class
from spark_connect_rt.connectors.python_sources.dlt_source import DltSourceConnector, settings_tree
from spark_connect_rt.engine.process_plugins import import_plugins_when_named, plugins_of
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from tests.unit.connectors import dlt_samples as samples

NEXT_PASS_AT_ONCE = {"poll.interval.ms": "0"}
WITH_SCHEMAS = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
ONE_PASS = {"poll.interval.ms": "-1"}


@pytest.fixture(autouse=True)
def _empty() -> None:
    samples.SHELVES.clear()
    samples.ASKED.clear()


def harness(name: str, settings: Mapping[str, str] = ONE_PASS, **worker: Any) -> SourceHarness:
    config = {"dlt.source": f"{samples.__name__}:{name}", "dlt.retry.backoff.ms": "1", **settings}
    return SourceHarness(DltSourceConnector, config, **worker)


def rows(count: int, page: int) -> list[Any]:
    found = [{"id": at, "at": at} for at in range(count)]
    return [found[at : at + page] for at in range(0, count, page)]


def last_value(offset: Mapping[str, Any]) -> Any:
    return json.loads(offset["state"])["resources"]["changes"]["incremental"]["at"]["last_value"]


def ids(records: list[ProducedRecord]) -> list[int]:
    return [record.json()["id"] for record in records]


def test_the_state_of_dlt_is_the_offset_and_a_deletion_is_a_tombstone() -> None:
    samples.SHELVES["changes"] = [[{"id": 1, "at": 1}, {"id": 2, "at": 2}], {"id": 1, "at": 3, "gone": True}]
    with harness("changes", NEXT_PASS_AT_ONCE) as source:
        first = source.poll()
        assert [(record.key, record.value is None) for record in first] == [
            (b'{"id":1}', False),
            (b'{"id":2}', False),
            (b'{"id":1}', True),
        ]
        ((partition, offset),) = source.offsets.all()
        assert partition == {"dlt": "changes", "resource": "changes"}
        assert last_value(offset) == 3
        samples.SHELVES["changes"] = [{"id": 3, "at": 4}]
        source.restart()
        assert ids(source.poll()) == [3]
        assert samples.ASKED == {"changes from 0": 1, "changes from 3": 1}


def test_an_interrupted_pass_is_repeated_whole_because_rows_have_no_order() -> None:
    samples.SHELVES["changes"] = [[{"id": 1, "at": 9}], [{"id": 2, "at": 5}], [{"id": 3, "at": 7}]]
    with harness("changes", {**NEXT_PASS_AT_ONCE, "batch.max.rows": "1"}) as source:
        taken = [*source.poll(), *source.poll()]
        assert ids(taken) == [1]  # the newest waits: it may turn out to be the pass's last
        assert source.offsets.all()[0][1] == {"state": "{}"}
        source.restart()
        assert ids([record for _ in range(6) for record in source.poll()]) == [1, 2, 3]
        assert last_value(source.offsets.all()[0][1]) == 9


def test_rows_in_the_order_of_the_cursor_resume_after_the_last_durable_page() -> None:
    samples.SHELVES["in_order"] = rows(12, 3)
    with harness("in_order", {**NEXT_PASS_AT_ONCE, "batch.max.rows": "3"}) as source:
        assert ids(source.poll()) == [0, 1, 2]
        assert ids(source.poll(durable=False)) == [3, 4, 5]
        source.restart()
        assert ids(source.poll_all()) == [3, 4, 5, 6, 7, 8, 9, 10, 11]
        assert samples.ASKED["in_order from 2"] == 1


def test_arrow_pages_are_handed_on_as_they_are() -> None:
    page = pa.table({"a": pa.array([1, 2]), "b": pa.array(["x", None])})
    samples.SHELVES["frames"] = [page]
    with harness("frames") as source:
        (piece,) = source.tasks[0].poll() or ()
    assert isinstance(piece, SourceBatch)
    assert piece.values.field("a").buffers()[1].address == page.column("a").chunk(0).buffers()[1].address


def test_a_schema_grows_with_what_pages_bring() -> None:
    samples.SHELVES["frames"] = [pa.table({"a": [1, 2]}), [{"a": 1.5, "b": "x"}], [{"b": 7}], pa.table({"a": ["no"]})]
    with harness("frames", {**ONE_PASS, **WITH_SCHEMAS, "batch.max.rows": "1"}) as source:
        found = [record.json() for record in source.poll_all()]
    fields = [{member["field"]: member["type"] for member in tree["schema"]["fields"]} for tree in found]
    assert fields == [
        {"a": "int64"},
        {"a": "int64"},
        {"a": "double", "b": "string"},
        {"a": "double", "b": "string"},
        {"a": "string", "b": "string"},
    ]
    assert [tree["payload"] for tree in found][2:] == [
        {"a": 1.5, "b": "x"},
        {"a": None, "b": "7"},
        {"a": "no", "b": None},
    ]
    assert found[0]["schema"]["name"] == "frames"


def test_declared_columns_have_their_type_and_a_row_that_does_not_fit_is_errant() -> None:
    samples.SHELVES["typed"] = [[{"at": "2026-01-02T03:04:05Z", "size": "12"}, {"at": "soon", "size": 1}]]
    with harness("typed", {**ONE_PASS, "errors.tolerance": "all"}) as source:
        assert [record.json() for record in source.poll_all()] == [{"at": 1767323045000, "size": 12}]
        assert [json.loads(errant.data or b"") for errant in source.errants] == [{"at": "soon", "size": 1}]
    with harness("typed") as source, pytest.raises(DataError, match="soon"):
        source.poll()


def test_a_row_without_its_key_is_errant() -> None:
    samples.SHELVES["changes"] = [[{"id": None, "at": 1}, {"id": 2, "at": 2}]]
    with harness("changes", {**ONE_PASS, "errors.tolerance": "all"}) as source:
        assert ids(source.poll_all()) == [2]
        assert len(source.errants) == 1


def test_without_schemas_records_are_as_json_has_them() -> None:
    samples.SHELVES["changes"] = [[{"id": 1, "at": 1}, {"id": 2, "at": 2, "more": {"a": [1, "x"]}}]]
    with harness("changes", {**ONE_PASS, "dlt.schemas": "none"}) as source:
        found = source.poll_all()
    assert [record.json() for record in found] == [
        {"id": 1, "at": 1},
        {"id": 2, "at": 2, "more": {"a": [1, "x"]}},
    ]
    assert found[0].key == b'{"id":1}'


def test_units_are_dealt_to_tasks_and_their_secrets_are_theirs() -> None:
    given = {"dlt.config.token": "hush", "dlt.config.sources.dlt_samples.shop.size": "2", "tasks.max": "4"}
    with harness("shop", {**ONE_PASS, **given, "topic.prefix": "shop."}) as source:
        units = [json.loads(config["dlt.task.units"]) for config in source.hosted.task_configs()]
        assert units == [{"customers": ["customers", "orders"]}, {"events": ["events"]}]
        counts: dict[str, int] = {}
        for record in source.poll_all():
            counts[record.topic] = counts.get(record.topic, 0) + 1
        assert counts == {"shop.customers": 2, "shop.orders": 2, "shop.kind_of_a": 2, "shop.kind_of_b": 1}
        source.restart()
        assert source.poll_all() == []  # one pass, also across restarts
    with harness("shop", {**given, "dlt.resources": "events", "dlt.config.token": "other"}) as source:
        assert len(source.poll_all()) == 3
    assert set(samples.ASKED) == {"hush 2", "other 2"}


def test_missing_setting_is_named_without_values() -> None:
    with pytest.raises(ConnectError, match="`size`") as caught:
        harness("shop", {"dlt.config.token": "hush"}).start()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dlt.source": "tests.unit.connectors.dlt_samples:plain"}, "is a function"),
        ({"dlt.source": "os:system"}, "is a builtin"),
        ({"dlt.source": "no.such:thing"}, "No module named 'no'"),
        ({"dlt.arguments": "[1]"}, "JSON object"),
        ({"dlt.offsets": "never"}, "auto"),
    ],
)
def test_a_bad_setting_is_refused_and_nothing_is_called(settings: Mapping[str, str], words: str) -> None:
    with pytest.raises(BadConfigError, match=words):
        harness("changes", settings).start()
    assert not samples.ASKED


def test_a_worker_imports_listed_modules_and_those_of_its_plug_ins_only(tmp_path: Path) -> None:
    folder = tmp_path / "shop-1.0"
    folder.mkdir()
    (folder / "sources.py").write_text("import dlt\n\n@dlt.resource\ndef items():\n    yield [{'id': 1}]\n")
    raw = {"plugin.path": str(tmp_path)}
    import_plugins_when_named(raw)
    named_class.import_only(plugins_of(raw).may_import)
    try:
        with pytest.raises(BadConfigError, match=r"Add it to connectrt\.plugins\.modules"):
            harness("changes").start()
        with harness("changes", {**ONE_PASS, "dlt.source": "connectrt_plugins.shop_1_0.sources:items"}) as source:
            assert ids([*source.poll(), *source.poll()]) == [1]
        named_class.import_only(plugins_of({"connectrt.plugins.modules": "tests.unit"}).may_import)
        harness("changes").start()
    finally:
        named_class.import_only(lambda name, module: True)


def test_a_resource_that_is_not_there_is_named() -> None:
    given = {"dlt.arguments": '{"token": "t", "size": 1}', "dlt.resources": "nothing"}
    with pytest.raises(ConnectError, match="nothing"):
        harness("shop", given).start()


def test_a_failure_is_tried_again_and_then_fails_the_task() -> None:
    samples.SHELVES["in_order"] = [*rows(4, 2), OSError("the line is down")]
    with harness("in_order", {**NEXT_PASS_AT_ONCE, "dlt.retries.max": "2", "batch.max.rows": "2"}) as source:
        clock = [1e9]
        source.tasks[0].clock = lambda: clock[0]  # type: ignore[attr-defined]
        assert ids([*source.poll(), *source.poll()]) == [0, 1, 2, 3]
        assert source.poll() == []
        assert source.poll() == []  # not before its time
        clock[0] += 1.3  # of 1 ms, with 20 % of jitter
        assert source.poll() == []
        clock[0] += 2.5  # of 2 ms
        with pytest.raises(ConnectError, match=r"3 times in a row.*the line is down"):
            source.poll()


def test_offsets_are_checked_and_only_passes_are_exact() -> None:
    connector = DltSourceConnector()
    assert connector.alter_offsets({}, [({"dlt": "a", "resource": "b"}, {"state": "{}"}), ({"any": 1}, None)])
    for partition, offset in (({"dlt": "a"}, {"state": "{}"}), ({"dlt": "a", "resource": "b"}, {"at": 1})):
        with pytest.raises(ConnectError):
            connector.alter_offsets({}, [(partition, offset)])
    assert connector.exactly_once_support({}) is ExactlyOnceSupport.UNSUPPORTED
    assert connector.exactly_once_support({"transaction.boundary": "connector"}) is ExactlyOnceSupport.SUPPORTED


class Boundaries:
    def __init__(self) -> None:
        self.commits = 0

    def commit_transaction(self, record: Any = None) -> None:
        self.commits += 1


def test_a_pass_is_one_transaction() -> None:
    samples.SHELVES["in_order"] = [*rows(4, 2), OSError("down"), *rows(1, 1)]
    with harness("in_order", {"batch.max.rows": "1"}) as source:
        task, boundaries = source.tasks[0], Boundaries()
        task.context.transaction_context = boundaries  # type: ignore[assignment]
        task.start(source.hosted.task_configs()[0])
        assert ids([*source.poll(), *source.poll()]) == [0, 1]  # a page, and the next that waits
        with pytest.raises(ConnectError, match="down"):
            source.poll_all()
        assert boundaries.commits == 0
        samples.SHELVES["in_order"] = rows(4, 2)
        task.start(source.hosted.task_configs()[0])
        source.poll_all()
        assert boundaries.commits == 1


def test_dlts_own_readers_read_files(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.jsonl").write_text(f'{{"id": {at}}}\n{{"id": {at + 10}}}\n')
    config = {
        "dlt.source": "dlt.sources.filesystem.readers",
        "dlt.arguments": json.dumps({"bucket_url": tmp_path.as_uri(), "file_glob": "*.jsonl"}),
        "dlt.resources": "read_jsonl",
    }
    with SourceHarness(DltSourceConnector, {**config, **ONE_PASS}) as source:
        found = [record for _ in range(6) for record in source.poll()]
        assert sorted(ids(found)) == [0, 1, 2, 10, 11, 12]
        assert source.offsets.all()[0][0] == {"dlt": "readers", "resource": "filesystem"}
        source.restart()
        assert source.poll() == []


def test_settings_are_a_tree() -> None:
    assert settings_tree({"dlt.config.a.b": "1", "dlt.config.a.c": "2", "x": "3"})["a"] == {"b": "1", "c": "2"}
    with pytest.raises(BadConfigError):
        settings_tree({"dlt.config.a": "1", "dlt.config.a.c": "2"})


def test_threads_of_dlts_pool_see_the_settings_of_their_connector() -> None:
    sources = [harness("pooled", {**ONE_PASS, "dlt.config.api.token": token}) for token in ("mine", "yours")]
    with sources[0] as mine, sources[1] as yours:
        for source, token in ((mine, "mine"), (yours, "yours")):
            found = [record.json() for record in source.poll_all()]
            assert [(row["in_pool"], row["token"]) for row in found] == [(True, token)] * 4
