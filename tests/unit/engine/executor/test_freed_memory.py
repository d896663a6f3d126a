"""Memory that work has freed goes back to the system: when, and that it does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from spark_connect_rt.engine.executor.freed_memory import AT_REST_BYTES, AT_WORK_APART_S, AT_WORK_BYTES, FreedMemory

START = 100 << 20


class Process:
    """A process that holds ``used`` bytes and keeps ``free`` ones."""

    def __init__(self) -> None:
        self.used, self.free, self.returns, self.now_s, self.moved = START, 0, 0, 0.0, 0
        self.memory = FreedMemory(lambda: self.used + self.free, self._give_back)

    def _give_back(self) -> None:
        self.returns, self.free = self.returns + 1, 0

    def second(self, *, works: bool) -> int:
        """Pass a second; return how often memory was given back so far."""
        self.now_s += 1.0
        self.moved += works
        self.memory.look(self.now_s, self.moved)
        return self.returns


def test_nothing_is_done_where_nothing_has_grown() -> None:
    process = Process()
    process.free = AT_REST_BYTES - 1
    assert [process.second(works=False), process.second(works=True), process.second(works=False)] == [0, 0, 0]


def test_memory_of_a_burst_is_returned_once_when_it_is_over() -> None:
    process = Process()
    process.free = AT_REST_BYTES
    assert process.second(works=True) == 0
    assert [process.second(works=False) for _ in range(5)] == [1] * 5
    process.used += AT_REST_BYTES  # in use: to ask for it once more is no use
    assert process.second(works=False) == 2
    assert [process.second(works=works) for works in (True, False, True, False)] == [2] * 4


def test_memory_in_use_during_a_return_under_load_is_returned_at_rest() -> None:
    process = Process()
    process.used, process.free = START + AT_REST_BYTES, AT_WORK_BYTES
    assert process.second(works=True) == 1
    process.used, process.free = START, AT_REST_BYTES
    assert process.second(works=False) == 2


def test_under_load_much_goes_back_now_and_then() -> None:
    process = Process()
    returned = []
    for _ in range(8):
        process.free = AT_WORK_BYTES
        returned.append(process.second(works=True))
    assert returned[-1] == 8 / AT_WORK_APART_S


def test_under_load_usage_is_asked_less_and_less() -> None:
    process = Process()
    for _ in range(600):
        process.used += AT_WORK_BYTES
        process.second(works=True)
    assert process.returns < 600 / AT_WORK_APART_S / 10


PROGRAM = """
import ctypes
from spark_connect_rt.engine.executor.daemon import share_memory
share_memory()
from spark_connect_rt.engine.executor.freed_memory import FreedMemory, resident
memory, before = FreedMemory(), resident()
kept, freed = [], []
for _ in range(600):
    freed.append(ctypes.create_string_buffer(100_000))
    kept.append(ctypes.create_string_buffer(4_000))  # between them: more than imports that compile left free
for one in freed:
    one[:] = b"x" * len(one)
del one
freed.clear()
grown = resident() - before
memory.look(1.0, 0)
print(grown >> 20, (resident() - before) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's heaps")
def test_glibc_gives_back_what_lies_between_memory_in_use() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "ARROW_DEFAULT"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60, env=clean
    )
    grown, left = map(int, done.stdout.split())
    assert grown > 50
    assert left < 10
