"""The ticket by which a slice's processes find their driver: a small frozen value with a secret.

The secret travels in a file that only the driver's user can read, then inside the pickled partition and writer.
It is never an option, because options show in query plans and in the Spark UI.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson


@dataclass(frozen=True, slots=True)
class SliceTicket:
    """The right to be one slice's reader, writer and committer. Pickles; under 1 KiB."""

    slice_id: int
    token: str
    address: str  # "unix:<path>" or "tcp:<host>:<port>"
    session_timeout_ms: int
    clients: str  # "package.module:factory" of the ExecutorClients
    certificate: str = ""  # the driver's, PEM: a peer that shows another is not it; empty: nothing is encrypted

    def __repr__(self) -> str:
        return f"SliceTicket(slice_id={self.slice_id}, address={self.address!r})"  # no token in logs

    def save(self, path: Path) -> None:
        """Write to ``path``, readable by this user only."""
        path.touch(mode=0o600)
        path.write_bytes(orjson.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> SliceTicket:
        """Return the ticket saved at ``path``."""
        return SliceTicket(**orjson.loads(path.read_bytes()))
