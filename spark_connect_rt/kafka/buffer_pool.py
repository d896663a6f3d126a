"""Memory for answers, used again: fresh pages cost as much as the bytes that are read into them."""

from __future__ import annotations

KEPT = 12  # what is under way is 16 MiB in answers of 4 MiB, parts of which have been sent, and an answer or two more
ROUNDED_BYTES = 1 << 20
RESTS = 20  # in a row, until what is kept is memory for nothing: a reader has caught up


class BufferPool:
    """Hands out views of buffers; one is free again when no view of it is left. One thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._kept: list[bytearray] = []
        self._rests = 0

    def take(self, size: int) -> memoryview:
        """Return a writable view of so many bytes; what is in them is not said."""
        self._rests = 0
        for number, buffer in enumerate(self._kept):
            if _is_free(buffer):
                if len(buffer) >= size:
                    return memoryview(buffer)[:size]
                del self._kept[number]
                break
        made = bytearray(-(-size // ROUNDED_BYTES) * ROUNDED_BYTES)
        if len(self._kept) < KEPT:
            self._kept.append(made)
        return memoryview(made)[:size]

    def rest(self) -> None:
        """Note that its user waits; after ``RESTS`` of them without a ``take`` nothing is kept."""
        self._rests += 1
        if self._rests >= RESTS:
            self.forget()

    def forget(self) -> None:
        """Keep nothing; what has views left lives as long as they do."""
        self._kept.clear()


def _is_free(buffer: bytearray) -> bool:
    """Tell whether no view of it is left: one that is seen by a view refuses to change its size."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True
