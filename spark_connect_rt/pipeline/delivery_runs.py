"""Where acknowledged records went, as runs of neighbouring offsets: a few numbers for a whole batch."""

from __future__ import annotations

from spark_connect_rt.api.records import Delivered


class DeliveryRuns:
    """Takes records as they are acknowledged; keeps the order within each partition. One thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._runs: dict[tuple[str, int], list[list[int]]] = {}  # -> [first offset, offset behind the last]

    def note(self, topic: str, partition: int, offset: int, records: int = 1) -> None:
        """Add a record, or several from this offset on."""
        runs = self._runs.get((topic, partition))
        if runs is None:
            self._runs[topic, partition] = [[offset, offset + records]]
        elif runs[-1][1] == offset:
            runs[-1][1] = offset + records
        else:
            runs.append([offset, offset + records])

    def take(self) -> list[Delivered]:
        """Return all there are and start anew."""
        taken, self._runs = self._runs, {}
        return [Delivered(*place, first, end - first) for place, runs in taken.items() for first, end in runs]
