"""The tutorial on the first connector: its commands are run, in order, and show what the page shows."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.development.dev_loop import DevLoop, DevOptions
from spark_connect_rt.app.development.project import Project
from spark_connect_rt.cli.terminal import Terminal
from tests.support.code_blocks import Block, blocks_of, commands_in

PAGE = Path(__file__).parents[4] / "docs/tutorial/first_connector.md"


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Block]]:
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield blocks_of(PAGE)
    sys.path[:] = path
    for name in ("orders", "test_orders"):
        sys.modules.pop(name, None)


def shown(block: Block) -> None:
    """Run a block's ``connectrt`` command and compare its output with what follows it."""
    (command,) = commands_in(block)
    words = shlex.split(command.line)
    assert words[0] == "connectrt"
    done = CliRunner().invoke(cli, words[1:])
    assert done.exit_code == 0, done.output
    assert done.output == command.output


def test_the_tutorial_shows_what_its_commands_do(blocks: list[Block]) -> None:
    _install, new, dev, code, failure = blocks[:5]
    shown(new)
    shown(dev)
    source = Path("orders/orders.py")
    edits = iter([with_function(source.read_text(), code.text), None])
    out = io.StringIO()

    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds
        text = next(edits, "")
        if text == "":
            raise KeyboardInterrupt
        source.write_text(text or source.read_text().replace("len(words)", "5"))

    loop = DevLoop(Project(Path("orders/connector.json")), DevOptions(), Terminal({}, out), wait, lambda: clock[0])
    assert loop.run() == 0
    first, second, third = re.split(r"(?=^--- )", out.getvalue(), flags=re.MULTILINE)[:3]
    assert first.count("@") == 3
    assert second.count("@") == 4
    assert "hello tea" in second
    assert third[: len(failure.text)].splitlines() == failure.text.splitlines()
    source.write_text(source.read_text().replace("range(position, 5)", "range(position, len(words))"))
    assert [name for name, passes in own_tests().items() if not passes] == [
        "test_entries_become_records",
        "test_a_restart_continues_behind_the_last_record",
    ]


def with_function(source: str, function: str) -> str:
    """Return a module with its ``read_entries`` replaced."""
    return re.sub(r"^def read_entries.*?(?=^class )", f"{function}\n\n", source, flags=re.MULTILINE | re.DOTALL)


def own_tests() -> dict[str, bool]:
    """Run the tests of the project; return whether each passes."""
    sys.modules.pop("orders", None)
    names: dict[str, Any] = {"__name__": "test_orders"}
    exec(compile(Path("orders/test_orders.py").read_text(), "test_orders.py", "exec"), names)
    passes = {}
    for name, test in names.items():
        if name.startswith("test_"):
            try:
                test()
            except AssertionError:
                passes[name] = False
            else:
                passes[name] = True
    return passes
