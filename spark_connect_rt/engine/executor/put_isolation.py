"""Finds the records a sink task refuses: a batch is halved down to them (beyond Java, ``errors.tolerance=all``). Pure.

Every ``put`` of a half is a put of its own, in order: what a task delivered of a batch before it refused the whole is
put again with its half (at-least-once). One bad record in n costs about 2 log2(n) puts.

Only a DataError blames records. Whatever else ``put`` raises is a fault of the target, the settings or the task: it
fails the task, as every error of ``put`` does in Java (``WorkerSinkTask.deliverMessages``), and no record is
dead-lettered. So an outage never makes dead letters, however the sink reports that its retries are used up.

When one record after the other is refused and none is taken, it is not the records' fault: the task fails, and
nothing of the batch counts as delivered or dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError

Put = Callable[[Sequence[SinkRecord]], None]


def blames_records(error: BaseException) -> bool:
    """Return whether an error of ``put`` means that a record is to blame, so that its batch may be halved.

    True for a DataError, unless it was raised ``from`` a RetriableError or an ExternalError: what was retriable does
    not become a record's fault when the retries are used up.
    """
    if not isinstance(error, DataError):
        return False
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, RetriableError | ExternalError):
            return False
        cause = cause.__cause__
    return True


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

        Raises what ``put`` raises without blaming a record (RetriableError: call again), and ConnectError when too many
        in a row were refused.
        """
        while self._todo:
            piece = self._todo[-1]
            try:
                put(piece)
            except DataError as error:
                if not blames_records(error):
                    raise
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
                f"put rejected {self.in_a_row} single records in a row and accepted none, so the records are not "
                f"the cause (connectrt.errors.put.refusals.max={self._most_in_a_row}). Last error: "
                f"{type(error).__name__}: {error}",
                code="CRT-1056",
            ) from error
        self.refused.extend(RefusedRecord(record, error) for record in piece)
