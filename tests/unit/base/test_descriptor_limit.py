"""The limit of open files is raised to the hard one; a worker refuses to start with too low a limit and names it."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys

import pytest

from spark_connect_rt.base import descriptor_limit
from spark_connect_rt.base.descriptor_limit import MINIMUM, MOST, RECOMMENDED, open_descriptors, raise_descriptor_limit
from spark_connect_rt.base.exit_codes import EXIT_CODES
from spark_connect_rt.engine.startup.surroundings import require_descriptors
from spark_connect_rt.errors import EXIT_TOO_FEW_FILES, StartupError


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stand in for the system: [soft, hard], to be changed by the test and by the code."""
    found = [1_024, 20_000]

    def change(_: int, wanted: tuple[int, int]) -> None:
        found[:] = wanted

    monkeypatch.setattr(descriptor_limit.resource, "getrlimit", lambda _: tuple(found))
    monkeypatch.setattr(descriptor_limit.resource, "setrlimit", change)
    return found


def test_the_soft_limit_becomes_the_hard_one(limits: list[int]) -> None:
    assert raise_descriptor_limit().soft == 20_000
    assert limits == [20_000, 20_000]


def test_an_unlimited_hard_limit_is_bounded_and_an_unlimited_soft_one_stays(limits: list[int]) -> None:
    limits[:] = [1_024, resource.RLIM_INFINITY]
    assert raise_descriptor_limit().soft == MOST
    limits[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    assert raise_descriptor_limit().soft == MOST
    assert limits == [resource.RLIM_INFINITY, resource.RLIM_INFINITY]


def test_a_system_that_refuses_leaves_the_limit(limits: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(descriptor_limit.resource, "setrlimit", refuse)
    assert raise_descriptor_limit().soft == 1_024


def test_a_worker_does_not_start_with_too_low_a_limit(limits: list[int]) -> None:
    limits[:] = [100, MINIMUM - 1]
    with pytest.raises(
        StartupError, match=rf"may open {MINIMUM - 1} files.*needs at least {MINIMUM}.*LimitNOFILE"
    ) as no:
        require_descriptors()
    assert no.value.exit_code == EXIT_TOO_FEW_FILES
    assert "ulimit" in EXIT_CODES[EXIT_TOO_FEW_FILES]


@pytest.mark.parametrize(("hard", "warnings"), [(MINIMUM, 1), (RECOMMENDED - 1, 1), (RECOMMENDED, 0)])
def test_a_rather_low_limit_is_a_warning(
    limits: list[int], caplog: pytest.LogCaptureFixture, hard: int, warnings: int
) -> None:
    limits[:] = [100, hard]
    with caplog.at_level(logging.WARNING):
        require_descriptors()
    assert len(caplog.messages) == warnings
    assert all(f"may open {hard} files" in message for message in caplog.messages)


def test_a_process_really_raises_its_limit_and_its_children_inherit_it() -> None:
    code = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 600))\n"
        "from spark_connect_rt.base.descriptor_limit import raise_descriptor_limit\n"
        "print(raise_descriptor_limit().soft, os.popen('ulimit -Sn').read().strip())\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.split() == ["600", "600"]


def test_open_files_are_counted() -> None:
    before = open_descriptors()
    with open("/dev/null"):
        after = open_descriptors()
    assert before is not None
    assert after == before + 1
