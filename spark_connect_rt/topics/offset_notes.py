"""Changes of offsets that this worker carried out, for those who keep a record of them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spark_connect_rt.topics.offset_changes import OffsetPair

log = logging.getLogger(__name__)

ALTER, RESET, PRUNE = "alter", "reset", "prune"


@dataclass(frozen=True, slots=True)
class OffsetsChanged:
    """All offsets of a connector before and after a change; None: not known. ``key``: of its event."""

    connector: str
    action: str
    before: Sequence[OffsetPair] | None
    after: Sequence[OffsetPair] | None
    key: str = field(default_factory=lambda: f"offsets-{uuid.uuid4().hex[:12]}", compare=False)


class OffsetNotes:
    """Hands changes to at most one listener. Any thread; never raises."""

    def __init__(self) -> None:
        self._listener: Callable[[OffsetsChanged], None] | None = None

    @property
    def is_wanted(self) -> bool:
        """Return whether anyone listens: else nobody needs to know what was before."""
        return self._listener is not None

    def listen(self, listener: Callable[[OffsetsChanged], None]) -> None:
        """Call ``listener`` with every change from now on; it returns at once."""
        self._listener = listener

    def changed(self, change: OffsetsChanged) -> None:
        """Report a change that is durable."""
        if self._listener is None:
            return
        try:
            self._listener(change)
        except Exception:
            log.exception("connector=%s a change of offsets cannot be recorded", change.connector)
