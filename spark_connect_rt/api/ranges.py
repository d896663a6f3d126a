"""Source connectors over logs: their records have numbers, and the records of a range of numbers can be read again.

A reader of such a connector need not poll to find the end of a batch: it asks for ranges, and has them read elsewhere.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.connector import SourceConnector, SourceOffset


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Records of one source partition with numbers from ``first`` up to, but without, ``end``.

    Numbers may have gaps.
    """

    partition: Mapping[str, Any]
    first: int
    end: int | None  # None: all records so far, and those that arrive during the read
    topic: str | None = None  # that all of them go to, before any transformation; None: not known
    topic_partition: int | None = None  # the same
    log_id: str | None = None  # another one when the log is not the one of before, in spite of its name; None: unknown


class RangeSourceConnector(SourceConnector):
    """A source connector whose offsets are numbers of records. A caller can give its tasks the records to read."""

    @abstractmethod
    def ranges(self, stored: Sequence[SourceOffset], since_ms: int | None = None) -> list[SourceRange]:
        """Return the range that each source partition holds now after its stored offset; ``end`` is always a number.

        A range begins where a task would if there is no stored offset or the log no longer has it. ``since_ms``: leave
        out the records before the first one of this time or later. Called while the connector is started.
        Raises ConnectError: the source cannot be asked.
        """

    def absent(self) -> list[str]:
        """Return names in the configuration that the source does not have, as texts for a message. None by default.

        A batch read is rejected with them. A task or a stream waits for them. Called while the connector is started.
        """
        return []

    def may_lose(self, *, recreated: bool) -> bool:
        """Return whether a stream continues when records after its position are gone. By default it ends with an error.

        ``recreated``: the log was replaced by another one. The stream then reads all of the new log's records.
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
        """Return the number of the first record that a task resuming at a source offset reads.

        Raises ConnectError: the offset is invalid.
        """

    @abstractmethod
    def offset_before(self, number: int) -> Mapping[str, Any] | None:
        """Return the source offset from which a task resumes at a number. None: the task starts at the beginning."""
