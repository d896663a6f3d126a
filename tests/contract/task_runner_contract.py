"""The contract of every TaskRunner. Inherited by tests/unit (threads) and tests/integration/spark (Spark).

The harness plays the worker: it keeps the events and commits source offsets, as the real one does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.task_runner import (
    Assign,
    BatchDurable,
    PartitionsReleased,
    Pause,
    Resume,
    Revoke,
    Start,
    Stop,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
    TaskMeasured,
    TaskPaused,
    TaskRunner,
    TaskRunning,
)
from tests.contract.task_samples import notes

E = TypeVar("E")
STRING = "spark_connect_rt.records.converters.primitive_converters:StringConverter"
HEADERS = "spark_connect_rt.records.converters.primitive_converters:SimpleHeaderConverter"


class Topics(Protocol):
    """The topics that a runner's clients use."""

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows to their topics."""

    def values(self, topic: str) -> list[Any]:
        """Return every value of the topic."""

    def read(self, partition: TopicPartition, offset: int, limit: int) -> list[dict[str, Any]]:
        """Return at most ``limit`` records from ``offset`` on."""


@dataclass
class Worker:
    """Plays the worker around one runner."""

    runner: TaskRunner
    topics: Topics
    folder: Path
    client_config: Mapping[str, str] = field(default_factory=dict)
    limit_s: float = 10.0
    fused: bool = False

    def __post_init__(self) -> None:
        self.events: list[TaskEvent] = []
        self.offsets: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.lock = threading.Condition()
        self.runs = 0

    def on_event(self, event: TaskEvent) -> None:
        """Keep the event; commit its offsets."""
        with self.lock:
            self.events.append(event)
            if isinstance(event, BatchDurable):
                for partition, offset in event.source_offsets:
                    if offset is not None:
                        self.offsets[event.task.connector, partition["name"]] = offset
            self.lock.notify_all()

    def read_offsets(self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the offsets for a task's OffsetReader."""
        with self.lock:
            return [self.offsets.get((task.connector, partition["name"])) for partition in partitions]

    def launch(self, name: str, sample: str, kind: TaskKind = TaskKind.SOURCE, **config: str) -> TaskLaunch:
        """Return a launch of a sample task.

        ``paused``, ``isolation``, ``tolerance``, ``dlq`` (name of a dead letter queue) are taken out of ``config``.
        """
        self.runs += 1
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        converters = {"key.converter": STRING, "value.converter": STRING, "header.converter": HEADERS}
        isolation = config.pop("isolation", "auto")
        connector_config = {"errors.tolerance": config.pop("tolerance", "none")}
        dead_letters = config.pop("dlq", "")
        connector_config |= {
            "errors.deadletterqueue.topic.name": dead_letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        paused = config.pop("paused", "") == "yes"
        client_config = {**self.client_config, **({"fail.value": config.pop("refuse")} if "refuse" in config else {})}
        return TaskLaunch(
            ConnectorTaskId(name, 0),
            run=self.runs,
            generation=7,
            kind=kind,
            task_class=f"tests.contract.task_samples:{sample}",
            config={"name": name, "folder": str(folder), **{k.replace("_", "."): v for k, v in config.items()}},
            connector_config=connector_config,
            worker_config=converters,
            client_config=client_config,
            paused=paused,
            isolation=isolation,
            fused=self.fused,
            dead_letter_producer=self.client_config if dead_letters else {},
            dead_letter_admin=self.client_config if dead_letters else {},
        )

    def start(self, name: str, sample: str = "CountingSource", **config: str) -> TaskLaunch:
        """Start a source task and return its launch."""
        launch = self.launch(name, sample, **config)
        self.runner.do(Start(launch))
        return launch

    def start_sink(self, name: str, sample: str = "CollectingSink", **config: str) -> TaskLaunch:
        """Start a sink task and return its launch."""
        launch = self.launch(name, sample, TaskKind.SINK, **config)
        self.runner.do(Start(launch))
        return launch

    def of(self, launch: TaskLaunch, kind: type[E]) -> list[E]:
        """Return the run's events of a kind."""
        with self.lock:
            return [e for e in self.events if isinstance(e, kind) and e.run == launch.run]

    def until(self, fact: Callable[[], object], limit_s: float | None = None) -> None:
        """Wait for a fact; shows the events when it does not come."""
        end = time.monotonic() + (limit_s or self.limit_s)
        while not fact():
            with self.lock:
                if time.monotonic() > end:
                    raise AssertionError("not in time; last events:\n" + "\n".join(map(str, self.events[-12:])))
                self.lock.wait(0.02)

    def sent(self, name: str) -> list[int]:
        """Return the numbers of a counting source that reached the topic."""
        values = [value.decode() for value in self.topics.values("numbers")]
        return [int(v.rpartition("-")[2]) for v in values if v.rpartition("-")[0] == name]

    def wait_sent(self, name: str, count: int) -> None:
        """Wait until 0 ... count-1 are all there."""
        self.until(lambda: set(range(count)) <= set(self.sent(name)))

    def notes(self, name: str) -> list[str]:
        """Return the lines that the sample task noted."""
        return notes(self.folder / name)

    def end(self, launch: TaskLaunch, timeout_ms: int = 5_000) -> TaskEnded:
        """Stop a run and return how it ended."""
        self.runner.do(Stop(launch.task, timeout_ms))
        return self.ended(launch)

    def ended(self, launch: TaskLaunch) -> TaskEnded:
        """Wait for the end of a run; checks that it is the run's last event."""
        self.until(lambda: self.of(launch, TaskEnded))
        with self.lock:
            assert [e for e in self.events if e.run == launch.run][-1] == self.of(launch, TaskEnded)[0]
        return self.of(launch, TaskEnded)[0]


class TaskRunnerContract:
    """One test per promise of engine.task_runner."""

    def lose_infrastructure(self, worker: Worker) -> None:
        """Kill whatever hosts the tasks, without a word to the runner."""
        raise NotImplementedError

    @pytest.fixture
    def worker(self) -> Iterator[Worker]:
        """Yield a worker around an open runner; closed afterwards."""
        raise NotImplementedError

    # -- sources

    def test_a_source_task_runs_and_its_offsets_come_after_its_records(self, worker: Worker) -> None:
        launch = worker.start("a", count="12")
        worker.wait_sent("a", 12)
        worker.until(lambda: sum(b.records for b in worker.of(launch, BatchDurable)) == 12)
        assert isinstance(next(event for event in worker.events if not isinstance(event, TaskMeasured)), TaskRunning)
        batch = worker.of(launch, BatchDurable)[-1]
        assert batch.source_offsets == (({"name": "a"}, {"next": 12}),)
        assert (batch.generation, batch.topics, batch.skipped) == (7, ("numbers",), 0)
        assert batch.data_bytes > 0
        end = worker.end(launch)
        assert (end.drained, end.records) == (True, 12)
        assert worker.sent("a") == list(range(12))
        assert worker.notes("a")[-1] == "stop a"

    def test_a_restarted_task_resumes_from_the_committed_offsets(self, worker: Worker) -> None:
        first = worker.start("a", count="5")
        worker.wait_sent("a", 5)
        worker.end(first)
        second = worker.start("a", count="9")
        worker.wait_sent("a", 9)
        worker.end(second)
        assert worker.sent("a") == list(range(9))

    def test_stop_drains_what_was_polled(self, worker: Worker) -> None:
        launch = worker.start("a", count="1000000", per_poll="7", pause_s="0.001")
        worker.wait_sent("a", 20)
        end = worker.end(launch)
        sent = worker.sent("a")
        assert end.drained
        assert sent == list(range(len(sent)))
        assert worker.offsets["a", "a"] == {"next": len(sent)}
        assert end.records == len(sent)

    def test_pause_drains_and_resume_continues(self, worker: Worker) -> None:
        launch = worker.start("a", count="1000000", per_poll="3", pause_s="0.001")
        worker.wait_sent("a", 10)
        worker.runner.do(Pause(launch.task))
        worker.until(lambda: worker.of(launch, TaskPaused))
        sent = worker.sent("a")
        assert worker.offsets["a", "a"] == {"next": len(sent)}
        worker.runner.do(Resume(launch.task))
        worker.until(lambda: len(worker.of(launch, TaskRunning)) == 2)
        worker.wait_sent("a", len(sent) + 10)
        assert worker.end(launch).drained
        assert worker.sent("a") == list(range(len(worker.sent("a"))))

    def test_a_task_started_paused_reads_nothing_until_resumed(self, worker: Worker) -> None:
        launch = worker.start("a", count="4", paused="yes")
        worker.until(lambda: worker.of(launch, TaskPaused))
        assert worker.sent("a") == []
        worker.runner.do(Resume(launch.task))
        worker.wait_sent("a", 4)
        assert worker.end(launch).drained

    def test_pausing_twice_is_reported_twice(self, worker: Worker) -> None:
        launch = worker.start("a", count="1")
        worker.wait_sent("a", 1)
        worker.runner.do(Pause(launch.task))
        worker.until(lambda: len(worker.of(launch, TaskPaused)) == 1)
        worker.runner.do(Pause(launch.task))
        worker.until(lambda: len(worker.of(launch, TaskPaused)) == 2)
        assert worker.end(launch).drained

    @pytest.mark.parametrize("place", ["start", "poll", "convert"])
    def test_a_failing_source_task_fails_alone(self, worker: Worker, place: str) -> None:
        neighbour = worker.start("good", count="1000000", per_poll="1", pause_s="0.005")
        bad = worker.start("bad", count="8", fail=place, per_poll="4")
        end = worker.ended(bad)
        failed = worker.of(bad, TaskFailed)
        assert len(failed) == 1
        assert ("VALUE_CONVERTER failed" if place == "convert" else "fails as told") in failed[0].trace
        assert end.records == {"start": 0, "poll": 8, "convert": 4}[place]
        here = len(worker.sent("good"))
        worker.wait_sent("good", here + 5)
        assert not worker.of(neighbour, TaskFailed)
        assert worker.end(neighbour).drained

    def test_a_refused_delivery_fails_the_task_and_commits_nothing_behind_it(self, worker: Worker) -> None:
        neighbour = worker.start("good", count="3")
        bad = worker.start("bad", count="20", per_poll="20", refuse="bad-7")
        worker.ended(bad)
        assert "bad-7" in worker.of(bad, TaskFailed)[0].trace
        assert ("bad", "bad") not in worker.offsets
        worker.wait_sent("good", 3)
        assert worker.end(neighbour).drained

    def test_a_retriable_poll_is_tried_again(self, worker: Worker) -> None:
        launch = worker.start("a", count="3", fail="retriable")
        worker.wait_sent("a", 3)
        assert not worker.of(launch, TaskFailed)
        worker.end(launch)

    def test_unreadable_input_fails_the_task_naming_the_place(self, worker: Worker) -> None:
        launch = worker.start("a", count="3", fail="errant")
        worker.ended(launch)
        assert "file f line 7 offset 70" in worker.of(launch, TaskFailed)[0].trace
        assert worker.sent("a") == [0, 1, 2]

    def test_unreadable_input_is_skipped_and_counted_when_tolerated(self, worker: Worker) -> None:
        launch = worker.start("a", count="3", fail="errant", tolerance="all", dlq="dead")
        worker.until(lambda: sum(b.skipped for b in worker.of(launch, BatchDurable)) == 1)
        assert not worker.of(launch, TaskFailed)
        (dead,) = worker.topics.read(TopicPartition("dead", 0), 0, 10)
        told = {header["key"].removeprefix("__connect.errors."): header["value"] for header in dead["headers"]}
        assert (dead["value"], told["stage"]) == (b"line 7", b"TASK_POLL")
        assert told["source.place"].endswith(b"file f line 7 offset 70")
        worker.end(launch)

    def test_a_task_is_notified_when_its_records_are_durable(self, worker: Worker) -> None:
        launch = worker.start("a", "CommittedSource", count="6", per_poll="2")
        last = "committed a-5 numbers-0@5"
        worker.until(lambda: last in worker.notes("a") and worker.notes("a")[-1] == "commit a")
        committed = [line for line in worker.notes("a") if line.startswith("committed")]
        assert committed == [f"committed a-{n} numbers-0@{n}" for n in range(6)]
        worker.end(launch)

    def test_error_of_a_commit_hook_is_logged_and_fails_nothing(self, worker: Worker) -> None:
        """As Java's AbstractWorkerSourceTask.commitTaskRecord and commitSourceTask."""
        launch = worker.start("a", "CommittedSource", count="6", per_poll="2", fail="commit")
        worker.until(lambda: "committed a-5 numbers-0@5" in worker.notes("a") and worker.notes("a")[-1] == "commit a")
        assert not worker.of(launch, TaskFailed)
        assert worker.end(launch).drained

    def test_a_task_is_notified_that_a_skipped_record_has_no_offset(self, worker: Worker) -> None:
        """As Java's commitRecord(record, null). Dead letters of the same batch belong to no record of the task."""
        launch = worker.start("a", "CommittedSource", count="12", fail="convert", tolerance="all", dlq="dead")
        worker.until(lambda: sum(line.startswith("committed") for line in worker.notes("a")) == 12)
        told = [line.split()[-1] for line in worker.notes("a") if line.startswith("committed")]
        offsets = iter(range(11))
        assert told == ["nowhere" if n == 7 else f"numbers-0@{next(offsets)}" for n in range(12)]
        worker.end(launch)

    def test_a_second_run_of_a_live_task_is_refused(self, worker: Worker) -> None:
        first = worker.start("a", count="2")
        worker.wait_sent("a", 2)
        second = worker.start("a", count="2")
        assert worker.ended(second).records == 0
        assert worker.of(second, TaskFailed)
        assert worker.end(first).drained

    # -- sinks

    def test_a_sink_task_gets_its_partitions_and_reports_what_is_safe(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "partition": p, "value": b"v%d" % n} for p in (0, 1) for n in range(3)])
        launch = worker.start_sink("s")
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.runner.do(Assign(launch.task, {zero: 1, partition: -1}))
        worker.until(lambda: _committed(worker, launch) == {zero: 3, partition: 3})
        puts = sorted(line for line in worker.notes("s") if line.startswith("put"))
        assert puts == ["put t-0@1 v1", "put t-0@2 v2", "put t-1@0 v0", "put t-1@1 v1", "put t-1@2 v2"]
        assert worker.of(launch, BatchDurable)[-1].topics == ("t",)
        end = worker.end(launch)
        assert (end.drained, end.records) == (True, 5)
        assert worker.notes("s")[-2:] == ["close t-0,t-1", "stop"]

    def test_revoked_partitions_are_flushed_and_closed_before_they_are_released(self, worker: Worker) -> None:
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.topics.append([{"topic": "t", "partition": p, "value": b"x"} for p in (0, 1)])
        launch = worker.start_sink("s")
        worker.runner.do(Assign(launch.task, {zero: 0, partition: 0}))
        worker.until(lambda: _committed(worker, launch) == {zero: 1, partition: 1})
        worker.runner.do(Revoke(launch.task, (zero,), 30_000))
        worker.until(lambda: worker.of(launch, PartitionsReleased))
        assert worker.of(launch, PartitionsReleased)[0].partitions == frozenset([zero])
        assert "close t-0" in worker.notes("s")
        worker.topics.append([{"topic": "t", "partition": p, "value": b"y"} for p in (0, 1)])
        worker.until(lambda: _committed(worker, launch)[partition] == 2)
        assert _committed(worker, launch)[zero] == 1
        worker.runner.do(Assign(launch.task, {zero: 1}))
        worker.until(lambda: _committed(worker, launch)[zero] == 2)
        assert worker.end(launch).drained

    def test_a_refusing_target_gets_the_same_records_again(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"x"}])
        launch = worker.start_sink("s", fail="retriable")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: worker.notes("s").count("refused") >= 2)
        assert not worker.of(launch, BatchDurable)
        (worker.folder / "s" / "go").touch()
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 1})
        worker.end(launch)
        assert [line for line in worker.notes("s") if line.startswith("put")] == ["put t-0@0 x"]

    def test_a_refusing_target_holds_up_neither_stop_nor_revocation(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "partition": p, "value": b"x"} for p in (0, 1)])
        launch = worker.start_sink("s", fail="retriable")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0, TopicPartition("t", 1): 0}))
        worker.until(lambda: "refused" in worker.notes("s"))
        worker.runner.do(Revoke(launch.task, (TopicPartition("t", 0),), 30_000))
        worker.until(lambda: worker.of(launch, PartitionsReleased))
        assert worker.end(launch).drained
        assert not worker.of(launch, BatchDurable)

    def test_a_task_begins_where_it_says_when_it_is_given_a_partition(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v%d" % n} for n in range(4)])
        launch = worker.start_sink("s", "SteeringSink", begin_at="2")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 4})
        worker.end(launch)
        assert _puts(worker) == ["put t-0@2 v2", "put t-0@3 v3"]

    def test_a_task_rewinds_a_partition_and_gets_what_follows_in_order(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v%d" % n} for n in range(3)])
        launch = worker.start_sink("s", "SteeringSink", at="v2", does="rewind")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: "rewound" in worker.notes("s"))
        worker.topics.append([{"topic": "t", "value": b"v3"}])
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 4})
        worker.end(launch)
        after = worker.notes("s")[worker.notes("s").index("rewound") :]
        assert [line for line in after if line.startswith("put")] == ["put t-0@1 v1", "put t-0@2 v2", "put t-0@3 v3"]

    def test_a_task_pauses_a_partition_and_misses_nothing_of_it(self, worker: Worker) -> None:
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.topics.append([{"topic": "t", "partition": 0, "value": b"stop"}])
        launch = worker.start_sink("s", "SteeringSink", at="stop", does="pause")
        worker.runner.do(Assign(launch.task, {zero: 0, partition: 0}))
        worker.until(lambda: "paused" in worker.notes("s"))
        worker.topics.append([{"topic": "t", "partition": p, "value": b"v%d" % n} for n in range(3) for p in (0, 1)])
        worker.until(lambda: _committed(worker, launch) == {zero: 1, partition: 3})
        assert not [line for line in _puts(worker) if line.startswith("put t-0") and "stop" not in line]
        (worker.folder / "s" / "go").touch()
        worker.until(lambda: _committed(worker, launch) == {zero: 4, partition: 3})
        worker.end(launch)
        expected = ["put t-0@0 stop", "put t-0@1 v0", "put t-0@2 v1", "put t-0@3 v2"]
        assert [line for line in _puts(worker) if line.startswith("put t-0")] == expected

    def test_a_task_says_when_it_wants_the_same_records_again(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v"}])
        launch = worker.start_sink("s", "SteeringSink", at="v", does="again", timeout="1")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 1})
        worker.end(launch)
        assert worker.notes("s").count("refused") == 1
        assert _puts(worker) == ["put t-0@0 v"] * 2  # it was noted before it was refused

    def test_a_task_that_wants_the_same_records_later_is_left_in_peace(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v"}])
        launch = worker.start_sink("s", "SteeringSink", at="v", does="again", timeout="3600000")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: "refused" in worker.notes("s"))
        worker.runner.do(Revoke(launch.task, (TopicPartition("t", 0),), 30_000))
        worker.until(lambda: worker.of(launch, PartitionsReleased))
        worker.end(launch)
        assert _puts(worker) == ["put t-0@0 v"]  # the one that was refused

    def test_a_task_may_not_pause_what_is_not_its_own(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v"}])
        launch = worker.start_sink("s", "SteeringSink", at="v", does="refuse_others")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 1})
        worker.end(launch)
        assert "SinkTasks may not pause partitions that are not currently assigned to them." in worker.notes("s")

    def test_a_task_that_holds_offsets_back_is_called_by_empty_puts(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v"}])
        launch = worker.start_sink("s", "HoldingSink")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 1})
        worker.end(launch)

    @pytest.mark.parametrize("error", ["RetriableError", "ConnectError", "ValueError"])
    def test_failed_commit_rewinds_to_the_last_good_commit(self, worker: Worker, error: str) -> None:
        """As Java's WorkerSinkTask.commitOffsets: after any error of preCommit it logs, rewinds and continues."""
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.topics.append([{"topic": "t", "partition": p, "value": b"good"} for p in (0, 1)])
        launch = worker.start_sink("s", "ForgetfulSink", fail_at="bad", error=error)
        worker.runner.do(Assign(launch.task, {zero: 0, partition: 0}))
        worker.until(lambda: _committed(worker, launch) == {zero: 1, partition: 1})
        worker.topics.append([{"topic": "t", "partition": 0, "value": value} for value in (b"bad", b"last")])
        worker.until(lambda: _committed(worker, launch) == {zero: 3, partition: 1})
        safe = [line for line in worker.notes("s") if line.startswith("safe")]
        assert sorted(safe) == ["safe t-0@0", "safe t-0@1", "safe t-0@2", "safe t-1@0"]
        assert _puts(worker).count("put t-0@1 bad") == 2
        assert _puts(worker).count("put t-0@0 good") == 1
        assert not worker.of(launch, TaskFailed)
        assert worker.end(launch).drained

    def test_a_failed_commit_at_a_revocation_commits_nothing_and_fails_no_task(self, worker: Worker) -> None:
        """As in Java, revoked partitions are not rewound: the next owner reads them from the last commit."""
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.topics.append([{"topic": "t", "partition": 0, "value": b"bad"}])
        launch = worker.start_sink("s", "ForgetfulSink", fail_at="bad", for_ever="yes")
        worker.runner.do(Assign(launch.task, {zero: 0, partition: 0}))
        worker.until(lambda: "put t-0@0 bad" in worker.notes("s"))
        worker.runner.do(Revoke(launch.task, (zero,), 30_000))
        worker.until(lambda: worker.of(launch, PartitionsReleased))
        assert "close t-0" in worker.notes("s")
        worker.topics.append([{"topic": "t", "partition": 1, "value": b"good"}])
        worker.until(lambda: _committed(worker, launch) == {partition: 1})
        before = len(worker.notes("s"))
        worker.runner.do(Assign(launch.task, {zero: 0}))
        worker.until(lambda: any(line.startswith("asked t-0@1") for line in worker.notes("s")[before:]))
        assert worker.end(launch).drained
        assert worker.notes("s")[-2:] == ["close t-0,t-1", "stop"]
        assert _committed(worker, launch) == {partition: 1}
        assert not worker.of(launch, TaskFailed)

    def test_a_task_that_fails_is_closed_before_it_is_stopped(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"v"}])
        launch = worker.start_sink("s", fail="put")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: worker.of(launch, TaskFailed))
        worker.ended(launch)
        assert not worker.of(launch, BatchDurable)
        assert worker.notes("s")[-2:] == ["close t-0", "stop"]

    @pytest.mark.parametrize("last", ["nothing", "pre_commit", "close", "stop"])
    def test_records_put_before_a_failure_are_committed_before_close_and_stop(self, worker: Worker, last: str) -> None:
        """Java: WorkerSinkTask.execute closes all partitions, commitOffsets(closing) asks, closes, commits."""
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.topics.append([{"topic": "t", "partition": p, "value": b"good"} for p in (0, 1)])
        launch = worker.start_sink("s", "LastWordSink", bad="bad", last=last)
        worker.runner.do(Assign(launch.task, {zero: 0, partition: 0}))
        worker.until(lambda: len(_puts(worker)) == 2)
        assert not worker.of(launch, BatchDurable)
        worker.topics.append([{"topic": "t", "partition": 0, "value": b"bad"}])
        end = worker.ended(launch)
        assert worker.notes("s")[-3:] == ["asked t-0@1 t-1@1", "close t-0,t-1", "stop"]
        committed = last in ("nothing", "stop")  # as Java: not past a preCommit or a close that failed
        assert _committed(worker, launch) == ({zero: 1, partition: 1} if committed else {})
        assert end.records == (2 if committed else 0)
        (failed,) = worker.of(launch, TaskFailed)
        assert "the target takes no such record" in failed.trace
        assert "fails, too" not in failed.trace

    def test_a_partition_that_cannot_be_opened_leaves_what_was_put_of_others_committed(self, worker: Worker) -> None:
        zero, partition = TopicPartition("t", 0), TopicPartition("t", 1)
        worker.topics.append([{"topic": "t", "partition": 0, "value": b"good"}])
        launch = worker.start_sink("s", "LastWordSink", refuse_partition="t-1")
        worker.runner.do(Assign(launch.task, {zero: 0}))
        worker.until(lambda: len(_puts(worker)) == 1)
        worker.runner.do(Assign(launch.task, {partition: 0}))
        worker.ended(launch)
        assert "nothing of this one" in worker.of(launch, TaskFailed)[0].trace
        assert _committed(worker, launch) == {zero: 1}
        assert worker.notes("s")[-3:] == ["asked t-0@1", "close t-0,t-1", "stop"]

    def test_task_reports_its_calls_and_positions(self, worker: Worker) -> None:
        zero = TopicPartition("t", 0)
        worker.topics.append([{"topic": "t", "value": b"v%d" % n} for n in range(3)])
        launch = worker.start_sink("s", fail="hang")
        worker.runner.do(Assign(launch.task, {zero: 0}))
        worker.until(
            lambda: any(report.call == "put" and report.call_ms >= 1_000 for report in worker.of(launch, TaskMeasured))
        )
        told = [report for report in worker.of(launch, TaskMeasured) if report.half == "reader"]
        assert (told[-1].totals["read.records"], dict(told[-1].positions)) == (3, {zero: 3})
        assert not worker.end(launch, timeout_ms=100).drained

    @pytest.mark.parametrize("place", ["start", "put"])
    def test_a_failing_sink_task_fails_alone_and_commits_nothing(self, worker: Worker, place: str) -> None:
        neighbour = worker.start("good", count="3")
        worker.topics.append([{"topic": "t", "value": b"x"}])
        launch = worker.start_sink("s", fail=place)
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.ended(launch)
        assert "fails as told" in worker.of(launch, TaskFailed)[0].trace
        assert not worker.of(launch, BatchDurable)
        worker.wait_sent("good", 3)
        assert not worker.of(neighbour, TaskFailed)
        worker.end(neighbour)

    def test_a_paused_sink_takes_nothing_and_says_so(self, worker: Worker) -> None:
        launch = worker.start_sink("s")
        zero = TopicPartition("t", 0)
        worker.runner.do(Assign(launch.task, {zero: 0}))
        worker.until(lambda: worker.of(launch, TaskRunning))
        worker.runner.do(Pause(launch.task))
        worker.until(lambda: worker.of(launch, TaskPaused))
        worker.topics.append([{"topic": "t", "value": b"x"}])
        worker.runner.do(Resume(launch.task))
        worker.until(lambda: _committed(worker, launch) == {zero: 1})
        assert len(worker.of(launch, TaskRunning)) == 2
        worker.end(launch)

    # -- errant records

    def test_of_a_batch_with_one_record_that_is_refused_the_others_are_delivered(self, worker: Worker) -> None:
        values = [b"bad" if n == 777 else b"%d" % n for n in range(1_000)]
        worker.topics.append([{"topic": "t", "key": b"k", "value": value} for value in values])
        launch = worker.start_sink("s", bad="bad", tolerance="all", dlq="dead")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 1_000})
        put = [line.split()[1] for line in worker.notes("s") if line.startswith("put")]
        assert put == [f"t-0@{n}" for n in range(1_000) if n != 777]
        assert not worker.of(launch, TaskFailed)
        durable = worker.of(launch, BatchDurable)
        assert (sum(b.records for b in durable), sum(b.skipped for b in durable)) == (999, 1)
        (dead,) = worker.topics.read(TopicPartition("dead", 0), 0, 10)
        assert (dead["key"], dead["value"]) == (b"k", b"bad")
        told = {header["key"].removeprefix("__connect.errors."): header["value"] for header in dead["headers"]}
        assert (told["topic"], told["partition"], told["offset"]) == (b"t", b"0", b"777")
        assert (told["stage"], told["class.name"]) == (b"TASK_PUT", b"org.apache.kafka.connect.sink.SinkTask")
        assert told["exception.message"] == b"the target takes no such record"
        worker.end(launch)

    def test_a_task_reports_a_record_and_continues(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": value} for value in (b"one", b"bad", b"two")])
        launch = worker.start_sink("s", reports="bad", tolerance="all", dlq="dead")
        worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.until(lambda: _committed(worker, launch) == {TopicPartition("t", 0): 3})
        assert [line for line in worker.notes("s") if line.startswith("put")] == ["put t-0@0 one", "put t-0@2 two"]
        assert worker.topics.values("dead") == [b"bad"]
        assert sum(b.skipped for b in worker.of(launch, BatchDurable)) == 1
        worker.end(launch)

    def test_the_letter_of_an_unconvertible_record_precedes_its_offset(self, worker: Worker) -> None:
        launch = worker.start("a", count="12", fail="convert", tolerance="all", dlq="dead")
        worker.until(lambda: worker.offsets.get(("a", "a")) == {"next": 12})
        assert worker.sent("a") == [n for n in range(12) if n != 7]
        durable = worker.of(launch, BatchDurable)
        assert (sum(b.records for b in durable), sum(b.skipped for b in durable)) == (11, 1)
        assert {topic for b in durable for topic in b.topics} == {"numbers"}
        (dead,) = worker.topics.read(TopicPartition("dead", 0), 0, 10)
        assert dead["value"].startswith(b"<tests.contract.task_samples._Unprintable object")
        told = {header["key"].removeprefix("__connect.errors."): header["value"] for header in dead["headers"]}
        assert (told["topic"], told["stage"], told["source.offset"]) == (b"numbers", b"VALUE_CONVERTER", b'{"next":8}')
        worker.end(launch)

    @pytest.mark.parametrize("kind", ["source", "sink"])
    def test_without_tolerance_the_record_that_fails_the_task_is_dead_too(self, worker: Worker, kind: str) -> None:
        if kind == "source":
            launch = worker.start("a", count="12", fail="convert", dlq="dead")
        else:
            worker.topics.append([{"topic": "t", "value": value} for value in (b"one", b"bad")])
            launch = worker.start_sink("a", reports="bad", dlq="dead")
            worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
        worker.ended(launch)
        assert worker.of(launch, TaskFailed)
        assert len(worker.topics.values("dead")) == 1
        assert _committed(worker, launch) == {}

    # -- faults

    def test_lost_infrastructure_is_replaced_and_nothing_is_lost(self, worker: Worker) -> None:
        worker.topics.append([{"topic": "t", "value": b"%d" % n} for n in range(50)])
        source = worker.start("a", count="60", per_poll="1", pause_s="0.01")
        sink = worker.start_sink("s")
        worker.runner.do(Assign(sink.task, {TopicPartition("t", 0): 0}))
        worker.wait_sent("a", 5)
        worker.until(lambda: worker.of(sink, TaskRunning))
        self.lose_infrastructure(worker)
        worker.topics.append([{"topic": "t", "value": b"%d" % n} for n in range(50, 60)])
        worker.wait_sent("a", 60)
        worker.until(lambda: _committed(worker, sink) == {TopicPartition("t", 0): 60})
        assert not worker.of(source, TaskFailed)
        assert not worker.of(sink, TaskFailed)
        put = {line.split()[-1] for line in worker.notes("s") if line.startswith("put")}
        assert put == {str(n) for n in range(60)}
        assert worker.end(source).drained
        assert worker.end(sink).drained

    def test_a_task_that_does_not_stop_is_killed_and_its_neighbour_continues(self, worker: Worker) -> None:
        neighbour = worker.start("good", count="1000000", per_poll="1", pause_s="0.005")
        stuck = worker.start("stuck", count="2", fail="hang", hang_s="30")
        worker.until(lambda: any(line.startswith("hangs") for line in worker.notes("stuck")))
        worker.wait_sent("good", 3)
        end = worker.end(stuck, timeout_ms=300)
        assert not end.drained
        here = len(worker.sent("good"))
        worker.wait_sent("good", here + 20)
        assert not worker.of(neighbour, TaskFailed)
        assert worker.end(neighbour).drained
        sent = worker.sent("good")
        assert sorted(set(sent)) == list(range(len(set(sent))))

    def test_close_ends_every_run(self, worker: Worker) -> None:
        launches = [worker.start(name, count="3") for name in ("a", "b")]
        worker.wait_sent("b", 3)
        worker.runner.close(5_000)
        assert all(worker.of(launch, TaskEnded) for launch in launches)
        assert all(worker.of(launch, TaskEnded)[0].drained for launch in launches)


def _puts(worker: Worker) -> list[str]:
    return [line for line in worker.notes("s") if line.startswith("put")]


def _committed(worker: Worker, launch: TaskLaunch) -> dict[TopicPartition, int]:
    return {tp: offset for batch in worker.of(launch, BatchDurable) for tp, offset in batch.sink_offsets}
