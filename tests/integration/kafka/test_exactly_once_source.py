"""Exactly-once: killed or frozen in each numbered step of a transaction, nothing is missing and nothing is twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.integration.kafka.exactly_once_child import FENCED_EXIT
from tests.topics import CommittedReader, count_records

ROOT = Path(__file__).resolve().parents[3]
LINES = 50_000
STEPS = ("before begin", "records sent", "offsets sent", "in commit", "committed")
LIMIT_S = 240.0
KINDS = {"columns": {}, "records": {"producer.override.retries": "2147483647"}}  # the setting is librdkafka's
both_kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("lines") / "numbers.txt"
    file.write_text("".join(f"{number:08d}\n" for number in range(LINES)))
    return file


class Task:
    """One task and its topic; every run of it is a process of its own."""

    def __init__(self, broker: EmbeddedKafka, file: Path, kind: str, **connector: str) -> None:
        name = uuid.uuid4().hex[:8]
        self.servers = broker.bootstrap_servers
        self.topic = f"numbers-{name}"
        self._admin = KafkaAdmin({"bootstrap.servers": self.servers})
        self._admin.create_topic(TopicSpec(self.topic, 1, 1))
        self.plan: dict[str, Any] = {
            "servers": self.servers,
            "group": name,
            "topic": self.topic,
            "offsets": f"offsets-{name}",
            "file": str(file),
            "connector": {**connector, **KINDS[kind]},
            "kind": kind,
        }

    def start(self, **plan: Any) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "tests.integration.kafka.exactly_once_child",
            json.dumps({**self.plan, **plan}),
        ]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, **plan: Any) -> tuple[int, str]:
        process = self.start(**plan)
        said, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, said

    def committed(self) -> list[int]:
        """Return every number that a reader of committed data gets, in order."""
        reader = CommittedReader(self.servers, self.topic)
        numbers = [int(value) for _, value in reader.to_end()]
        reader.close()
        return numbers


def plans() -> list[Mapping[str, Any]]:
    """A kill in every step of a process's second transaction; in commit at two moments."""
    found: list[Mapping[str, Any]] = [{"step": step, "nth": 2, "delay_s": 0.0} for step in STEPS]
    return [*found, {"step": "in commit", "nth": 2, "delay_s": 0.002}]


@both_kinds
def test_a_kill_in_any_step_leaves_no_gap_and_no_duplicate(broker: EmbeddedKafka, lines: Path, kind: str) -> None:
    task = Task(broker, lines, kind, **{"transaction.boundary": "interval", "transaction.boundary.interval.ms": "0"})
    progress = [0]
    for plan in plans() if kind == "columns" else plans()[1::2]:  # the way that a setting brings back: every other step
        code, said = task.run(**plan)
        assert code == -signal.SIGKILL, (plan, said)
        numbers = task.committed()
        assert numbers == list(range(len(numbers))), plan
        progress.append(len(numbers))
        assert progress[-1] >= progress[-2]
    assert 0 < progress[-1] < LINES  # the kills were in the middle of it
    code, said = task.run()
    assert code == 0, said
    assert task.committed() == list(range(LINES))
    assert count_records(task.servers, task.topic) > LINES  # what was aborted is there, and nobody sees it


@both_kinds
def test_a_frozen_run_is_fenced_by_the_next_one(broker: EmbeddedKafka, lines: Path, kind: str) -> None:
    task = Task(broker, lines, kind)
    zombie = task.start(step="offsets sent", nth=1, signal=signal.SIGSTOP)
    _, status = os.waitpid(zombie.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    try:
        code, told = task.run()  # takes over, from where nothing of the zombie is committed
        assert code == 0, told
    finally:
        os.kill(zombie.pid, signal.SIGCONT)
    said, _ = zombie.communicate(timeout=LIMIT_S)
    assert zombie.returncode == FENCED_EXIT
    assert f"The producer with transactional id {task.plan['group']}-c-0 is fenced" in said
    assert task.committed() == list(range(LINES))
