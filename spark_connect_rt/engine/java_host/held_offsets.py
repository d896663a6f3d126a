"""A batch's offsets, held back until the next batch is on its way behind it.

Owns when the offsets of a Java source that is no exactly-once source go out. Several records of one offset may come in
two polls: Debezium makes of a moved primary key a delete, a tombstone and an insert, each at the change's place in the
log, and takes all of them for sent once that offset is stored. Java Connect stores offsets a minute apart, so what
follows has long been sent; here they go out behind each batch, and a kill between the two polls lost the insert. So did
a poll that failed: what Debezium had ready is gone then, and it starts again from the offsets that are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from spark_connect_rt.engine.executor.hosted_source import SourceOutput
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourceOffsets

HOLD_S = 0.25  # behind the last batch, when nothing follows
FAILED_HOLD_S = 60.0  # when a poll failed behind it: as long as Java Connect has by default
_NOTHING = pa.RecordBatch.from_arrays([], names=[])


class HeldOffsets:
    """Batches and offsets of one task, on their way to its output. The task's thread."""

    def __init__(self, output: SourceOutput, add_row: Callable[[], None], clock: Callable[[], float] = time.monotonic):
        """Hold nothing yet.

        Args:
            output: takes the batches.
            add_row: is called before a row of offsets alone is sent.
            clock: seconds.
        """
        self._output, self._add_row, self._clock = output, add_row, clock
        self._held: SourceOffsets = ()
        self._until_s = 0.0

    def send(self, converted: ConvertedBatch) -> None:
        """Send a batch with the offsets of those before it; its own are held. May raise what the output raises."""
        if converted.source_offsets:
            given, self._held = self._held, converted.source_offsets
            self._until_s = self._clock() + HOLD_S
            converted = replace(converted, source_offsets=given)
        self._output.send(converted)

    def poll_failed(self) -> None:
        """Hold what is held for longer: the connector may begin again there, though records before it are missing."""
        self._until_s = self._clock() + FAILED_HOLD_S

    def wait_s(self) -> float | None:
        """Return in how many seconds to call ``release``; None: nothing is held."""
        return max(0.0, self._until_s - self._clock()) if self._held else None

    def release(self, *, at_once: bool = True) -> None:
        """Send what is held, if its time has come or ``at_once``: nothing follows it."""
        if self._held and (at_once or self._clock() >= self._until_s):
            given, self._held = self._held, ()
            self._add_row()
            self._output.send(ConvertedBatch(_NOTHING, given, 0, 0, ()))
