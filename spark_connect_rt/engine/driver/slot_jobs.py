"""The engine's needs of anything that runs a slice: Spark (slice_runner) or plain threads (testing).

Owns the seam between policy (engine, slot_table) and transport. A slice is one long job with a reader and a writer
half; the engine talks to the reader and receives from both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from spark_connect_rt.engine.executor.control_wire import Message


@dataclass(frozen=True, slots=True)
class SliceConnected:
    """Both halves are up and listen."""

    slice_id: int


@dataclass(frozen=True, slots=True)
class SliceMessage:
    """A half of the slice sent a report over the control channel."""

    slice_id: int
    message: Message


@dataclass(frozen=True, slots=True)
class SliceGone:
    """Nothing of the slice is alive any more, anywhere. ``error`` None: it ended as asked. The last event."""

    slice_id: int
    error: str | None


SliceEvent = SliceConnected | SliceMessage | SliceGone
OnSliceEvent = Callable[[SliceEvent], None]


class SliceHandle(Protocol):
    """One slice, as the engine holds it."""

    def send(self, message: Message) -> None:
        """Send a message to the reader half; dropped when it is gone (SliceGone follows)."""

    def abort(self) -> None:
        """Kill both halves; SliceGone follows once they are certainly dead. Returns at once."""


class SlotLauncher(Protocol):
    """Starts slices and says what becomes of them; the engine knows Spark by this port alone."""

    def open(self, on_event: OnSliceEvent) -> None:
        """Begin; ``on_event`` is called from any thread, in order per slice."""

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Keep the halves alive only while this holds (E5). Before ``open``."""

    def launch(self, slice_id: int) -> SliceHandle:
        """Start a slice; returns at once."""

    def close(self) -> None:
        """Give everything back; every slice is gone already."""


class ReportedTotals:
    """Totals that one slice reported durable, counted where the reports arrive (E4: a slice's books must balance)."""

    def __init__(self) -> None:
        self._by_host: dict[int, tuple[int, int]] = {}

    def count(self, message: Message) -> None:
        """Count a durable report; ignores everything else."""
        if message["op"] == "durable":
            records, batches = self._by_host.get(message["host"], (0, 0))
            self._by_host[message["host"]] = (records + message["n"], batches + 1)

    def differences(self, written: Mapping[int, tuple[int, int]]) -> list[str]:
        """Compare with the writer's own (records, batches) per host; empty when the books balance."""
        return [
            f"host {host}: writer says {written.get(host, (0, 0))} (records, batches), "
            f"driver received {self._by_host.get(host, (0, 0))}"
            for host in sorted(set(written) | set(self._by_host))
            if written.get(host, (0, 0)) != self._by_host.get(host, (0, 0))
        ]
