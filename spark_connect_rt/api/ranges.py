"""Source connectors over logs: their records have numbers, and what lies between two numbers can be read again.

A reader of such a connector need not poll to know where a batch ends: it asks for ranges, and has them read elsewhere.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.connector import SourceConnector, SourceOffset


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Records of one source partition: those of number ``first`` and behind, before ``end``. Numbers may have none."""

    partition: Mapping[str, Any]
    first: int
    end: int | None  # None: all that is there, and what comes while it is read
    topic: str | None = None  # that all of them go to, before any transformation; None: not known
    topic_partition: int | None = None  # the same
    log_id: str | None = None  # another one when the log is not the one of before, in spite of its name; None: unknown


class RangeSourceConnector(SourceConnector):
    """A source connector whose offsets are numbers of records. Its tasks can be given what to read."""

    @abstractmethod
    def ranges(self, stored: Sequence[SourceOffset], since_ms: int | None = None) -> list[SourceRange]:
        """Return what each source partition holds now behind its stored offset; ``end`` is always a number.

        Without a stored offset, or where the log does not have that place, it begins where a task would.
        ``since_ms``: records before the first one of this time, or later, are left out. Called while it is started.
        Raises ConnectError: the source cannot be asked.
        """

    def absent(self) -> list[str]:
        """Return what the configuration names and the source does not have, as texts for a message. None by default.

        A batch read is refused with them. A task or a stream waits for them. Called while the connector is started.
        """
        return []

    def may_lose(self, *, recreated: bool) -> bool:
        """Tell whether a stream goes on where records behind its position are gone. It ends with an error by default.

        ``recreated``: the log is another one; its own records are all read then.
        """
        return False

    @abstractmethod
    def range_tasks(self, ranges: Sequence[SourceRange], max_tasks: int) -> list[dict[str, str]]:
        """Split ranges into at most ``max_tasks`` task configurations.

        Such a task begins where its ranges do, whatever is stored, polls nothing else, and ``has_more`` until their
        ends. It raises DataError when the log has lost a range meanwhile.
        """

    @abstractmethod
    def number_behind(self, offset: Mapping[str, Any]) -> int:
        """Return the first number that a task resuming at a source offset reads. Raises ConnectError: it is none."""

    @abstractmethod
    def offset_before(self, number: int) -> Mapping[str, Any] | None:
        """Return the source offset of a task that goes on at a number; None: it begins."""
