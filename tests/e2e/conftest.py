"""One table of the times that the stories took, at the end of the run's output."""

from __future__ import annotations

import pytest

TIMES = pytest.StashKey[list[tuple[str, str]]]()


class Times:
    """``times.note("kill -9", "lines flow again", "11.2 s")``."""

    def __init__(self, config: pytest.Config) -> None:
        self._rows = config.stash.setdefault(TIMES, [])

    def note(self, story: str, what: str, value: object) -> None:
        """Keep one figure for the table."""
        self._rows.append((story, f"{what}: {value}"))


@pytest.fixture(scope="session")
def times(pytestconfig: pytest.Config) -> Times:
    return Times(pytestconfig)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(TIMES, [])
    if rows:
        terminalreporter.section("several workers: times and counts")
        for story, line in rows:
            terminalreporter.write_line(f"{story:<26} {line}")
