"""Logs that tests read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.engine.datasource.memory_logs import MemoryLogs, MemoryLogTask


@pytest.fixture
def logs() -> Iterator[dict[str, dict[int, str]]]:
    MemoryLogs.logs |= {"a": {n: f"a{n}" for n in range(10)}, "b": {n: f"b{n}" for n in range(5)}}
    MemoryLogTask.polled = 0
    yield MemoryLogs.logs
    MemoryLogs.logs.clear()
    assert MemoryLogs.started == []
