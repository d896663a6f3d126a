"""How a worker's process ends when a part of it has: its own exit code, one line, and no wait for what hangs."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from spark_connect_rt.app.serving import await_end
from spark_connect_rt.base.exit_codes import EXIT_CODES, exit_code_of
from spark_connect_rt.base.supervision import SupervisedPart, Supervisor

CODES = [
    (SupervisedPart.HERDER, 3),
    (SupervisedPart.SPARK, 19),
    (SupervisedPart.GROUP, 24),
    (SupervisedPart.REFUSED, 24),
    (SupervisedPart.ENGINE, 25),
    (SupervisedPart.CHANNEL, 25),
    (SupervisedPart.LOG, 25),
    (SupervisedPart.REST, 25),
]
PROGRAM = """
import threading
from spark_connect_rt.app import serving
from spark_connect_rt.base.supervision import SupervisedPart, Supervisor
serving.END_LIMIT_S = 0.2
threading.Thread(target=threading.Event().wait).start()  # no daemon: an interpreter's end would wait for it
supervisor = Supervisor()
supervisor.failed(SupervisedPart.SPARK, "its JVM ended")
serving.end_failed(supervisor, threading.Event(), 19)
"""


@pytest.mark.parametrize(("part", "code"), CODES)
def test_each_part_has_its_exit_code(part: SupervisedPart, code: int) -> None:
    supervisor = Supervisor()
    supervisor.failed(part, "a bug")
    assert await_end(threading.Event(), threading.Event(), "w", supervisor) == exit_code_of(part) == code
    assert code in EXIT_CODES


def test_a_requested_stop_is_not_a_failure() -> None:
    asked = threading.Event()
    asked.set()
    assert await_end(asked, threading.Event(), "w", Supervisor()) == 0


def test_a_failed_worker_ends_with_one_line_though_its_herder_and_a_thread_hang() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 19
    assert ended.stderr.splitlines()[-1] == (
        "connectrt: the worker ended. Spark: its JVM ended. Look for the cause (memory, kill, the cluster manager) "
        "in Spark's log, then start the worker again."
    )
