"""What a sink task was put and is not yet reported as durable, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PutCounts:
    """Of one task. The lane's thread."""

    records: int = 0
    data_bytes: float = 0.0
    skipped: int = 0  # tolerated errant records, given up before the put

    def add(self, counts: tuple[int, int], data_bytes: float) -> None:
        """Count a put: records and skipped ones, and the bytes that held them."""
        self.records += counts[0]
        self.skipped += counts[1]
        self.data_bytes += data_bytes

    def forget_records(self) -> None:
        """They are read again."""
        self.records, self.data_bytes = 0, 0.0

    def take(self, reported: int) -> dict[str, int]:
        """Return the fields of a report, once; ``reported``: of the records, by the task itself as errant."""
        records = max(0, self.records - reported) if reported else self.records
        fields = {"records": records, "bytes": round(self.data_bytes), "skipped": self.skipped + reported}
        self.records, self.data_bytes, self.skipped = 0, 0.0, 0
        return fields
