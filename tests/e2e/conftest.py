"""One table of the times that the stories took, at the end of the run's output; an environment with the wheel."""

from __future__ import annotations

import venv
import zipfile
from pathlib import Path

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
        terminalreporter.section("times and counts")
        for story, line in rows:
            terminalreporter.write_line(f"{story:<26} {line}")


@pytest.fixture(scope="session")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory, wheel: Path, python_without_the_package: Path) -> Path:
    """The python of an environment of its own with the wheel in it; dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (others,) = python_without_the_package.parents[1].glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text((others / "dependencies.pth").read_text())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return folder / "bin" / "python"
