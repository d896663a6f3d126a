from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spark_connect_rt.app.quickstart.quickstart import disk_errors_named, own_command
from spark_connect_rt.app.quickstart.quickstart_view import (
    Counts,
    QuickstartResult,
    Steps,
    next_steps,
    progress_line,
    report_lines,
)
from spark_connect_rt.errors import StartupError

URL = "http://127.0.0.1:8083/"


def progress(**records: int) -> dict[str, Any]:
    return {
        "tasks": [
            {"task": {"connector": name.replace("_", "-"), "task": 0}, "records": count}
            for name, count in records.items()
        ]
    }


def outcome(table_rows: int = 10, keep: bool = True, url: str = URL, moved: int = 10) -> QuickstartResult:
    counts = Counts(csv_rows=10, table_rows=table_rows, moved_to_topic=moved, moved_to_table=moved, carriers=())
    return QuickstartResult(counts, url, "127.0.0.1:9092", Path("flights.table"), Path("flights.csv"), keep)


def test_a_start_that_takes_long_says_every_ten_seconds_what_it_waits_for() -> None:
    printed, now = io.StringIO(), [1_000.0]
    steps = Steps(Console(file=printed, width=200), {"CONNECTRT_BEGAN": "958"}, lambda: now[0])
    for _ in range(25):  # twelve and a half seconds, twice each
        steps.show(progress(flights_source=0))
        now[0] += 0.5
    steps.show(progress(flights_source=4_000, flights_table=0))
    assert printed.getvalue().splitlines() == [
        "[ 42 s] waiting for Spark to start the tasks (10 to 30 s)",
        "[ 52 s] waiting for Spark to start the tasks (10 to 30 s)",
        "[ 54 s] 4,000 records in the topic, 0 rows in the table",
    ]


def test_progress_without_any_task_is_waiting() -> None:
    assert progress_line({}).startswith("waiting for Spark")
    assert progress_line(progress(flights_source=7, flights_table=3)) == "7 records in the topic, 3 rows in the table"


def test_a_run_that_stays_up_ends_with_the_console_a_command_and_a_connector() -> None:
    said = "\n".join(next_steps(outcome(), "connectrt", "./spark-submit.sh FILE"))
    assert "http://127.0.0.1:8083/console" in said
    assert "connectrt get connectors\n" in said
    assert "connectrt create orders connector.class=DatagenSource" in said
    assert "connectrt events" in said
    assert "Ctrl-C" in said


def test_a_run_that_ended_says_first_how_to_keep_it_up() -> None:
    lines = next_steps(outcome(keep=False), "connectrt", "./spark-submit.sh FILE")
    assert lines[1] == "  ./spark-submit.sh FILE --keep"
    assert any("http://127.0.0.1:8083/console" in line for line in lines)


def test_commands_name_a_worker_that_is_not_at_the_usual_address() -> None:
    said = next_steps(outcome(url="http://127.0.0.1:9999/"), "connectrt", "")
    assert any(line.endswith("get connectors --url http://127.0.0.1:9999") for line in said)


@pytest.mark.parametrize(
    ("rows", "words"), [(10, "OK: the table holds every row"), (11, "delivered twice"), (9, "rows are missing")]
)
def test_the_report_says_whether_table_and_file_agree(rows: int, words: str) -> None:
    assert words in report_lines(outcome(table_rows=rows))[-1]


def test_a_run_with_nothing_new_says_so() -> None:
    assert report_lines(outcome(moved=0))[0] == "read 0 new records: the committed offset is at the end of the file"


def test_the_command_to_repeat_is_the_one_that_was_given() -> None:
    words = ["python", "submit", "conf/quickstart.properties", "--set", "quickstart.directory=my folder"]
    again = own_command(words, {"CONNECTRT_BEGAN": "1"})
    assert again == "./spark-submit.sh conf/quickstart.properties --set 'quickstart.directory=my folder'"
    assert own_command(["connectrt", "quickstart"], {}).endswith("connectrt quickstart")


@pytest.mark.parametrize(
    ("number", "fix"), [(errno.ENOSPC, "Free 500 MB"), (errno.EROFS, "quickstart.directory="), (errno.EACCES, "--set")]
)
def test_a_full_or_read_only_disk_is_a_sentence_with_its_fix(number: int, fix: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=fix) as refused, disk_errors_named(tmp_path):
        raise OSError(number, "the system's words", "flights.csv")
    assert refused.value.exit_code == 29
    assert str(refused.value).startswith("flights.csv: the system's words. ")


def test_another_error_of_the_system_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), disk_errors_named(tmp_path):
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
