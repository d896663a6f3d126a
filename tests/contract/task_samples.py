"""Tasks that the task runner contract runs: importable on executors, steered by their configuration."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.api.records import Delivered, RecordMetadata, SinkRecord, SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, DataError, RetriableError


def note(folder: str, line: str) -> None:
    """Append one line to a folder's notes; atomic between processes."""
    with (Path(folder) / "notes").open("a") as file:
        file.write(line + "\n")


def notes(folder: Path) -> list[str]:
    """Return the lines that the samples have written."""
    path = folder / "notes"
    return path.read_text().splitlines() if path.exists() else []


class _Unprintable:
    """A value no converter can write."""

    def __str__(self) -> str:
        raise TypeError("no text")


class CountingSource(SourceTask):
    """Sends <name>-0 ... <name>-(count-1), ``per.poll`` at a time, and notes its life."""

    def start(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.name, self.folder = config["name"], config["folder"]
        note(self.folder, f"start {self.name} pid {os.getpid()}")
        if config.get("fail") == "start":
            raise ValueError("start fails as told")
        stored = self.context.offset_reader.offsets([{"name": self.name}])[0]
        self.next = stored["next"] if stored else 0

    def poll(self) -> Sequence[SourceRecord] | None:
        count = int(self.config.get("count", "10"))
        if self.config.get("fail") == "retriable" and not (Path(self.folder) / "retried").exists():
            (Path(self.folder) / "retried").touch()
            raise RetriableError("once")
        if self.next >= count:
            return self._at_the_end()
        upto = min(count, self.next + int(self.config.get("per.poll", "5")))
        records = [self._record(n) for n in range(self.next, upto)]
        self.next = upto
        time.sleep(float(self.config.get("pause.s", "0")))
        return records

    def _at_the_end(self) -> None:
        if self.config.get("fail") == "poll":
            raise ValueError("poll fails as told")
        if self.config.get("fail") == "errant":
            self.config = {**self.config, "fail": ""}
            self.context.report_errant("file f line 7 offset 70", ValueError("unreadable"), b"line 7")
        if self.config.get("fail") == "hang":
            note(self.folder, f"hangs {self.name} pid {os.getpid()}")
            time.sleep(float(self.config.get("hang.s", "60")))

    def _record(self, n: int) -> SourceRecord:
        value = _Unprintable() if self.config.get("fail") == "convert" and n == 7 else f"{self.name}-{n}"
        return SourceRecord({"name": self.name}, {"next": n + 1}, "numbers", value=value)

    def idle_wait_ms(self) -> int:
        return 20

    def stop(self) -> None:
        note(self.folder, f"stop {self.name}")


class CommittedSource(CountingSource):
    """Notes the records that the runtime reports as durable."""

    def commit(self) -> None:
        note(self.folder, f"commit {self.name}")
        if self.config.get("fail") == "commit":
            raise ValueError("nor for this")

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        where = "nowhere" if metadata is None else f"{metadata.topic}-{metadata.partition}@{metadata.offset}"
        note(self.folder, f"committed {self.name}-{record.source_offset['next'] - 1} {where}")
        if self.config.get("fail") == "commit":
            raise ValueError("nobody asked for this")


class KillingSource(CountingSource):
    """Ends its process at its second poll, as a fault of a native library would."""

    _polls = 0

    def poll(self) -> list[SourceRecord]:
        self._polls += 1
        if self._polls == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return []


class ToldSource(CountingSource):
    """Notes where its records went."""

    def commit_offsets(self, delivered: Sequence[Delivered]) -> None:
        for delivery in delivered:
            note(
                self.folder,
                f"at {delivery.topic}-{delivery.partition}: {delivery.offset} and {delivery.records} in all",
            )


class CollectingSink(SinkTask):
    """Notes every record and every call."""

    def start(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.folder = config["folder"]
        note(self.folder, f"start pid {os.getpid()}")
        if config.get("fail") == "start":
            raise ValueError("start fails as told")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        note(self.folder, f"open {','.join(map(str, partitions))}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        if self.config.get("fail") == "put":
            raise ValueError("put fails as told")
        if any(record.value == self.config.get("bad") for record in records):
            raise DataError("the target takes no such record")
        if self.config.get("reports"):
            records = self._without_reported(records)
        if self.config.get("fail") == "retriable" and not (Path(self.folder) / "go").exists():
            note(self.folder, "refused")
            raise RetriableError("the target is away")
        if self.config.get("fail") == "hang":
            note(self.folder, "hangs")
            time.sleep(60)
        for record in records:
            note(self.folder, f"put {record.topic}-{record.partition}@{record.offset} {record.value}")

    def _without_reported(self, records: Sequence[SinkRecord]) -> Sequence[SinkRecord]:
        reporter = self.context.errant_record_reporter()
        assert reporter is not None
        reported = [record for record in records if record.value == self.config["reports"]]
        for record in reported:
            reporter.report(record, ValueError("the task gives it up"))
        return [record for record in records if record not in reported]

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        note(self.folder, "flush")

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        note(self.folder, f"close {','.join(map(str, partitions))}")

    def stop(self) -> None:
        note(self.folder, "stop")


class SteeringSink(CollectingSink):
    """Calls its context as configured, when it gets the record ``at``."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        super().open(partitions)
        if "begin.at" in self.config:
            self.context.offset(dict.fromkeys(partitions, int(self.config["begin.at"])))

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records)
        values = [record.value for record in records]
        if self.config.get("at") in values:
            getattr(self, self.config["does"])(records)
        if not records and (Path(self.folder) / "go").exists() and self.paused:
            self.context.resume(*self.paused)
            self.paused = ()

    paused: Sequence[TopicPartition] = ()

    def pause(self, records: Sequence[SinkRecord]) -> None:
        self.paused = (TopicPartition("t", 0),)
        self.context.pause(*self.paused)
        note(self.folder, "paused")

    def rewind(self, records: Sequence[SinkRecord]) -> None:
        self.config = {**self.config, "at": ""}  # once
        self.context.offset({TopicPartition("t", 0): 1})
        note(self.folder, "rewound")

    def again(self, records: Sequence[SinkRecord]) -> None:
        """Refuse once, to be called again a good while sooner or later than by itself."""
        self.config = {**self.config, "at": ""}
        self.context.timeout(int(self.config["timeout"]))
        note(self.folder, "refused")
        raise RetriableError("as told")

    def commit(self, records: Sequence[SinkRecord]) -> None:
        self.context.request_commit()

    def refuse_others(self, records: Sequence[SinkRecord]) -> None:
        try:
            self.context.pause(TopicPartition("another", 7))
        except ConnectError as error:
            note(self.folder, str(error))


class HoldingSink(CollectingSink):
    """Holds every offset back until it has been called by three empty puts."""

    empties = 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records)
        self.empties += not records

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return offsets if self.empties >= 2 else {}


class ForgetfulSink(CollectingSink):
    """Holds records until it is asked for safe offsets.

    With ``fail.at`` among them it loses them all and raises ``error``.

    Once, or ``for.ever``. Notes the records that became safe.
    """

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self.held: list[SinkRecord] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records)
        self.held += records

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        note(self.folder, "asked " + " ".join(f"{partition}@{offset}" for partition, offset in sorted(offsets.items())))
        held, self.held = self.held, []
        if self.config["fail.at"] in [record.value for record in held]:
            if self.config.get("for.ever") != "yes":
                self.config = {**self.config, "fail.at": ""}
            raise {"RetriableError": RetriableError, "ConnectError": ConnectError}.get(
                self.config.get("error", ""), ValueError
            )("the target is full")
        for record in held:
            note(self.folder, f"safe {record.topic}-{record.partition}@{record.offset}")
        return offsets


class LastWordSink(CollectingSink):
    """Holds every offset back until a call failed; then returns all as safe. ``last``: the closing call that fails."""

    failed = False

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        super().open(partitions)
        if f"{partitions[0]}" == self.config.get("refuse.partition"):
            self.failed = True
            raise ConnectError("nothing of this one")

    def put(self, records: Sequence[SinkRecord]) -> None:
        try:
            super().put(records)
        except DataError:
            self.failed = True
            raise

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if not self.failed:
            return {}
        note(self.folder, "asked " + " ".join(f"{partition}@{offset}" for partition, offset in sorted(offsets.items())))
        self._fail_at("pre_commit")
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        super().close(partitions)
        self._fail_at("close")

    def stop(self) -> None:
        super().stop()
        self._fail_at("stop")

    def _fail_at(self, call: str) -> None:
        if self.config.get("last") == call:
            raise ConnectError(f"{call} fails, too")
