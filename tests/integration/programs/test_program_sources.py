"""Sources of programs against a real process that behaves, and misbehaves in every way."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.api.connector import ExactlyOnceSupport
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.config.worker_settings import Boundary
from spark_connect_rt.connectors.external_process import child_process
from spark_connect_rt.connectors.external_process.environments import program_path
from spark_connect_rt.errors import ConnectError, DataError, ExternalError
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries
from spark_connect_rt.testing.connector_harness import SourceHarness
from tests.integration.programs.program_runs import KINDS, harness, ids, poll_to_end, poll_until, sample_program

SLEEPER = ["sleep", "1017"]  # what the sample program starts before it hangs
SCHEMAS = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
ROWS = {"streams": ["orders", "people"], "rows": 250}


@pytest.fixture
def program(tmp_path: Path) -> str:
    return sample_program(tmp_path)


def wheel_of(folder: Path, name: str, source: str) -> Path:
    """Write a wheel of one module with one program."""
    module = name.replace("-", "_")
    path = folder / f"{module}-1.0-py3-none-any.whl"
    about = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}.py", source + "\n\ndef main() -> None: ...\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/entry_points.txt", f"[console_scripts]\n{name} = {module}:main\n")
        wheel.writestr(f"{about}/RECORD", "")
    return path


def states(source: SourceHarness) -> dict[str, object]:
    return {partition["stream"]: json.loads(offset["state"]) for partition, offset in source.offsets.all()}


@pytest.mark.parametrize("kind", KINDS)
def test_streams_become_topics_with_schema_and_key_and_a_restart_repeats_nothing(kind: str, program: str) -> None:
    with harness(kind, program, ROWS, SCHEMAS) as source:
        first = poll_to_end(source)
        assert Counter(record.topic for record in first) == {"of.orders": 250, "of.people": 250}
        value = first[0].json()
        assert value["payload"] == {"id": 1, "name": "orders 1"}
        assert (value["schema"]["name"], value["schema"]["version"]) == ("orders", 1)
        assert [(field["field"], field["type"]) for field in value["schema"]["fields"]] == [
            ("id", "int64"),
            ("name", "string"),
        ]
        assert json.loads(first[0].key or b"") == {"id": 1}
        assert states(source) == {"orders": {"id": 250}, "people": {"id": 250}}
        source.restart()
        assert poll_to_end(source) == []


@pytest.mark.parametrize("kind", KINDS)
def test_streams_are_shared_among_tasks_and_may_move_between_them(kind: str, program: str) -> None:
    settings = {"tasks.max": "2", f"{kind}.streams": "*,!people"}
    with harness(kind, program, {"streams": ["orders", "people", "places"], "rows": 120}, settings) as source:
        assert len(source.tasks) == 2
        assert Counter(record.topic for record in poll_to_end(source)) == {
            "of.orders": 120,
            "of.places": 120,
        }
        source.hosted.config |= {"tasks.max": "1", f"{kind}.streams": "*"}
        source.restart()
        assert len(source.tasks) == 1
        assert Counter(record.topic for record in poll_to_end(source)) == {"of.people": 120}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["die", "killed", "hang", "giant"])
def test_a_program_that_ends_in_mid_run_is_run_again_from_its_last_state(
    kind: str, how: str, program: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"streams": ["orders"], "rows": 950, "at": {"733": how}, "once": str(tmp_path / "done")}
    settings = {
        f"{kind}.silence.timeout.ms": "1000",
        f"{kind}.line.max.bytes": "2000000",
        f"{kind}.secret.config": '{"password": "hunter2"}',
    }
    with harness(kind, program, config, settings) as source:
        count = Counter(ids(poll_to_end(source)))
    assert count.keys() == set(range(1, 951))
    repeated = {number for number, times in count.items() if times > 1}
    assert repeated <= set(range(701, 733))  # what came behind the state of row 700, and no more
    said = {
        "die": "exit code 3",
        "killed": "signal 9",
        "hang": "is stopped as hung",
        "giant": "more than 2000000 bytes",
    }
    assert said[how] in caplog.text
    assert "hunter2" not in caplog.text
    assert not [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == SLEEPER]


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_not_an_offset_before_its_records_are_durable(kind: str, program: str) -> None:
    config = {"streams": ["orders"], "rows": 400}
    with harness(kind, program, config) as source:
        taken = poll_until(source, lambda found: len(found) >= 300, durable=False)
        assert source.offsets.all() == []
        source.restart()
        assert sorted(ids(poll_to_end(source))) == list(range(1, 401))
        assert len(taken) >= 300


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_is_logged_and_broken_messages_are_errant(
    kind: str, program: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"streams": ["orders"], "rows": 20, "at": {"5": "garbage", "7": "broken"}, "more": {"9": {"id": "nine"}}}
    with harness(kind, program, config, {"errors.tolerance": "all"}) as source:
        assert ids(poll_to_end(source)) == [number for number in range(1, 21) if number != 9]
        assert [errant.place.partition(" ")[0] for errant in source.errants] == ["a", "stream"]
        assert "this is no message" in caplog.text
    with harness(kind, program, config) as source, pytest.raises(DataError):
        poll_to_end(source)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_row_is_a_tombstone_and_fields_without_a_schema_are_reported(
    kind: str, program: str, caplog: pytest.LogCaptureFixture
) -> None:
    deleted = {"singer": "_sdc_deleted_at", "airbyte": "_ab_cdc_deleted_at"}[kind]
    config = {"streams": ["orders"], "rows": 3, "more": {"2": {deleted: "2026-01-01T00:00:00Z"}, "3": {"surplus": 1}}}
    with harness(kind, program, config) as source:
        found = [(json.loads(record.key or b"")["id"], record.json()) for record in poll_to_end(source)]
    assert found == [(1, {"id": 1, "name": "orders 1"}), (2, None), (3, {"id": 3, "name": "orders 3"})]
    assert "ignoring field surplus, which is not in its schema" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_always_fails_fails_its_task_with_what_it_wrote(kind: str, program: str) -> None:
    config = {"streams": ["orders"], "rows": 9, "at": {"5": "die"}, "password": "hunter2"}
    with (
        harness(kind, program, config, {f"{kind}.retries.max": "1"}) as source,
        pytest.raises(
            ExternalError, match=r"(?s)2 failed runs.*exit code 3.*it ends badly, password \[hidden\]"
        ) as raised,
    ):
        poll_to_end(source)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_no_stream_no_program_and_a_program_that_offers_nothing_are_clear_errors(kind: str, program: str) -> None:
    with pytest.raises(ConnectError, match=r"no stream matches nothing.*\. Streams: orders, people"):
        harness(kind, program, ROWS, {f"{kind}.streams": "nothing*"}).start()
    with pytest.raises(ConnectError, match="there is no program at /nowhere/program") as raised:
        harness(kind, "/nowhere/program", ROWS).start()
    assert raised.value.code == "CRT-1170"
    with pytest.raises(ConnectError, match="exit code"):
        harness(kind, "/bin/false", ROWS).start()


def test_a_stop_ends_the_program_and_all_it_started_and_removes_its_files(program: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    config = {"streams": ["orders"], "rows": 100_000, "pause_s": 0.01, "pid": str(pid_file), "state_every": 1}
    settings = {"singer.secret.config": '{"password": "hunter2"}', "singer.environment": '{"TAP_WORD": "it"}'}
    with harness("singer", program, config, settings) as source:
        poll_until(source, lambda found: len(found) > 3)
        running = psutil.Process(int(pid_file.read_text()))
        words, environment = running.cmdline(), running.environ()
        assert environment["TAP_WORD"] == "it"
        assert environment["PATH"].startswith(str(Path(program).parent))
        assert "PYTHONPATH" not in environment
        files = [Path(word) for word in words if word.endswith(".json")]
        assert "hunter2" not in " ".join(words)
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        assert files[0].parent.stat().st_mode & 0o777 == 0o700
    assert not running.is_running()
    assert not files[0].parent.exists()


_TASK = """
import sys, time
from tests.integration.programs.program_runs import harness
config = {"streams": ["orders"], "rows": 1000000, "pause_s": 0.01, "pid": sys.argv[2], "at": {"50": "hang"}}
with harness("singer", sys.argv[1], config) as source:
    while True:
        source.poll()
        time.sleep(0.01)
"""


def test_a_program_and_what_it_started_end_when_its_tasks_process_is_killed(program: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    owner = subprocess.Popen([sys.executable, "-c", _TASK, program, str(pid_file)])
    deadline_s = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text() and psutil.Process(int(pid_file.read_text())).children()):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    running = psutil.Process(int(pid_file.read_text()))
    (sleeper,) = running.children()
    folder = Path(running.cwd())
    assert (folder / "config.json").exists()
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    _, alive = psutil.wait_procs([running, sleeper], timeout=10)
    assert alive == []
    deadline_s = time.monotonic() + 5
    while folder.exists():  # the guard, which removes it, may end after a program that failed for want of a reader
        assert time.monotonic() < deadline_s, "it holds secrets"
        time.sleep(0.02)


def test_full_refresh_streams_are_read_whole_in_every_run(program: str) -> None:
    settings = {"airbyte.sync.mode": "full_refresh", "airbyte.interval.ms": "1"}
    with harness("airbyte", program, {"streams": ["orders"], "rows": 10}, settings) as source:
        found = ids(poll_until(source, lambda found: len(found) >= 30))
    assert found[:30] == [*range(1, 11)] * 3


def test_an_error_of_airbyte_fails_the_run_and_one_of_the_configuration_the_task(program: str, tmp_path: Path) -> None:
    config = {"streams": ["orders"], "rows": 30, "at": {"20": "transient_error"}, "once": str(tmp_path / "done")}
    with harness("airbyte", program, config) as source:
        assert ids(poll_to_end(source)) == list(range(1, 31))  # all came, so the run after it has nothing to repeat
    config = {"streams": ["orders"], "rows": 30, "at": {"20": "config_error"}, "password": "hunter2"}
    with (
        harness("airbyte", program, config) as source,
        pytest.raises(
            ExternalError, match=r"rejects its configuration: config_error: it does not work \(of \[hidden\]\)"
        ),
    ):
        poll_to_end(source)


@pytest.mark.parametrize("kind", KINDS)
def test_with_transactions_behind_states_every_record_is_committed_once(
    kind: str, program: str, tmp_path: Path
) -> None:
    config = {"streams": ["orders"], "rows": 950, "at": {"733": "killed"}, "once": str(tmp_path / "done")}
    committed, pending = [], []
    with harness(kind, program, config, {"transaction.boundary": "connector"}) as source:
        assert source.hosted.connector.exactly_once_support(source.hosted.config) is ExactlyOnceSupport.SUPPORTED
        (task,) = source.tasks
        boundaries = TransactionBoundaries(Boundary.CONNECTOR, 0, 0)
        task.context.transaction_context = boundaries.requests
        while task.has_more():
            for pieces, end in boundaries.cut(task.poll() or (), 0):
                pending += [
                    row["id"] for piece in pieces if isinstance(piece, SourceBatch) for row in piece.values.to_pylist()
                ]
                if end is not End.NONE:
                    committed += pending if end is End.COMMIT else []
                    pending = []
    assert committed == list(range(1, 951))


@pytest.mark.parametrize("kind", KINDS)
def test_run_follows_run_and_brings_what_is_new(kind: str, program: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_text("40")
    config = {"streams": ["orders"], "rows": 0, "rows_file": str(rows)}
    with harness(kind, program, config, {f"{kind}.interval.ms": "20"}) as source:
        assert ids(poll_until(source, lambda found: len(found) >= 40)) == list(range(1, 41))
        rows.write_text("100")
        assert ids(poll_until(source, lambda found: len(found) >= 60)) == list(range(41, 101))


def test_batches_in_files_are_read_by_the_column_and_removed(program: str, tmp_path: Path) -> None:
    lines, columns = tmp_path / "a.jsonl.gz", tmp_path / "b.parquet"
    lines.write_bytes(gzip.compress(b"".join(b'{"id": %d, "name": "line"}\n' % number for number in range(1, 11))))
    pq.write_table(pa.table({"id": pa.array(range(11, 31), pa.int32()), "name": ["column"] * 20}), columns)
    batches = [["jsonl", "gzip", lines.as_uri()], ["parquet", None, columns.as_uri()]]
    with harness("singer", program, {"streams": ["orders"], "rows": 0, "batches": batches}) as source:
        found = poll_to_end(source)
    assert ids(found) == list(range(1, 31))
    assert [found[0].json(), found[-1].json()] == [{"id": 1, "name": "line"}, {"id": 30, "name": "column"}]
    assert not lines.exists()
    assert not columns.exists()


def test_an_environment_is_made_once_and_one_that_cannot_be_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path / "cache"))
    for offline in ("PIP_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(offline, "1")
    source = Path(__file__).with_name("sample_program.py").read_text(encoding="utf-8")
    wheel = wheel_of(tmp_path, "tap-sample", source)
    settings = {"singer.requirement": str(wheel), "singer.executable": "tap-sample"}
    with harness("singer", "", {"streams": ["orders"], "rows": 5}, settings) as source_of_it:
        assert ids(poll_to_end(source_of_it)) == [1, 2, 3, 4, 5]
    (made,) = (tmp_path / "cache" / "programs").glob("*/bin/tap-sample")
    before = made.stat().st_mtime_ns
    assert program_path("tap-sample", [str(wheel)], None) == made
    assert made.stat().st_mtime_ns == before
    with pytest.raises(ConnectError, match=r"has no program 'other'\. It has tap-sample"):
        program_path("other", [str(wheel)], None)
    with pytest.raises(ConnectError, match="exit code 1") as raised:
        program_path("x", ["no-such-package-of-ours"], None)
    assert raised.value.code == "CRT-1170"
    assert len(list((tmp_path / "cache" / "programs").glob("*/bin"))) == 1


def test_a_thread_that_reads_and_dies_is_noticed(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise RuntimeError("no more threads like this")

    with harness("singer", program, ROWS, {"singer.retries.max": "0"}) as source:
        monkeypatch.setattr(child_process, "_widen", fails)
        with pytest.raises(ExternalError, match=r"(?s)reading its output failed: no more threads like this") as raised:
            poll_to_end(source)
    assert raised.value.code == "CRT-1171"
