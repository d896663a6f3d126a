from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_connect_rt.cli.session import CommandContext
from tests.support.command_line import Ended, run_command
from tests.support.stand_in_cluster import StandInCluster


@dataclass
class Commands:
    """The command line over a cluster in memory. ``answers``: to questions; empty: nobody sits there."""

    cluster: StandInCluster
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    sleep: Callable[[float], None] | None = None

    def __call__(self, *words: str, input: str = "") -> Ended:
        return run_command(words, self.surroundings(), input)

    def completed(self, line: str) -> list[str]:
        """Return what a bash would offer at the end of a line."""
        shell = {"_CONNECTRT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in shell.items():
                patch.setenv(name, value)
            return run_command([], self.surroundings()).out.split()

    def surroundings(self) -> CommandContext:
        environment = {"CONNECTRT_CONFIG": str(self.folder / "config.json"), "TZ": "UTC", **self.environment}
        return CommandContext(
            environment,
            self.cluster,
            interactive=bool(self.answers),
            now_ms=lambda: 1_790_000_000_000 + int(sum(self.slept) * 1000),
            sleep=self._sleep,
            ask=lambda _: self.answers.pop(0),
        )

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.sleep is not None:
            self.sleep(seconds)


@pytest.fixture
def cluster() -> StandInCluster:
    return StandInCluster()


@pytest.fixture
def connectrt(cluster: StandInCluster, tmp_path: Path) -> Commands:
    return Commands(cluster, tmp_path)
