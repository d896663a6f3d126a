"""``connectrt`` run in this process over the network or over a transport; and the life of a connector led by it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer

from spark_connect_rt.app.cli import cli
from spark_connect_rt.cli.session import CommandContext

NAME = "cli-lines"


@dataclass(frozen=True)
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Return the lines of standard output."""
        return self.out.splitlines()


@cache
def _commands() -> Any:
    return typer.main.get_command(cli)  # built once: it takes a tenth of a second


def run_command(words: Sequence[str], around: CommandContext, input: str = "") -> Ended:
    """Run a command in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch("sys.stdin", io.StringIO(input)), redirect_stdout(out), redirect_stderr(err):
        try:
            _commands().main(list(words), "connectrt", obj=around)
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def commands_at(url: str, folder: Path) -> Callable[..., Ended]:
    """Return a function that runs commands on a worker at ``url``."""
    environment = {"CONNECTRT_CONFIG": str(folder / "config.json"), "CONNECTRT_URL": url}
    around = CommandContext(environment, interactive=False)
    return lambda *words: run_command(words, around)


def lead_through_its_life(connectrt: Callable[..., Ended], folder: Path, *, java: bool) -> None:
    """Lead a file source through its life by commands that use Kafka Connect's own API: any worker can serve them."""

    def done(*words: str) -> Ended:
        ended = connectrt(*words)
        assert ended.code == 0, (words, ended)
        return ended

    lines, config = folder / "in.txt", folder / "lines.yaml"
    lines.write_text("one\ntwo\n")
    config.write_text(
        "name: cli-lines\nconfig:\n  connector.class: FileStreamSource\n  tasks.max: 1\n"
        f"  file: {lines}\n  topic: cli-lines\n  db.password: geheim\n"
    )
    difference = connectrt("diff", "-f", str(config))
    assert (difference.code, "geheim" in difference.out) == (6, False)
    assert "connector cli-lines created" in done("apply", "-f", str(config)).out
    done("wait", NAME, "--timeout", "120")
    assert done("apply", "-f", str(config)).out == "connector cli-lines unchanged\n"
    assert done("get", "connectors", "-l", f"state=RUNNING,type=source,name={NAME}", "-o", "name").out == "cli-lines\n"
    assert done("get", "tasks", NAME, "-o", "name").out == "cli-lines/0\n"
    assert NAME in json.dumps(json.loads(done("get", "workers", "-o", "json").out))
    assert "FileStreamSource" in done("get", "plugins").out
    assert "file (string, high" in done("describe", "plugin", "FileStreamSource").out
    described = done("describe", "connector", NAME).out
    assert "State:      RUNNING" in described
    assert "geheim" not in described
    _offsets(connectrt, done, lines)
    assert done("patch", NAME, "batch.size=10").lines[1] == "  + batch.size = 10"
    assert connectrt("diff", "-f", str(config)).code == 6
    done("pause", "cli-l*")
    done("wait", NAME, "--for", "state=PAUSED", "--timeout", "60")
    done("resume", "-l", "state=PAUSED,name=cli-*")
    done("wait", NAME, "--timeout", "120")
    done("restart", NAME)
    done("wait", NAME, "--timeout", "120")
    done("loggers", "set", "org.apache.kafka.connect.file", "WARN")
    _until(lambda: "WARN" in connectrt("loggers", "get", "org.apache.kafka.connect.file").out)  # by the config topic
    assert connectrt("get", "connectors", "cli-line").code == 4
    assert connectrt("get", "history", NAME).code == (8 if java else 0)
    assert connectrt("create", NAME, "connector.class=FileStreamSource", f"file={lines}", "topic=t").code == 9
    refused = connectrt("create", "bad", "connector.class=FileStreamSource", "tasks.max=x", "--dry-run")
    assert refused.code == 1
    assert "tasks.max" in refused.err
    assert "topic" in refused.err
    assert connectrt("delete", NAME).code == 1
    done("delete", NAME, "--yes")
    done("wait", NAME, "--for", "delete", "--timeout", "30")


def _until(holds: Callable[[], bool], limit_s: float = 30.0) -> None:
    end_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def _offsets(connectrt: Callable[..., Ended], done: Callable[..., Ended], lines: Path) -> None:
    done("stop", NAME)
    done("wait", NAME, "--for", "state=STOPPED", "--timeout", "60")
    wanted = ["--partition", json.dumps({"filename": str(lines)}), "--offset", '{"position": 4}']
    done("offsets", "set", NAME, *wanted, "--yes")
    assert json.loads(done("offsets", "get", NAME, "-o", "json").out)[0]["offset"] == {"position": 4}
    assert "geheim" not in done("offsets", "reset", NAME, "--yes").out
    assert json.loads(done("offsets", "get", NAME, "-o", "json").out) == []
    done("resume", NAME)
    done("wait", NAME, "--timeout", "120")
    assert connectrt("offsets", "set", NAME, *wanted, "--yes").code == 1
