"""Finds the records a sink task refuses: a batch is halved down to them (beyond Java, ``errors.tolerance=all``). Pure.

Every ``put`` of a half is a put of its own, in order: what a task delivered of a batch before it refused the whole is
put again with its half (at-least-once). One bad record in n costs about 2 log2(n) puts.

When one record after the other is refused and none is taken, it is not the records' fault: the task fails, and
nothing of the batch counts as delivered or dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.errors import (
    BadConfigError,
    ConnectError,
    ExternalError,
    FencedError,
    RetriableError,
    ShuttingDownError,
)

Put = Callable[[Sequence[SinkRecord]], None]
NOT_THE_RECORDS_FAULT = (RetriableError, BadConfigError, ExternalError, FencedError, ShuttingDownError)
"""What ``put`` raises without a record to blame: never split."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """One record that ``put`` refused by itself, and with what."""

    record: SinkRecord
    error: Exception


class PutIsolation:
    """Works off one refused batch; after a RetriableError ``run`` goes on where it stopped."""

    def __init__(self, records: Sequence[SinkRecord], error: Exception, most_in_a_row: int, in_a_row: int = 0) -> None:
        """Take a batch that ``put`` refused with ``error``.

        Args:
            most_in_a_row: after so many records refused and none taken between, the fault is elsewhere.
            in_a_row: how many that were before this batch.
        """
        self.refused: list[RefusedRecord] = []
        self.in_a_row = in_a_row
        self._most_in_a_row = most_in_a_row
        self._todo: list[Sequence[SinkRecord]] = []  # next piece last
        self._split(records, error)

    def run(self, put: Put) -> None:
        """Put every half until each record is delivered or in ``refused``.

        Raises what NOT_THE_RECORDS_FAULT names (RetriableError: call again), and ConnectError when too many in a row
        were refused.
        """
        while self._todo:
            piece = self._todo[-1]
            try:
                put(piece)
            except NOT_THE_RECORDS_FAULT:
                raise
            except Exception as error:  # noqa: BLE001 - plug-in code: whatever it throws may be a record's fault
                self._todo.pop()
                self._split(piece, error)
            else:
                self._todo.pop()
                self.in_a_row = 0

    def _split(self, piece: Sequence[SinkRecord], error: Exception) -> None:
        if len(piece) > 1:
            half = len(piece) // 2
            self._todo += [piece[half:], piece[:half]]
            return
        self.in_a_row += 1
        if self.in_a_row > self._most_in_a_row:
            raise ConnectError(
                f"put refused {self.in_a_row} records in a row, one by one, and took none: the fault is not theirs "
                f"(connectrt.errors.put.refusals.max={self._most_in_a_row}); last: {type(error).__name__}: {error}",
                code="CRT-1056",
            ) from error
        self.refused.extend(RefusedRecord(record, error) for record in piece)
