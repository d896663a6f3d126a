"""A source of a program in a process of its own, so that it can be killed: ``python -m ... FOLDER``.

``FOLDER/settings.json`` is [kind, executable, config, settings]. What it produces goes to ``FOLDER/produced`` (topic,
id), then its offsets to ``FOLDER/offsets.json``, records first, as in a worker. It ends when a run is over.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.integration.programs.program_runs import LIMIT_S, harness


def run(folder: Path) -> None:
    kind, executable, config, settings = json.loads((folder / "settings.json").read_text())
    without_torn_line(folder / "produced")
    offsets, produced = folder / "offsets.json", (folder / "produced").open("a")
    source = harness(kind, executable, config, settings)
    if offsets.exists():
        for partition, offset in json.loads(offsets.read_text()):
            source.offsets.put(partition, offset)
    with source:
        while True:
            over = not any(task.has_more() for task in source.tasks)
            for record in source.poll():
                print(record.topic, json.loads(record.key or b"{}").get("id"), file=produced)
            produced.flush()
            beside = folder / "offsets.new"
            beside.write_text(json.dumps(source.offsets.all()))
            beside.rename(offsets)
            if over:
                return


def without_torn_line(path: Path) -> None:
    """Cut off half a line that a killed process left: the next one would be written onto it."""
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


class TaskProcess:
    """Runs it, kills it, runs it again."""

    def __init__(self, folder: Path, kind: str, executable: str, config: object, settings: object) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "settings.json").write_text(json.dumps([kind, executable, config, settings]))

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.folder)], env={**os.environ, "STORY": str(self.folder)}
        )

    def counted(self) -> Counter[tuple[str, str]]:
        """Return how often each (topic, id) was produced."""
        path = self.folder / "produced"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return Counter((topic, number) for topic, _, number in (line.partition(" ") for line in lines))

    def kill_at(self, records: int) -> None:
        """Start it, and kill it with SIGKILL once it has produced so many more."""
        before = self.counted().total()
        process = self.start()
        deadline_s = time.monotonic() + LIMIT_S
        while self.counted().total() - before < records:
            assert process.poll() is None, "it ended too soon"
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def run_to_end(self) -> None:
        assert self.start().wait(LIMIT_S) == 0


if __name__ == "__main__":
    run(Path(sys.argv[1]))
