"""``connectrt dev``: what it shows, when it reloads, how it ends. Its project is what ``connectrt new`` writes."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.app.development.dev_loop import DevLoop, DevOptions
from spark_connect_rt.app.development.new_project import create_project
from spark_connect_rt.app.development.project import Project
from spark_connect_rt.cli.terminal import Terminal

Edit = Callable[[], object]


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        if name.partition(".")[0].endswith(("_trial", "_words")):
            del sys.modules[name]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    create_project("source", "orders_trial", tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    create_project("sink", "shelf_trial", tmp_path / "project")
    return tmp_path / "project"


def developed(folder: Path, *edits: Edit, **options: Any) -> tuple[int, str]:
    """Run the loop: each wait makes the next edit, the one behind the last is Ctrl-C. Return exit code and output."""
    left = list(edits)
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    out = io.StringIO()
    project = Project(folder / "connector.json", (), options.get("worker"))
    loop = DevLoop(project, DevOptions(**options), Terminal({}, out), wait, lambda: clock[0])
    return loop.run(), out.getvalue()


def replaced(file: Path, old: str, new: str) -> Edit:
    """Return an edit of a file."""

    def edit() -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return edit


def nothing() -> None:
    """Edit nothing: time passes."""


def test_records_offsets_and_what_would_be_committed_are_shown(source: Path) -> None:
    code, out = developed(source, once=True)
    assert code == 0
    assert out.splitlines() == [
        "orders_trial: OrdersTrialSource, no broker, nothing is committed. Ctrl-C ends it.",
        'orders_trial-0@0  key "0"  value {"number":0,"text":"hello 0"}  offset {"position": 1}',
        'orders_trial-0@1  key "1"  value {"number":1,"text":"hello 1"}  offset {"position": 2}',
        'orders_trial-0@2  key "2"  value {"number":2,"text":"hello 2"}  offset {"position": 3}',
        'would commit {"source": "main"} -> {"position": 3}',
    ]


def test_headers_are_shown_and_bytes_that_are_not_text_in_hexadecimal(source: Path) -> None:
    code = source / "orders_trial.py"
    replaced(code, "value=entry)", 'value=b"\\xff\\x00", headers=(Header("trace", "a7", STRING),))')()
    replaced(
        code,
        "from spark_connect_rt.api.records import SourceRecord\n",
        "from spark_connect_rt.api.data.schema import STRING\n"
        "from spark_connect_rt.api.records import Header, SourceRecord\n",
    )()
    _, out = developed(source, most_records=1, worker={"value.converter": "ByteArrayConverter"})
    assert 'key "0"  value 0xff00 (2 bytes)  headers trace=a7  offset {"position": 1}\n' in out


def test_a_number_of_records_ends_it(source: Path) -> None:
    code, out = developed(source, most_records=2)
    assert (code, out.count("key ")) == (0, 2)


def test_a_changed_file_is_reloaded_and_read_from_the_start(source: Path) -> None:
    code = source / "orders_trial.py"
    # Both edits keep the file's size, within one second: a compiled file would pass for the new source.
    edits = (replaced(code, "LAST = 3", "LAST = 1"), replaced(code, "LAST = 1", "LAST = 2"))
    _, out = developed(source, *edits)
    runs = out.split("--- orders_trial.py changed: reloading\n")
    assert [run.count("key ") for run in runs] == [3, 1, 2]
    assert out.endswith("stopped\n")


def test_offsets_can_be_kept_over_a_reload(source: Path) -> None:
    edit = replaced(source / "orders_trial.py", "LAST = 3", "LAST = 4")
    _, out = developed(source, edit, keep_offsets=True)
    _, after = out.split("--- orders_trial.py changed: reloading\n")
    assert "hello 3" in after
    assert after.count("key ") == 1


def test_the_configuration_is_read_again(source: Path) -> None:
    edit = replaced(source / "connector.json", '"topic"', '"greeting": "good day", "topic"')
    _, out = developed(source, nothing, edit)
    assert "--- connector.json changed: reloading\n" in out
    assert "good day 0" in out


def test_modules_that_the_connector_imports_are_reloaded_too(source: Path) -> None:
    (source / "few_words.py").write_text('FIRST = "bye"\n')
    code = source / "orders_trial.py"
    replaced(code, "PARTITION =", "import few_words\n\nPARTITION =")()
    replaced(code, '{greeting} {number}"', '{few_words.FIRST} {number}"')()
    _, out = developed(source, replaced(source / "few_words.py", "bye", "hey"))
    assert "bye 0" in out
    assert "hey 0" in out.split("--- few_words.py changed: reloading\n")[1]


def test_a_failure_shows_the_authors_lines_first_and_waits_for_a_change(source: Path) -> None:
    code = source / "orders_trial.py"
    good, bad = 'f"{greeting} {number}"', "greeting / number"
    replaced(code, good, bad)()
    status, out = developed(source, nothing, replaced(code, bad, good), nothing)
    assert status == 0
    lines = out.splitlines()
    assert lines[1] == "FAILED  TypeError: unsupported operand type(s) for /: 'str' and 'int'"
    assert [line.partition(":")[0] for line in lines[2:9:2]] == ["  orders_trial.py"] * 3 + ["the whole traceback"]
    assert lines[2].endswith("in <listcomp>") or lines[2].endswith("in read_entries")
    assert "greeting / number" in lines[3]
    assert out.count("FAILED") == 1, "a task that failed is not polled again"
    assert "--- waiting for a change\n--- orders_trial.py changed: reloading\n" in out
    assert "hello 2" in out


def test_a_failure_ends_a_run_that_ends_by_itself(source: Path) -> None:
    (source / "orders_trial.py").write_text("def broken(:\n")
    code, out = developed(source, once=True)
    assert code == 1
    assert "  orders_trial.py:1\n      def broken(:\n" in out
    assert "waiting" not in out


def test_an_invalid_configuration_is_shown_without_a_traceback(source: Path) -> None:
    replaced(source / "connector.json", '"topic"', '"topc"')()
    code, out = developed(source, once=True)
    assert code == 1
    assert "FAILED  the configuration is invalid:\n  topic: " in out
    assert "Traceback" not in out


def test_a_sink_gets_the_records_of_a_file_that_may_grow(sink: Path) -> None:
    def append() -> None:
        with (sink / "records.jsonl").open("a") as file:
            file.write('{"key": null, "value": {"text": "later"}, "partition": 1}\n')

    _, out = developed(sink, *[append, *[nothing] * 4])
    assert out.splitlines() == [
        "shelf_trial: ShelfTrialSink, no broker, nothing is committed. Ctrl-C ends it.",
        'shelf_trial-0@0  key null  value {"text":"hello"}',
        'shelf_trial-0@1  key "1"  value {"text":"with a key"}  headers trace=abc',
        'shelf_trial-0@2  key null  value {"no text":"this one becomes a dead letter"}',
        "would commit shelf_trial-0: 3",
        'dead letter: value {"no text":"this one becomes a dead letter"}: the value is not an object with a text',
        'shelf_trial-1@0  key null  value {"text":"later"}',
        "would commit shelf_trial-1: 1",
        "stopped",
    ]
    assert Path("shelf_trial.txt").read_text().splitlines()[-1] == "shelf_trial-1@0 later"


def test_a_sink_without_records_says_where_to_write_them(sink: Path) -> None:
    (sink / "records.jsonl").unlink()
    code, out = developed(sink, once=True)
    assert code == 1
    assert "records.jsonl: does not exist. Write the sink's records into it" in out


def test_a_bundled_connector_and_transformations_of_the_project_run_too(source: Path) -> None:
    (source / "upper_trial.py").write_text(
        "from dataclasses import replace\n"
        "from spark_connect_rt.api.transformation import Transformation\n"
        "class Upper(Transformation):\n"
        "    def apply(self, record):\n"
        "        return replace(record, value=record.value['city'].upper(), value_schema=None)\n"
    )
    (source / "connector.json").write_text(
        '{"name": "cities", "config": {"connector.class": "DatagenSource", "topic": "cities", "transforms": "upper",'
        ' "datagen.batch.records": "2", "transforms.upper.type": "upper_trial.Upper"}}'
    )
    code, out = developed(source, most_records=2)
    assert code == 0, out
    assert out.count('value "CITY_') == 2


def test_a_connector_that_only_a_worker_runs_is_refused(source: Path) -> None:
    (source / "connector.json").write_text(
        '{"name": "table", "config": {"connector.class": "SparkTableSink", "topics": "a", "path": "/tmp/x"}}'
    )
    (source / "records.jsonl").write_text("1\n")
    code, out = developed(source, once=True)
    assert code == 1
    assert "Traceback" not in out
    assert "SparkTableSinkConnector runs only in a worker. Use connectrt preview" in out


def write_sink(folder: Path, **config: str) -> None:
    config = {"connector.class": "FileStreamSink", "file": str(folder / "out.txt"), **config}
    (folder / "connector.json").write_text(json.dumps({"name": "lines", "config": config}))


def test_tasks_of_a_sink_share_the_partitions(source: Path) -> None:
    (source / "connector.json").write_text(
        '{"name": "v", "config": {"connector.class": "VerifiableSink", "topics": "a", "tasks.max": "2"}}'
    )
    (source / "records.jsonl").write_text('1\n2\n3\n{"value": 4, "partition": 3}\n')
    code, out = developed(source, once=True)
    assert code == 0, out
    assert "2 tasks share the partitions\n" in out
    shown = re.findall(r"^(a-\d@\d)  key null  value (\d)", out, re.MULTILINE)
    assert shown == [("a-0@0", "1"), ("a-0@1", "3"), ("a-1@0", "2"), ("a-3@0", "4")]
    assert "would commit a-0: 2, a-1: 1, a-3: 1\n" in out


def test_tasks_of_a_sink_get_the_records_of_their_partitions(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source / "connector.json").write_text(
        '{"name": "v", "config": {"connector.class": "VerifiableSink", "topics": "a", "tasks.max": "2"}}'
    )
    (source / "records.jsonl").write_text("".join(f'{{"value": {n}, "partition": {n}}}\n' for n in range(4)))
    assert developed(source, once=True)[0] == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["sinkTask"], line["seqno"]) for line in printed if "flushed" not in line] == [
        (0, 0),
        (0, 2),
        (1, 1),
        (1, 3),
    ]


def test_a_sink_reads_the_topics_that_its_pattern_matches(source: Path) -> None:
    write_sink(source, **{"topics.regex": "orders-.*", "errors.deadletterqueue.topic.name": "dead"})
    lines = [
        {"topic": "orders-eu", "value": "a"},
        {"topic": "users", "value": "b"},
        {"topic": "orders-us", "value": "c"},
    ]
    (source / "records.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    code, out = developed(source, once=True)
    assert code == 0, out
    assert (source / "out.txt").read_text() == "a\nc\n"
    assert "users" not in out


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ({}, "Must configure one of topics or topics.regex"),
        ({"topics": "a", "topics.regex": "b"}, "topics and topics.regex are mutually exclusive"),
        ({"topics.regex": "("}, "topics.regex: Invalid regex"),
        ({"topics.regex": "a.*"}, "records.jsonl:1: must name its topic, because the connector has topics.regex"),
    ],
)
def test_topics_that_a_worker_refuses_are_refused(source: Path, topics: dict[str, str], words: str) -> None:
    write_sink(source, **topics)
    (source / "records.jsonl").write_text("1\n")
    code, out = developed(source, once=True)
    assert code == 1
    assert words in out
    assert "Traceback" not in out


def test_a_connector_without_a_name_has_the_name_of_its_file(source: Path) -> None:
    (source / "app.log").write_text("a\n")
    (source / "connector.json").write_text(
        json.dumps({"connector.class": "FileStreamSource", "file": str(source / "app.log"), "topic": "log"})
    )
    code, out = developed(source, once=True)
    assert code == 0, out
    assert out.startswith("connector: FileStreamSourceConnector, no broker")


def test_a_java_connector_is_refused_with_what_to_use(source: Path) -> None:
    name = "io.debezium.connector.postgresql.PostgresConnector"
    (source / "connector.json").write_text(json.dumps({"name": "pg", "config": {"connector.class": name}}))
    code, out = developed(source, once=True)
    assert code == 1
    assert f"FAILED  NotFoundError: {name} is not a Python class" in out
    assert "connectrt dev does not run Java" in out
    assert "use connectrt preview connector.json there" in out
    assert "Traceback" not in out


def test_programs_need_the_permission_that_a_worker_asks_for(source: Path) -> None:
    config = {"connector.class": "SingerSource", "topic.prefix": "t-", "singer.executable": "/bin/true"}
    (source / "connector.json").write_text(json.dumps({"name": "tap", "config": config}))
    code, out = developed(source, once=True)
    assert code == 1
    assert "singer.executable: runs code on this worker and is not allowed" in out
    assert "--set connectrt.programs=" in out
    _, out = developed(source, once=True, worker={"connectrt.programs": "allow"})
    assert "is not allowed" not in out


def test_a_broker_that_does_not_answer_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.app.development.broker._CHECK_MS", 100)
    code, out = developed(source, once=True, worker={"bootstrap.servers": "127.0.0.1:1"})
    assert code == 1
    assert "no broker of bootstrap.servers=127.0.0.1:1 answered in 100 ms" in out
