"""Parts of a commit: rows that one task has written to files, and that any task of its connector may commit. Pure.

From the fifth task on, the tasks that append to a table do not commit one after another. Each writes its data files and
offers them as a part, and one task commits all parts in one snapshot per interval. Three questions follow:

- What does a part say, as text in a file? (`encode_part`, `decode_part`)
- Which parts may be in a commit on a loaded state? (`choose_parts`)
- Which task commits them, and when? (`CommitTurns`)

The answer to the third one saves commits and is never needed for correctness. Every part states the stored offsets that
it was made for, and each task that commits checks them on the state that its commit names. So two tasks that commit at
once, or a task that wakes up after a long pause, change nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.guard import CommitVerdict, check, offset_text, parse_offset
from spark_connect_rt.connectors.lakehouse.table_port import StoredOffset, WrittenRange
from spark_connect_rt.errors import ConnectError, DataError

PART_SUFFIX = ".part1.json"
"""The end of a part's name. Its number is the version of the text, and tasks ignore parts of other versions."""
LONGEST_GATHERING_MS = 15_000
_GATHERING_SHARE = 4  # of the interval
_LEAST_POLL_MS = 20


@dataclass(frozen=True, slots=True)
class CommitPart:
    """Rows in data files that no snapshot names yet, and the offsets that they stand for.

    Attributes:
        part_id: unique text. The table stores it with the offsets, so that the task finds its part in the table.
        table_id: the table that the files were written for.
        ranges: the records of the part.
        after: the offsets that the table stores of these partitions once the part is visible.
        files: descriptions of the data files, as `LoadedTable.pack` returns them.
    """

    part_id: str
    table_id: str
    ranges: Mapping[TopicPartition, WrittenRange]
    after: Mapping[TopicPartition, StoredOffset]
    files: Sequence[Mapping[str, Any]]


def part_name(writer_id: str, part_id: str) -> str:
    """Return the name of a part's file. Names of one writer are next to each other in the order of names."""
    return f"{writer_id}-{part_id}{PART_SUFFIX}"


def writer_of(name: str) -> str:
    """Return the writer in the name of a part's file."""
    return name.partition("-")[0]


def encode_part(part: CommitPart) -> bytes:
    """Return a part as JSON."""
    places = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "expected": None if found.expected is None else offset_text(found.expected),
            "start": found.start,
            "end": found.end,
            "topicId": found.topic_id,
            "firstRow": found.first_row,
            "after": offset_text(part.after[place]),
        }
        for place, found in sorted(part.ranges.items())
    ]
    return orjson.dumps({"id": part.part_id, "table": part.table_id, "places": places, "files": list(part.files)})


def decode_part(content: bytes, name: str) -> CommitPart:
    """Return the part of a file. Raises DataError for a file that is not complete yet, or has another form."""
    try:
        fields = orjson.loads(content)
        ranges, after = {}, {}
        for at in fields["places"]:
            place = TopicPartition(at["topic"], at["partition"])
            expected = None if at["expected"] is None else parse_offset(at["expected"], name)
            ranges[place] = WrittenRange(expected, at["start"], at["end"], at["topicId"], at["firstRow"])
            after[place] = parse_offset(at["after"], name)
        return CommitPart(fields["id"], fields["table"], ranges, after, fields["files"])
    except (ValueError, KeyError, TypeError, ConnectError) as error:
        raise DataError(f"{name}: not a part of a commit: {error}") from error


@dataclass(frozen=True, slots=True)
class ChosenParts:
    """Which parts to commit.

    Attributes:
        accepted: names of parts that hold on the state. No two of them have a topic partition in common.
        finished: names of parts that are in the table, or that its guard fences now and later.
    """

    accepted: tuple[str, ...] = ()
    finished: frozenset[str] = frozenset()


def choose_parts(
    stored: Mapping[TopicPartition, StoredOffset],
    table_id: str,
    parts: Mapping[str, CommitPart],
    taken: Collection[TopicPartition] = (),
) -> ChosenParts:
    """Return which parts may be in a commit on a state that stores `stored`.

    Args:
        table_id: the table of the state. A part of another table of the same name is finished.
        parts: by name. Earlier names are preferred where two tasks wrote the same partition.
        taken: partitions that are in the commit anyway. A part with any of them waits, and is fenced afterwards.
    """
    accepted, finished, held = list[str](), set[str](), set(taken)
    for name in sorted(parts):
        part = parts[name]
        verdict = check(stored, part.ranges, part.part_id).verdict
        if part.table_id != table_id or verdict is not CommitVerdict.WRITE:
            finished.add(name)
        elif held.isdisjoint(part.ranges):
            accepted.append(name)
            held |= part.ranges.keys()
    return ChosenParts(tuple(accepted), frozenset(finished))


def rival_parts(parts: Mapping[str, CommitPart], places: Collection[TopicPartition]) -> list[str]:
    """Return the names of parts that have any of these partitions."""
    return [name for name, part in parts.items() if not part.ranges.keys().isdisjoint(places)]


def rank_of(names: Collection[str], writer_id: str) -> int:
    """Return how many other writers with a part come before this one."""
    return sum(other < writer_id for other in {writer_of(name) for name in names})


@dataclass(frozen=True, slots=True)
class CommitTurns:
    """When tasks offer their parts, and when each of them commits all parts if no other task did. Durations in ms.

    Collections are at the same times of day for all tasks, an interval apart. A task offers its part some time before,
    the gathering. At the collection, the first writer commits, and the others see their parts in the table. If it does
    not commit, the second writer does so a gathering later, and each further one soon after. All have had their turn
    before the next gathering.

    Attributes:
        interval_ms: between two collections.
        phase_ms: shifts the collections, so that tables are not committed at the same moment.
    """

    interval_ms: int
    phase_ms: int = 0

    @property
    def gathering_ms(self) -> int:
        """How long before a collection tasks offer their parts."""
        return max(1, min(self.interval_ms // _GATHERING_SHARE, LONGEST_GATHERING_MS))

    @property
    def poll_ms(self) -> int:
        """How long a task waits before it looks again whether its part is in the table."""
        return max(_LEAST_POLL_MS, self.gathering_ms // 4)

    def offer_wait_ms(self, now_ms: int) -> int:
        """Return the time until the next gathering begins, at most an interval. `now_ms` is the time of day."""
        return self.interval_ms - (now_ms - self.phase_ms + self.gathering_ms) % self.interval_ms

    def collection_wait_ms(self, now_ms: int) -> int:
        """Return the time until the next collection, less than an interval. `now_ms` is the time of day."""
        return (self.phase_ms - now_ms) % self.interval_ms

    def turn_ms(self, rank: int) -> int:
        """Return how long after a collection a writer commits, if `rank` writers with parts come before it."""
        return self.gathering_ms * 3 * rank // (rank + 2)
