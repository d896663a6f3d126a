"""The command line over the real application of two in-memory workers: no socket, no stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_connect_rt.cli.session import CommandContext
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from tests.support.app_transport import AppTransport
from tests.support.command_line import Ended, run_command
from tests.unit.rest.test_over_herders import QUICK, Workers
from tests.unit.runtime.cluster_stories import source

Run = Callable[..., Ended]


@pytest.fixture
def workers() -> Iterator[Workers]:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        yield Workers(cluster, "w1", "w2")
        faults.clear()


@pytest.fixture
def connectrt(workers: Workers, tmp_path: Path) -> Run:
    follower = workers.peers.apps[f"{workers.named(leads=False)}:8083"]  # what it cannot do it forwards
    around = CommandContext({"CONNECTRT_CONFIG": str(tmp_path / "c.json")}, AppTransport(follower), interactive=False)
    return lambda *words: run_command(words, around)


def test_connectors_are_applied_steered_and_pruned(workers: Workers, connectrt: Run, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps({"name": name, "config": source(tasks=2)}))
    assert connectrt("apply", "-f", str(folder)).code == 0
    assert connectrt("wait", "a", "b", "--timeout", "20").code == 0
    assert connectrt("get", "tasks", "-o", "name").lines == ["a/0", "a/1", "b/0", "b/1"]
    assert connectrt("stop", "a").code == 0
    assert connectrt("wait", "a", "--for", "state=STOPPED", "--timeout", "20").code == 0
    (folder / "b.json").unlink()
    ended = connectrt("apply", "-f", str(folder), "--prune", "--yes")
    assert ended.out.endswith("connector b deleted\n")
    assert connectrt("wait", "b", "--for", "delete", "--timeout", "20").code == 0
    ended = connectrt("create", "c", "connector.class=MemorySource", "tasks.max=none")
    assert ended.code == 1
    assert "tasks.max" in ended.err
    assert "hint" not in ended.err
    assert connectrt("restart", "nope").code == 4
