"""The commands of a run: what they name exists, and another Spark's run is of its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite import other_spark
from tests.suite.result_file import ROOT
from tests.suite.steps import BY_ITSELF, ELSEWHERE, OLDEST_SPARK, RUNS, Run, again, on_spark

OTHER = on_spark("/env/bin/python", other_spark.variables(Path("/env/bin/python")))


def named(run: Run) -> list[str]:
    words = [word for stage in run.stages for lane in stage for step in lane for word in step.command]
    return [word.removeprefix("--ignore=") for word in words if word.removeprefix("--ignore=").startswith("tests/")]


@pytest.mark.parametrize("run", [*RUNS.values(), OTHER], ids=[*RUNS, "spark"])
def test_tests_named_by_a_run_exist(run: Run) -> None:
    assert named(run)
    for name in named(run):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert f"def {test}" in ((ROOT / path).read_text() if test else f"def {test}"), name


def test_the_run_of_another_spark_is_of_its_environment_and_its_second_try_too() -> None:
    commands = [step.command for stage in OTHER.stages for lane in stage for step in lane]
    assert {command[0] for command in [*commands, again(("a",), "/env/bin/python").command]} == {"/env/bin/python"}
    assert OTHER.environment["PATH"].startswith("/env/bin:")
    assert OTHER.environment["CONNECTRT_VENV"] == "/env"


def test_every_whole_run_has_the_oldest_spark() -> None:
    (step,) = OLDEST_SPARK
    assert step in [other for stage in RUNS["all"].stages for lane in stage for other in lane]
    assert step.command[3] == other_spark.LINES[0] == "4.0"


def test_tests_that_a_whole_run_leaves_out_of_a_lane_run_in_another() -> None:
    commands = [step.command for stage in RUNS["all"].stages for lane in stage for step in lane]
    assert [name for name in ELSEWHERE if sum(name in command for command in commands) != 1] == []


def test_nothing_runs_next_to_the_tests_whose_limits_are_seconds() -> None:
    (stage,) = [
        stage for stage in RUNS["all"].stages if any(BY_ITSELF in step.command for lane in stage for step in lane)
    ]
    assert [len(lane) for lane in stage] == [1]
