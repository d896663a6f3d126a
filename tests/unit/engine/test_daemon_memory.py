"""Threads of one slot share heaps: what one of them freed is not kept from the others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from spark_connect_rt.engine.executor import daemon
if sys.argv[1] == "shared":
    daemon.share_memory()
import pyarrow as pa
together = threading.Barrier(8)
def allocate():
    together.wait()
    kept = [ctypes.create_string_buffer(2000) for _ in range(200)]  # above the size that Python keeps to itself
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, out)
libc.fclose(out)
print(pa.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's heaps")
def test_threads_of_a_slot_have_two_heaps_and_arrow_is_in_them() -> None:
    assert heaps("shared") == (2, "system")
    assert heaps("alone")[0] > 2


def heaps(how: str) -> tuple[int, str]:
    """Return how many heaps a process of eight threads has, and Arrow's allocator."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_ARENA", "ARROW_DEFAULT"))
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60, env=clean
    )
    return done.stdout.count("<heap nr="), done.stdout.split()[-1]
