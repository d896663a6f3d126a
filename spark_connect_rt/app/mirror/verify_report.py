"""The report of ``connectrt mirror verify``: partitions and groups, their verdicts, as rows and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from spark_connect_rt.app.mirror.verify_rules import Compared, FailOver
from spark_connect_rt.base.ids import TopicPartition

PARTITION_COLUMNS = ("partition", "source", "target", "compared", "same", "not copied yet", "wrong")
GROUP_COLUMNS = ("group", "failing over now", "lost", "of these not copied yet", "repeated")


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition of the source and its copy. ``target`` None: there is no such topic or partition there."""

    partition: TopicPartition
    remote: TopicPartition
    source: range  # the offsets that are there
    target: range | None
    position: int | None  # source offset of the last record that has surely been copied
    compared: Compared | None  # None: nothing was
    note: str = ""


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """Where a group is: at the source, and where it would resume at the target (None: nothing is known there)."""

    partition: TopicPartition
    upstream: int
    downstream: int | None
    outcome: FailOver | None


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group; ``is_active``: it is being used at the target already, so it is not for us to judge."""

    group: str
    partitions: Sequence[GroupPartition]
    is_active: bool = False

    @property
    def outcome(self) -> FailOver:
        """Return the sums over the partitions that could be compared."""
        met = [partition.outcome for partition in self.partitions if partition.outcome is not None]
        lost, late = sum(fail_over.lost for fail_over in met), sum(fail_over.not_copied_yet for fail_over in met)
        return FailOver(lost, late, sum(fail_over.repeated for fail_over in met))

    @property
    def unknown(self) -> list[TopicPartition]:
        """Return the partitions without an offset at the target: auto.offset.reset decides there."""
        return [partition.partition for partition in self.partitions if partition.downstream is None]

    @property
    def is_safe(self) -> bool:
        """Return whether it loses nothing."""
        return self.is_active or not (self.outcome.lost or self.unknown)

    @property
    def verdict(self) -> str:
        """Return the sentence about it."""
        if self.is_active:
            return "is already used at the target"
        outcome, unknown = self.outcome, self.unknown
        if unknown:
            return f"has no offset at the target for {len(unknown)} partitions, where auto.offset.reset decides"
        if outcome.lost:
            return f"would lose {outcome.lost} records"
        return f"would repeat {outcome.repeated} records" if outcome.repeated else ("would resume exactly where it was")


@dataclass(frozen=True, slots=True)
class FlowReport:
    """Everything found out about one flow."""

    flow: str
    partitions: Sequence[PartitionReport]
    groups: Sequence[GroupReport] = field(default_factory=tuple)

    @property
    def is_good(self) -> bool:
        """Return whether what was copied is right and no group would lose anything by failing over now."""
        return all(group.is_safe for group in self.groups) and all(
            partition.compared is None or partition.compared.is_right for partition in self.partitions
        )

    @property
    def records(self) -> int:
        """Return how many records were compared."""
        return sum(partition.compared.records for partition in self.partitions if partition.compared is not None)

    @property
    def verdict(self) -> str:
        """Return the sentence about it. It is good only when something was compared."""
        if not self.is_good:
            return "NOT good"
        left = sum(partition.compared is None for partition in self.partitions)
        if self.records:
            return f"good, {left} of {len(self.partitions)} partitions were not compared" if left else "good"
        if not self.partitions:
            return "nothing compared: the source has no topic that the flow copies"
        return "nothing compared. See the reason below, and compare with --full"


def partition_rows(report: FlowReport) -> list[tuple[str, ...]]:
    """Return a row for each partition."""
    return [_partition_row(partition) for partition in report.partitions]


def group_rows(report: FlowReport) -> list[tuple[str, ...]]:
    """Return a row for each group."""
    return [
        (
            group.group,
            group.verdict,
            *map(str, (group.outcome.lost, group.outcome.not_copied_yet, group.outcome.repeated)),
        )
        for group in report.groups
    ]


def as_json(report: FlowReport) -> dict[str, Any]:
    """Return the same as one JSON document."""
    return {
        "flow": report.flow,
        "good": report.is_good and bool(report.records),
        "records_compared": report.records,
        "partitions": [_partition_json(partition) for partition in report.partitions],
        "groups": [_group_json(group) for group in report.groups],
    }


def _partition_row(report: PartitionReport) -> tuple[str, ...]:
    compared = report.compared or Compared()
    wrong = {name: count for name, count in _wrong(compared).items() if count}
    return (
        str(report.partition),
        _span(report.source),
        "-" if report.target is None else _span(report.target),
        report.note or ("-" if report.compared is None else "yes"),
        str(compared.same),
        str(compared.not_copied_yet),
        ", ".join(f"{count} {name}" for name, count in wrong.items()) or "-",
    )


def _wrong(compared: Compared) -> Mapping[str, int]:
    return {"missing": compared.missing, "foreign": compared.foreign, "out of order": compared.out_of_order}


def _span(offsets: range) -> str:
    return f"{offsets.start}..{offsets.stop}"


def _partition_json(report: PartitionReport) -> dict[str, Any]:
    return {
        "topic": report.partition.topic,
        "partition": report.partition.partition,
        "remote_topic": report.remote.topic,
        "source": {"begin": report.source.start, "end": report.source.stop},
        "target": None if report.target is None else {"begin": report.target.start, "end": report.target.stop},
        "copied_to": report.position,
        "compared": None if report.compared is None else asdict(report.compared),
        "note": report.note,
    }


def _group_json(report: GroupReport) -> dict[str, Any]:
    return {
        "group": report.group,
        "verdict": report.verdict,
        "safe": report.is_safe,
        **asdict(report.outcome),
        "partitions": [
            {
                "topic": part.partition.topic,
                "partition": part.partition.partition,
                "upstream": part.upstream,
                "downstream": part.downstream,
            }
            for part in report.partitions
        ],
    }
