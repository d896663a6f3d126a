"""Singer and Airbyte on Spark: programs of a worker's tasks, the processes they run in, and what arrives of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import orjson
import psutil

from tests.integration.programs.program_runs import KINDS, sample_program
from tests.support.connect_rest import ConnectRest
from tests.support.numbered_lines import create_topics
from tests.topics import count_records, read_values

ROWS = 3_000


class ProgramConnectors:
    """A source of each kind, of the same sample program; their topics are ``<kind>.orders``."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.program = sample_program(folder)
        self._servers = bootstrap_servers
        create_topics(bootstrap_servers, [f"{kind}.orders" for kind in KINDS])
        self._config = json.dumps({"streams": ["orders"], "rows": ROWS, "pause_s": 0.002})

    def create(self, rest: ConnectRest) -> None:
        for kind in KINDS:
            rest.create(
                f"programs-{kind}",
                {
                    "connector.class": f"{kind.capitalize()}Source",
                    "topic": f"{kind}.${{stream}}",
                    f"{kind}.executable": self.program,
                    f"{kind}.config": self._config,
                    f"{kind}.retry.backoff.ms": "10",
                    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                    "value.converter.schemas.enable": "false",
                },
            )

    def delete(self, rest: ConnectRest) -> None:
        for kind in KINDS:
            rest.delete(f"programs-{kind}")

    def records(self, kind: str) -> int:
        return count_records(self._servers, f"{kind}.orders")

    def count(self, kind: str) -> Counter[int]:
        """Return how often each row is in the topic."""
        values = read_values(self._servers, f"{kind}.orders", self.records(kind))
        return Counter(orjson.loads(value or b"")["id"] for value in values)

    def are_whole(self) -> bool:
        return all(self.count(kind).keys() == set(range(1, ROWS + 1)) for kind in KINDS)

    def running(self) -> list[psutil.Process]:
        """Return the programs that run, without the guards in front of them."""
        found = psutil.process_iter(["cmdline"])
        words = {process: process.info["cmdline"] or [] for process in found}
        return [process for process, line in words.items() if self.program in line and "guard.py" not in " ".join(line)]

    def kill_programs(self) -> None:
        for process in self.running():
            process.kill()

    def kill_slots(self) -> None:
        """Kill the processes of Spark that host the tasks: a program's guard is a child of its task's process."""
        for owner in {process.parents()[1] for process in self.running()}:
            owner.kill()
