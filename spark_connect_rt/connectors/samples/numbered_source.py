"""A source whose records are numbered: the common part of VerifiableSource and SchemaSource.

Partition ``{"id": task}``, offset ``{"seqno": last number sent}``, as Java's: either continues the other's work.
"""

from __future__ import annotations

import math
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.java_hash_order import in_java_hash_order
from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import ConnectError

# How many records a test source may have sent by now (Java ``ThroughputThrottler``). Pure.


LONGEST_WAIT_MS = 100
HANDOVER_MS = 500  # between handovers at low rates: each costs 5 to 6 ms of CPU time, however few its records
_SOON_MS, _SOON_RECORDS = 100, 1_000  # so many records are worth a handover sooner, but not before 100 ms


def records_allowed(throughput: float, elapsed_ms: int) -> int | None:
    """Return how many records may be sent in the first ``elapsed_ms``; None: any number.

    The first is sent at once. ``throughput`` is records/s: 0 sends no second one, below 0 is unlimited.
    """
    return None if throughput < 0 else 1 + int(throughput * max(0, elapsed_ms) / 1000)


def wait_for_next_ms(throughput: float, elapsed_ms: int, sent: int) -> int:
    """Return how long to wait before another record is allowed, ms: at least 1, at most ``LONGEST_WAIT_MS``."""
    if throughput <= 0:
        return LONGEST_WAIT_MS if throughput == 0 else 1
    due_ms = int(sent * 1000 / throughput) - elapsed_ms
    return min(LONGEST_WAIT_MS, max(1, due_ms))


def wait_for_handover_ms(throughput: float, elapsed_ms: int, sent: int, handed_ms: int, most: int) -> int:
    """Return how long to wait until records are worth a poll's costs, in ms: 0 if they are due now, at most 500.

    A poll costs the same for 1 record as for 50. Records therefore wait until ``HANDOVER_MS`` have passed since the
    last handover, or until 1,000 records are due and 100 ms have passed, or until ``most`` records are due. The rate
    over time stays exact.

    Args:
        throughput: records/s, as of ``records_allowed``.
        sent: the records handed over so far.
        handed_ms: ``elapsed_ms`` of the last handover. A value of -500 or less means: none yet.
        most: how many records one poll may return.
    """
    if throughput < 0:
        return 0
    if throughput == 0:
        return HANDOVER_MS if sent else 0
    first_ms, last_ms = (math.ceil((sent + more) * 1000 / throughput) for more in (0, max(0, most - 1)))
    apart_ms = min(HANDOVER_MS, max(_SOON_MS, int(_SOON_RECORDS * 1000 / throughput)))
    due_ms = min(last_ms, max(first_ms, handed_ms + apart_ms))
    return min(HANDOVER_MS, max(0, due_ms - elapsed_ms))


NAME, ID, TOPIC, THROUGHPUT, SEQNO = "name", "id", "topic", "throughput", "seqno"
RECORDS_PER_POLL = 500


def wall_clock_ms() -> int:
    """Return the time, ms since the epoch."""
    return time.time_ns() // 1_000_000


def say(fields: Mapping[str, Any]) -> None:
    """Print one line of JSON to standard output, as Jackson prints a HashMap."""
    say_line(encode_json(in_java_hash_order(fields)).decode())


def say_line(line: str) -> None:
    """Print a line to standard output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def integer(config: Mapping[str, str], name: str, task: str) -> int:
    """Return a setting as a number. Raises ConnectError naming the setting: it is missing, or none."""
    try:
        return int(config[name])
    except (KeyError, ValueError):
        raise ConnectError(f"Invalid {task} configuration: {name} is {config.get(name)!r}, not a number") from None


class NumberedSourceConnector(SourceConnector):
    """As many tasks as are asked for, each given its number as ``id``; there are no declared settings."""

    def config_def(self) -> ConfigDef:
        """Declare nothing, as Java does."""
        return ConfigDef()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task, with its number."""
        return [{**self.config, ID: str(task)} for task in range(max_tasks)]


class NumberedSourceTask(SourceTask):
    """Sends record after record at ``throughput`` records/s, from the number after the stored one."""

    clock: Callable[[], int] = staticmethod(wall_clock_ms)

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings and the stored number. Raises ConnectError."""
        kind = type(self).__name__
        self.name = config.get(NAME)
        self.id = integer(config, ID, kind)
        self.topic = str(config.get(TOPIC))
        self._throughput = integer(config, THROUGHPUT, kind)
        stored = self.context.offset_reader.offsets([{ID: self.id}])[0]
        self.seqno = 0 if stored is None else int(stored[SEQNO]) + 1
        self._sent, self._began_ms = 0, self.clock()

    def poll(self) -> Sequence[SourceRecord]:
        """Return the records that are due, at most ``RECORDS_PER_POLL``."""
        allowed = records_allowed(self._throughput, self.clock() - self._began_ms)
        room = RECORDS_PER_POLL if allowed is None else min(RECORDS_PER_POLL, allowed - self._sent)
        left = self.left()
        records = [self._next() for _ in range(room if left is None else min(room, left))]
        self._sent += len(records)
        return records

    def _next(self) -> SourceRecord:
        record = self.record()
        self.seqno += 1
        return record

    def idle_wait_ms(self) -> int:
        """Return when the next record is due."""
        if self.left() == 0:
            return 100
        return wait_for_next_ms(self._throughput, self.clock() - self._began_ms, self._sent)

    def has_more(self) -> bool | None:
        """Return False once the last of a limited number of records is sent, until then None."""
        return False if self.left() == 0 else None

    def stop(self) -> None:
        """There is nothing to close."""

    def left(self) -> int | None:
        """Return how many records are still to be sent in this run; None: there is no end."""
        return None

    @property
    def sent(self) -> int:
        """How many records this run has returned by earlier polls."""
        return self._sent

    @abstractmethod
    def record(self) -> SourceRecord:
        """Return record number ``self.seqno``, and print what it is."""
