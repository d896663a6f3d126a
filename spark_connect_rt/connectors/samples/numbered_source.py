"""A source whose records are numbered: what VerifiableSource and SchemaSource have in common.

Partition ``{"id": task}``, offset ``{"seqno": last number sent}``, as Java's: either continues the other's work.
"""

from __future__ import annotations

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
from spark_connect_rt.connectors.samples.pacing import records_allowed, wait_for_next_ms
from spark_connect_rt.errors import ConnectError

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
