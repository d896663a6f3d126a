"""Decisions that keep a table and its topic partitions in step. Pure.

A table stores an offset for each topic partition, and it changes in the same commit as the rows. Three questions
follow, and each has one function here:

- A partition is assigned. Where does reading start? (`resume`)
- A commit is about to be made on a loaded state. May it? (`check`)
- Another writer was faster. How long to wait? (`race_wait_ms`)

No lock, election or group generation is part of the answer. A paused process that wakes up ("zombie") finds other
stored offsets than the ones it read for, and its commit is fenced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import orjson

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.table_port import StoredOffset, WrittenRange
from spark_connect_rt.errors import ExternalError

KEPT_COMMITS = 8
KEPT_INTERVALS = 8
GROUP_LAG_MS = 600_000
"""For how long an offset that the group had before a commit is remembered. A worker commits the offsets of a group each
`offset.flush.interval.ms`, so the group is behind the table for about that long."""
FIRST_WAIT_MS, LONGEST_WAIT_MS = 50, 5_000
_MORE_LOSSES = 16  # more do not lengthen the wait


class ResumeReason(Enum):
    """Why a partition is read from where it is read."""

    FIRST = "the table holds nothing of this partition"
    IN_STEP = "the table and the consumer group have the same offset"
    TABLE_AHEAD = "the table holds records whose offsets the group had not committed"
    GROUP_AHEAD = "the consumer group is ahead: the records between have no rows, or the group was moved"
    GROUP_REWOUND = "the consumer group was reset to an earlier offset"
    OTHER_TOPIC = "the topic was deleted and created again"
    ROLLED_BACK = "the table was rolled back to an earlier snapshot"


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where to read a partition.

    Attributes:
        expected: the stored offset that commits of this partition replace.
        start: the first offset to write. Earlier records are in the table.
        reason: why.
    """

    expected: StoredOffset | None
    start: int
    reason: ResumeReason


def resume(
    stored: StoredOffset | None, position: int, topic_id: str | None, refill_from: int | None = None
) -> ResumePoint:
    """Return where to read a partition.

    Args:
        stored: the offset that the table stores.
        position: where the consumer group stands. -1: it has no committed offset.
        topic_id: id of the topic that is there now. None if the brokers do not tell it.
        refill_from: the offset below which a rollback of the table left rows, if the others are to be written again.
    """
    if stored is None:
        return ResumePoint(None, position, ResumeReason.FIRST)
    if _is_other_topic(stored.topic_id, topic_id):
        return ResumePoint(stored, position, ResumeReason.OTHER_TOPIC)
    if refill_from is not None and refill_from < stored.end:
        return ResumePoint(stored, refill_from, ResumeReason.ROLLED_BACK)
    if position == stored.end:
        return ResumePoint(stored, position, ResumeReason.IN_STEP)
    if position > stored.end:
        return ResumePoint(stored, position, ResumeReason.GROUP_AHEAD)
    if any(first <= position <= last for first, last, _ in stored.group_at):
        return ResumePoint(stored, stored.end, ResumeReason.TABLE_AHEAD)
    return ResumePoint(stored, position, ResumeReason.GROUP_REWOUND)


def _is_other_topic(known: str | None, now: str | None) -> bool:
    return None not in (known, now) and known != now


class CommitVerdict(Enum):
    """What to do with a commit on a loaded state."""

    WRITE = "write"
    LANDED = "landed"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict on a commit. `fenced` names the partitions whose stored offset is not the expected one."""

    verdict: CommitVerdict
    fenced: frozenset[TopicPartition] = frozenset()


def check(
    stored: Mapping[TopicPartition, StoredOffset], ranges: Mapping[TopicPartition, WrittenRange], commit_id: str
) -> Check:
    """Return whether a commit may be made on a state that stores `stored`, or is already part of it.

    All ranges of a commit land together, so a single partition that knows the commit id is enough for LANDED.
    """
    if any(commit_id in stored[place].commits for place in ranges if place in stored):
        return Check(CommitVerdict.LANDED)
    fenced = frozenset(place for place, part in ranges.items() if not _is_expected(stored.get(place), part.expected))
    return Check(CommitVerdict.FENCED, fenced) if fenced else Check(CommitVerdict.WRITE)


def is_surely_absent(
    stored: Mapping[TopicPartition, StoredOffset], ranges: Mapping[TopicPartition, WrittenRange], commit_id: str
) -> bool:
    """Return whether a commit is proven not to be part of a state: only then its data files may be deleted.

    A table keeps the ids of the last `KEPT_COMMITS` commits of a partition. A task that was paused for longer does not
    find its own id, although its rows are in the table. The proof is a partition that still knows the commit before,
    because then it knows all later ones, too. All ranges of a commit land together, so a single partition is enough.
    """
    return any(
        part.expected is not None
        and place in stored
        and part.expected.commits[-1:] != ()
        and part.expected.commits[-1] in stored[place].commits
        and commit_id not in stored[place].commits
        for place, part in ranges.items()
    )


def _is_expected(stored: StoredOffset | None, expected: StoredOffset | None) -> bool:
    if stored is None or expected is None:
        return stored is expected
    # The commit ids rule out that offsets came back to the same number after a reset (ABA).
    return (stored.end, stored.topic_id, stored.commits) == (expected.end, expected.topic_id, expected.commits)


def stored_after(part: WrittenRange, commit_id: str, now_ms: int, group_lag_ms: int = GROUP_LAG_MS) -> StoredOffset:
    """Return what the table stores of a partition once a commit with `part` is visible.

    Args:
        now_ms: the time of day.
        group_lag_ms: for how long offsets of the group before this commit are remembered.
    """
    before = part.expected or StoredOffset(part.start)
    group_at = before.group_at
    if part.start < before.end or _is_other_topic(before.topic_id, part.topic_id):
        group_at = ()  # after a reset, the older offsets say nothing about the group
    elif group_at and group_at[-1][0] == part.start:
        group_at = group_at[:-1]  # its end is known now
    first_row = part.start if part.first_row is None else max(part.start, part.first_row)
    recent = [interval for interval in group_at if now_ms - interval[2] <= group_lag_ms]
    return StoredOffset(
        part.end,
        part.topic_id if part.topic_id is not None else before.topic_id,
        (*before.commits, commit_id)[-KEPT_COMMITS:],
        _bounded([*recent, (part.start, first_row, now_ms), (part.end, part.end, now_ms)]),
    )


def _bounded(intervals: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Return at most `KEPT_INTERVALS`: the oldest become a wider interval, so that none of their offsets is lost."""
    while len(intervals) > KEPT_INTERVALS:
        (first, _, _), (_, last, time_ms), *rest = intervals
        intervals = [(first, last, time_ms), *rest]
    return tuple(intervals)


def truncate_refusal(
    place: TopicPartition,
    topics: Collection[str],
    partitions: int | None,
    stored: Collection[TopicPartition],
    *,
    is_routed: bool,
) -> str | None:
    """Return why a truncate of a topic partition cannot be applied to a table. None: it can.

    A truncate removes all rows. It has no order against other partitions, so their rows may be older or newer.

    Args:
        topics: that the connector reads. Empty: any that match a pattern.
        partitions: how many the topic has. None: unknown.
        stored: the partitions of this connector whose rows the table has.
        is_routed: whether a field of each record decides its table.
    """
    if is_routed:
        return "iceberg.tables.route-field is set, and a truncate does not name the rows of one route"
    if len(topics) != 1:
        return "the connector reads several topics into the table. Give each topic its own table"
    if partitions is None:
        return f"the number of partitions of {place.topic} is not known"
    if partitions != 1:
        return (
            f"{place.topic} has {partitions} partitions, and a truncate has no order against changes in the others. "
            "Use a topic with one partition"
        )
    others = sorted(str(other) for other in stored if other != place)
    if others:
        return f"the table also has rows of {', '.join(others)}"
    return None


def race_wait_ms(losses: int, won_last: bool, chance: float) -> int:
    """Return how long to wait before the next commit on a table that several tasks write, ms.

    Args:
        losses: races that this commit has lost so far.
        won_last: whether this task made the table's last commit. It then lets others go first.
        chance: a random number from 0 up to, not including, 1.
    """
    if losses <= 0:
        return int(FIRST_WAIT_MS * chance) if won_last else 0
    widest = min(LONGEST_WAIT_MS, FIRST_WAIT_MS << min(losses, _MORE_LOSSES))
    return int(widest * (0.5 + chance / 2))


def commit_wait_ms(interval_ms: int, tasks: int, is_first: bool, chance: float) -> int:
    """Return how long a task gathers rows before it commits them, at most the commit interval, ms.

    Tasks of one table start together. If they also committed together, all but the fastest would lose the race, each
    time. So the first commits of tasks are spread over the whole interval. The later ones move by up to a quarter, and
    two tasks that meet once do not meet again.

    Args:
        tasks: how many tasks may write the table. A single task always waits the whole interval.
        is_first: whether the task has not committed since its start.
        chance: a random number from 0 up to, not including, 1.
    """
    if tasks <= 1:
        return interval_ms
    return max(1, int(interval_ms * (1 - chance if is_first else 1 - chance / 4)))


# Stored offsets as the text of a table property. Adapters with properties store this text as it is.

PROPERTY_PREFIX = "connectrt.offset."


def property_name(connector: str, branch: str | None, place: TopicPartition) -> str:
    """Return the name of the property that holds a partition's stored offset.

    `branch` is None for the main branch. A connector's name may contain dots, so names are read back with
    `offsets_of_properties`, which knows the connector.
    """
    return f"{_prefix(connector, branch)}{place.topic}.{place.partition}"


def _prefix(connector: str, branch: str | None) -> str:
    return f"{PROPERTY_PREFIX}{len(connector)}.{connector}@{branch or ''}:"


def offset_text(stored: StoredOffset) -> str:
    """Return a stored offset as JSON text."""
    fields = {"end": stored.end, "topic": stored.topic_id, "commits": stored.commits, "group": stored.group_at}
    return orjson.dumps({name: value for name, value in fields.items() if value}).decode()


def parse_offset(text: str, name: str) -> StoredOffset:
    """Return the stored offset of a property. Raises ExternalError for text that this program did not write."""
    try:
        fields = orjson.loads(text)
        return StoredOffset(
            int(fields.get("end", 0)),
            fields.get("topic"),
            tuple(str(commit) for commit in fields.get("commits", ())),
            tuple((int(first), int(last), int(time_ms)) for first, last, time_ms in fields.get("group", ())),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ExternalError(
            f"table property {name}: {text!r} is not a stored offset. Remove the property to start this partition "
            "from the offset of the consumer group."
        ) from error


def offsets_of_properties(
    properties: Mapping[str, str], connector: str, branch: str | None
) -> dict[TopicPartition, StoredOffset]:
    """Return the stored offsets of a connector and branch. Raises ExternalError as `parse_offset`."""
    prefix = _prefix(connector, branch)
    found = {}
    for name, text in properties.items():
        if name.startswith(prefix):
            topic, _, partition = name.removeprefix(prefix).rpartition(".")
            found[TopicPartition(topic, int(partition))] = parse_offset(text, name)
    return found


def other_writers(properties: Mapping[str, str], connector: str, branch: str | None) -> dict[str, set[str]]:
    """Return which other connectors have stored offsets in the table for this branch: name -> topics."""
    others: dict[str, set[str]] = {}
    for name in properties:
        length, dot, rest = name.removeprefix(PROPERTY_PREFIX).partition(".")
        if not name.startswith(PROPERTY_PREFIX) or not dot or not length.isdigit():
            continue
        writer, written, topic = rest[: int(length)], *rest[int(length) + 1 :].partition(":")[::2]
        if (writer, written) != (connector, branch or "") and written == (branch or ""):
            others.setdefault(writer, set()).add(topic.rpartition(".")[0])
    return others
