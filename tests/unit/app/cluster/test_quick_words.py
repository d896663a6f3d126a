"""What is read without the command line's library means what that library would read."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
import typer

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.entry import QUICK
from spark_connect_rt.app.quick_commands import QUICK_WORDS, read_line, run_quickly
from tests.support.stand_in_cluster import StandInCluster
from tests.unit.app.cluster.conftest import Commands


def option_parameters(word: str) -> dict[str, Any]:
    command = typer.main.get_command(cli).commands[word]  # type: ignore[attr-defined]
    found = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    return {option: parameter for parameter in found for option in parameter.opts if option != "--help"}


@pytest.mark.parametrize("word", sorted(QUICK_WORDS))
def test_options_and_defaults_are_those_of_the_command_line(word: str) -> None:
    quick, whole = QUICK_WORDS[word], option_parameters(word)
    assert {**{option: name for option, (name, _) in quick.options.items()}, **quick.switches} == {
        option: parameter.name for option, parameter in whole.items()
    }
    assert {option for option, parameter in whole.items() if parameter.is_flag} == set(quick.switches)
    defaults = {parameter.name: parameter.default for parameter in whole.values()}
    of_every_word = {"context": None, "url": None} | ({"note": None} if "note" in defaults else {})
    assert {**quick.defaults, **of_every_word} == defaults


def test_the_entry_knows_the_quick_words() -> None:
    assert frozenset(QUICK_WORDS) == QUICK


@pytest.mark.parametrize(
    "line",
    [
        "get connectors",
        "get c orders -o json",
        "get connectors -l state=RUNNING --output=name",
        "get tasks orders/0 --limit 5",
        "get connectors nope",
        "get pods",
        "get connectors --context nope",
        "describe connector orders",
        "describe orders -o yaml",
        "describe task orders/0",
        "describe pod x",
        "pause orders",
        "pause orders --note OPS-1 --dry-run",
        "resume -l state=RUNNING",
        "stop --all --dry-run",
        "stop",
        "restart --failed --dry-run",
        "restart orders/1 --dry-run",
        "wait orders --for connector=running --timeout 0",
        "wait orders --for colour=red",
        "logs orders --tail 5",
    ],
)
def test_a_line_ends_as_it_does_by_the_whole_command_line(
    cluster: StandInCluster, connectrt: Commands, line: str
) -> None:
    cluster.add("orders", tasks="RF")
    whole = connectrt(*line.split())
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_quickly(line.split(), connectrt.surroundings())
    assert (code, out.getvalue(), err.getvalue()) == (whole.code, whole.out, whole.err)


def test_a_note_reaches_the_history_of_changes(cluster: StandInCluster, connectrt: Commands) -> None:
    cluster.add("orders")
    assert run_quickly(["pause", "orders", "--note", "OPS-7"], connectrt.surroundings()) == 0
    assert cluster.headers[-1]["x-connectrt-note"] == "OPS-7"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "delete x",
        "wait",
        "wait x --timeout -1",
        "logs",
        "logs a b",
        "logs a --tail 0",
        "get",
        "get --help",
        "get connectors -o xml",
        "get connectors -o",
        "get connectors -ojson",
        "get connectors --limit 0",
        "get connectors --interval -1",
        "get connectors --watch=yes",
        "get connectors --colour",
        "get connectors -- -o",
        "describe",
        "describe a b c",
    ],
)
def test_other_lines_are_left_to_the_whole_command_line(line: str) -> None:
    assert run_quickly(line.split()) is None


def test_completion_is_left_to_the_whole_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CONNECTRT_COMPLETE", "complete_bash")
    assert run_quickly(["get", "connectors"]) is None


def test_options_are_read() -> None:
    line = "connectors a --watch -l x=y b --interval=7 --url http://h"
    assert read_line(QUICK_WORDS["get"], line.split()) == (
        ["connectors", "a", "b"],
        {**QUICK_WORDS["get"].defaults, "watch": True, "selection": "x=y", "interval": 7.0, "url": "http://h"},
    )
