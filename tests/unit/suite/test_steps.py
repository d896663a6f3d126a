"""The commands of a run: what they name exists, and another Spark's run is of its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite import other_spark
from tests.suite.result_file import ROOT
from tests.suite.steps import OLDEST_SPARK, RUNS, Run, again, on_spark

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
