"""What a copy by whole batches cannot pass on these cores: its broker's own CPU, and what two bare sockets take."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass

WRITE_BYTES = 1 << 20
MOVED_BYTES = 1 << 30


@dataclass(frozen=True)
class Costs:
    """CPU s for each GB of values: of a worker and of the broker beside it; ``sockets``: to receive and to send it."""

    worker: float
    broker: float
    sockets: float

    def most_gb_per_s(self, cores: int) -> dict[str, float]:
        """Return what so many cores move at most: by this worker, by one that only moves bytes, by one for nothing."""
        copiers = {"this worker": self.worker, "two bare sockets": self.sockets, "a copier for nothing": 0.0}
        return {words: cores / (self.broker + cost) for words, cost in copiers.items()}


def bound_note(name: str, costs: Costs, cores: int, ours_gb_per_s: float, java_gb_per_s: float) -> str:
    """Say what the cores allow, and how many times Java's rate that is."""
    beside = {words: f"{rate:.2f} ({rate / java_gb_per_s:.1f}x)" for words, rate in costs.most_gb_per_s(cores).items()}
    most = ", ".join(f"{words} {rate}" for words, rate in beside.items())
    return (
        f"{name}: CPU s a GB: worker {costs.worker:.2f}, its broker {costs.broker:.2f}, "
        f"bare sockets {costs.sockets:.2f}; so the most of {cores} cores, GB/s (beside Java's {java_gb_per_s:.3f}): "
        f"{most}; measured {ours_gb_per_s:.2f} ({ours_gb_per_s / java_gb_per_s:.1f}x)"
    )


def socket_cost(moved_bytes: int = MOVED_BYTES) -> dict[str, float]:
    """Return CPU s a GB to send and to receive through loopback, in writes of 1 MiB into memory that is used again."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        used_s = dict[str, float]()
        sender = threading.Thread(target=_send, args=(server.getsockname()[1], moved_bytes, used_s))
        sender.start()
        there, _ = server.accept()
        with there:
            begun, left, room = time.thread_time(), moved_bytes, memoryview(bytearray(WRITE_BYTES))
            while left:
                left -= there.recv_into(room[:left], 0, socket.MSG_WAITALL)
            used_s["receiving_s_per_gb"] = time.thread_time() - begun
        sender.join()
    return {what: round(seconds / (moved_bytes / 1e9), 3) for what, seconds in used_s.items()}


def _send(port: int, left: int, used_s: dict[str, float]) -> None:
    with socket.create_connection(("127.0.0.1", port)) as here:
        begun, given = time.thread_time(), memoryview(bytearray(WRITE_BYTES))
        while left:
            left -= here.send(given[:left])
        used_s["sending_s_per_gb"] = time.thread_time() - begun
