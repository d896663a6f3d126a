"""The partitions of sink runs: read from where, given up when, and answered once for each time they were revoked.

Owns what a run has to know of its partitions, and the deadline of letting go. Called only on the engine's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.driver.loop import Loop
from spark_connect_rt.engine.driver.model import Phase, Run
from spark_connect_rt.engine.executor.control_wire import Message, encode_offsets
from spark_connect_rt.engine.task_runner import PartitionsReleased


class RunPartitions:
    """What is assigned to runs, and what they have to release."""

    def __init__(
        self,
        loop: Loop,
        send: Callable[[Run, Message], None],
        emit: Callable[[PartitionsReleased], None],
        condemn: Callable[[Run], None],
    ) -> None:
        """``send`` reaches the run's host if it has one; ``condemn`` ends a hosting that does not let go in time."""
        self._loop = loop
        self._send = send
        self._emit = emit
        self._condemn = condemn

    def assign(self, run: Run, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a run read these partitions from there, now or when it is hosted."""
        run.positions.update(offsets)
        if run.phase is Phase.HOSTED:
            self._send(run, {"op": "assign", "offsets": encode_offsets(offsets)})

    def revoke(self, run: Run, partitions: Sequence[TopicPartition], timeout_ms: int) -> None:
        """Have a run let go of partitions; its hosting is condemned when it has not in time."""
        for partition in partitions:
            run.positions.pop(partition, None)
        unanswered = run.revocations.add(partitions)
        if run.host is None:
            self.release(run, partitions)
        elif run.phase is Phase.HOSTED:
            pairs = [(tp.topic, tp.partition) for tp in partitions]
            self._send(run, {"op": "revoke", "partitions": pairs})
        if unanswered:
            self._loop.later(timeout_ms, lambda: self._unreleased(run, unanswered))

    def _unreleased(self, run: Run, unanswered: Collection[TopicPartition]) -> None:
        """Kill the hosting of a run that cannot let go of its partitions: another task is about to write them."""
        if unanswered:
            self._condemn(run)

    def release(self, run: Run, partitions: Sequence[TopicPartition]) -> None:
        """Tell the worker that a run has let go of these."""
        if partitions:
            run.revocations.answered(partitions)
            self._emit(PartitionsReleased(run.task, run.launch.run, frozenset(partitions)))

    def release_all(self, run: Run) -> None:
        """Answer every open revocation of a run that is hosted nowhere."""
        for partitions in run.revocations.unanswered():
            self.release(run, partitions)
