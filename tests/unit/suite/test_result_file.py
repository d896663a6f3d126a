"""What a run leaves behind: each of the long ones a table of its own, and of which commit it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.suite import __main__ as suite
from tests.suite.result_file import RECORDED, ROOT, Began, write_results
from tests.suite.steps import RUNS, Run
from tests.suite.verdict import Finished, Outcome, judged

BEGAN = Began("0123456789ab-dirty", "2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize("kind", ["all", "quick", "long", "java"])
def test_every_run_that_takes_long_leaves_a_record(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step, results in RECORDED.items():
        monkeypatch.setitem(RECORDED, step, tmp_path / results.name)
    monkeypatch.setitem(RUNS, kind, Run((), {}))
    assert suite.main(kind) == 0
    left = {"all": ["tests.json"], "java": ["tests_java.json"], "long": ["tests_long.json"], "quick": []}[kind]
    assert [path.name for path in tmp_path.iterdir()] == left
    for name in left:
        told = json.loads((tmp_path / name).read_text())
        assert len(told["commit"].removesuffix("-dirty")) >= 7
        assert told["began"].endswith("+00:00")


def test_a_record_names_what_failed_and_the_commit(tmp_path: Path) -> None:
    steps = [
        Finished("lint", 1, 3.0),
        Finished(
            "java connectors", 1, 9.0, [Outcome("tests/a.py::b", 9.0, ["call: assert 0"]), Outcome("tests/a.py::c")]
        ),
    ]
    write_results(steps, judged(steps), 12.4, BEGAN, tmp_path / "tests.json")
    told = json.loads((tmp_path / "tests.json").read_text())
    assert (told["commit"], told["began"], told["total_s"]) == (BEGAN.commit, BEGAN.at, 12)
    assert (told["passed"], told["failed"], told["failed_tests"]) == (1, 1, ["tests/a.py::b"])
    assert told["failed_steps"] == ["lint", "java connectors"]


def test_a_record_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    steps = [Finished(f"{ROOT}/tests/a.py", 1, 3.0)]
    write_results(steps, judged(steps), 3.0, BEGAN, tmp_path / "tests.json")
    assert json.loads((tmp_path / "tests.json").read_text())["failed_steps"] == ["tests/a.py"]
