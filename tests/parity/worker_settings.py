"""Worker settings of every parity run, for Java and for ours alike."""

from __future__ import annotations

SETTINGS = {
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
    "offset.flush.interval.ms": "500",  # the conversations wait for offsets
}
