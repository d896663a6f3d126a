"""Where acknowledged records went, as runs of neighbouring offsets: a few numbers for a whole batch."""

from __future__ import annotations

from spark_connect_rt.api.records import Delivered


class DeliveryRuns:
    """Takes one record after the other; keeps the order within each partition. One thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._runs: dict[tuple[str, int], list[list[int]]] = {}  # -> [first offset, offset behind the last]

    def note(self, topic: str, partition: int, offset: int) -> None:
        """Add a record."""
        runs = self._runs.get((topic, partition))
        if runs is None:
            self._runs[topic, partition] = [[offset, offset + 1]]
        elif runs[-1][1] == offset:
            runs[-1][1] = offset + 1
        else:
            runs.append([offset, offset + 1])

    def take(self) -> list[Delivered]:
        """Return all there are and start anew."""
        taken, self._runs = self._runs, {}
        return [Delivered(*place, first, end - first) for place, runs in taken.items() for first, end in runs]
