"""When a record fails on its way: try again, skip and count, or fail (Java ``RetryWithToleranceOperator``).

Pure: time and waiting are handed in; without them a RetriableError is not tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from spark_connect_rt.api.records import ConsumeRow, SourceRecord
from spark_connect_rt.config.error_config import ERRORS
from spark_connect_rt.errors import ConnectError, DataError, RetriableError
from spark_connect_rt.records.pipeline.errant_records import Errant, Stage, StageError

R = TypeVar("R", ConsumeRow, SourceRecord)
T = TypeVar("T")

FIRST_RETRY_MS = 300
INFINITE = -1


@dataclass(frozen=True, slots=True)
class Waiting:
    """How to wait between attempts: a clock, and a wait that answers False when the task is to end."""

    now_ms: Callable[[], int]
    wait_ms: Callable[[int], bool]


class RetryInterrupted(Exception):
    """The wait between attempts ended early: the record is neither converted nor errant, it will be read again."""


def backoff_ms(attempt: int, delay_max_ms: int) -> int:
    """Return the wait after failed attempt ``attempt`` (from 1): 300 ms doubled each time, at most ``delay_max_ms``."""
    return min(FIRST_RETRY_MS << min(attempt - 1, 32), delay_max_ms)


class RetryTolerance(Generic[R]):
    """Runs the record's path under ``errors.*`` of one connector."""

    def __init__(self, config: Mapping[str, str], describe: Callable[[R], str], waiting: Waiting | None = None) -> None:
        """Take ``errors.tolerance``, ``errors.retry.timeout``, ``errors.retry.delay.max.ms``.

        Args:
            describe: names a record: topic, partition, offset, source partition.
        """
        values = ERRORS.parse(config)
        self.tolerates_all: bool = values["errors.tolerance"].lower() == "all"
        self._timeout_ms: int = values["errors.retry.timeout"]
        self._delay_max_ms: int = values["errors.retry.delay.max.ms"]
        self._describe: Callable[[R], str] = describe
        self._waiting = waiting
        self._errants: list[Errant] = []

    def run(self, path: Callable[[R], T], record: R) -> T | None:
        """Return what ``path`` makes of the record, None when it was given up.

        Raises:
            DataError: tolerance is none; names stage and place.
            RetryInterrupted: the task is to end. (Java gives such a record up, and its offset with it.)
        """
        attempt, began_ms = 0, None
        while True:
            try:
                return path(record)
            except StageError as failure:
                attempt += 1
                error = failure.__cause__ or failure
                if self._waiting is not None and isinstance(error, RetriableError):
                    began_ms = self._waiting.now_ms() if began_ms is None else began_ms
                    if self._waits(self._waiting, attempt, began_ms):
                        continue
                self._give_up(record, failure.stage, error, failure.plugin)
                return None

    def _waits(self, waiting: Waiting, attempt: int, began_ms: int) -> bool:
        delay_ms = backoff_ms(attempt, self._delay_max_ms)
        if self._timeout_ms != INFINITE:
            left_ms = began_ms + self._timeout_ms - waiting.now_ms()
            if left_ms <= 0:
                return False
            delay_ms = min(delay_ms, left_ms)
        if not waiting.wait_ms(delay_ms):
            raise RetryInterrupted
        return True

    def _give_up(self, record: R, stage: Stage, error: BaseException, plugin: type[Any]) -> None:
        self.give_up(Errant(self._describe(record), stage, error, plugin, record))

    def give_up(self, errant: Errant) -> None:
        """Note an errant record. Raises DataError: tolerance is none; the record is noted all the same, as in Java."""
        self._errants.append(errant)
        if not self.tolerates_all:
            error, stage = errant.error, errant.stage.value
            reason = str(error) if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"
            raise DataError(f"{errant.place}: {stage} failed: {reason}", stage=stage) from error

    def take_errants(self) -> tuple[Errant, ...]:
        """Return the records given up since the last call, the one that failed the task among them."""
        errants = tuple(self._errants)
        self._errants.clear()
        return errants
