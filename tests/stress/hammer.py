"""The process that calls: ``python -m tests.stress.hammer TABLE SECONDS`` prints call -> how often, as JSON.

Ends with 1 when a call raised what it must not. Its cluster is librdkafka's mock, in this process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from spark_connect_rt.errors import ConnectError
from tests.stress.calls import TABLES, Calls

THREADS = 4
GRACE_S = 60.0
# Freed memory holds other bytes than before, and small objects come from malloc: a use after the end is noticed.
MEMORY = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc"}


def hammered(table: str, seconds: float, environment: dict[str, str]) -> dict[str, int]:
    """Run a table in a process of its own; return call -> how often. Fails where that died, or a call raised."""
    command = [sys.executable, "-m", "tests.stress.hammer", table, str(seconds)]
    run = subprocess.run(
        command,
        env={**environment, **MEMORY},
        capture_output=True,
        text=True,
        timeout=seconds + GRACE_S,
        check=False,
    )
    assert run.returncode == 0, f"{table} ended with {run.returncode}:\n{run.stderr[-4000:]}"
    counts: dict[str, int] = json.loads(run.stdout)
    return counts


class _Hammer:
    def __init__(self, calls: Calls, seconds: float) -> None:
        self._calls = calls.calls
        self._weights = [1 if name in calls.slow else 20 for name in calls.calls]
        self._end_s = time.monotonic() + seconds
        self.counts: Counter[str] = Counter(dict.fromkeys(calls.calls, 0))
        self.failed = False

    def run(self) -> None:
        """Call from all threads, until the time is over."""
        threads = [threading.Thread(target=self._call_all, args=(number,), daemon=True) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _call_all(self, seed: int) -> None:
        order = random.Random(seed)
        names = list(self._calls)
        while time.monotonic() < self._end_s and not self.failed:
            (name,) = order.choices(names, self._weights)
            try:
                self._calls[name](int((self._end_s - time.monotonic()) * 4_000))
            except (ConnectError, KafkaException):
                pass  # a mocked cluster refuses much
            except BaseException:  # noqa: BLE001 - printed, and the process ends with 1
                traceback.print_exc()
                self.failed = True
            self.counts[name] += 1


def main() -> int:
    """Run the table that the command line names."""
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    table, seconds = sys.argv[1], float(sys.argv[2])
    cluster = AdminClient({"test.mock.num.brokers": 3, "bootstrap.servers": "mocked", "log_level": 0})
    with contextlib.closing(_Closing(cluster)):
        brokers = cluster.list_topics(timeout=10).brokers.values()
        hammer = _Hammer(TABLES[table](",".join(f"{broker.host}:{broker.port}" for broker in brokers)), seconds)
        hammer.run()
    sys.stdout.write(json.dumps(hammer.counts))
    return int(hammer.failed)


class _Closing:
    def __init__(self, cluster: AdminClient) -> None:
        self._cluster = cluster

    def close(self) -> None:
        self._cluster.__exit__(None, None, None)


if __name__ == "__main__":
    sys.exit(main())
