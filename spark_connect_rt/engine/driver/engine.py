"""The life of runs: started, paused, moved, recovered after losses, ended (engine.task_runner, its policy).

Owns every run of this worker and the order of its events. Everything here runs on one loop, so nothing is locked;
reports of hostings that are over find no run and are refused (E2). Transport is behind SlotLauncher.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spark_connect_rt.base.concurrency import MACHINE_THREADS, SYSTEM_CLOCK, Clock, Threads
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.base.supervision import Report, report_nowhere
from spark_connect_rt.engine.driver import reports
from spark_connect_rt.engine.driver.loop import Loop
from spark_connect_rt.engine.driver.model import EngineSettings, Phase, Slot, TaskRun
from spark_connect_rt.engine.driver.reports import offsets_answer
from spark_connect_rt.engine.driver.slot_jobs import SliceConnected, SliceEvent, SliceGone, SliceMessage, SlotLauncher
from spark_connect_rt.engine.driver.slot_packing import Isolation
from spark_connect_rt.engine.driver.slot_table import SlotTable
from spark_connect_rt.engine.executor.control_wire import Message, encode_offsets
from spark_connect_rt.engine.slot_losses import is_of_the_cluster, judge_loss, named, verdict_text
from spark_connect_rt.engine.task_runner import (
    Assign,
    Expect,
    NoteGeneration,
    OnTaskEvent,
    PartitionsReleased,
    Pause,
    ReadOffsets,
    Resume,
    Revoke,
    Start,
    Stop,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskLaunch,
    TaskPaused,
    TaskRunning,
)
from spark_connect_rt.errors import RetriableError

# Source offsets that tasks ask the driver for, read outside of the engine's loop: a read may block.
#
# Owns the threads that read. As in Java, brokers that are away fail no task: a read is tried while the run is wanted.


AT_A_TIME = 32  # some may wait long for a cluster that is away
PAUSE_S = 0.2
log = logging.getLogger(__name__)


class OffsetLookUps:
    """Reads offsets on its own threads, which end when nothing is left to read."""

    def __init__(self, threads: Threads = MACHINE_THREADS) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._thread_count = 0
        self._closed = threads.event()

    def open(self, read: ReadOffsets) -> None:
        """Take how offsets are read."""
        self._read = read

    def close(self) -> None:
        """Read no more; answers that are still to come are of no use."""
        self._closed.set()
        with self._lock:
            self._waiting.clear()

    def begin(
        self,
        task: ConnectorTaskId,
        question: Message,
        wanted: Callable[[], bool],
        on_answer: Callable[[Message], None],
    ) -> None:
        """Answer a task's question, on one of the threads. ``wanted``: whether to retry while brokers are away."""

        def read() -> None:
            partitions = question["partitions"]
            on_answer(offsets_answer(task, question["id"], lambda: self._patiently(task, partitions, wanted)))

        with self._lock:
            self._waiting.append(read)
            if self._thread_count == AT_A_TIME:
                return
            self._thread_count += 1
        self._threads.start("engine-offsets", self._read_all)

    def _read_all(self) -> None:
        while (read := self._next()) is not None:
            read()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread_count -= 1
            return None

    def _patiently(
        self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]], wanted: Callable[[], bool]
    ) -> list[Mapping[str, Any] | None]:
        while True:
            try:
                return self._read(task, partitions)
            except RetriableError as error:
                if not wanted():
                    raise
                log.warning("task=%s: reading source offsets again: %s", task, error)
                self._closed.wait(PAUSE_S)


# The partitions of sink runs: read from where, given up when, and answered once for each time they were revoked.
#
# Owns what a run has to know of its partitions, and the deadline of letting go. Called only on the engine's loop.


class RunPartitions:
    """The partitions that are assigned to runs, and those that the runs have to release."""

    def __init__(
        self,
        loop: Loop,
        send: Callable[[TaskRun, Message], None],
        emit: Callable[[PartitionsReleased], None],
        condemn: Callable[[TaskRun], None],
    ) -> None:
        """``send`` reaches the run's host if it has one; ``condemn`` ends a hosting that does not let go in time."""
        self._loop = loop
        self._send = send
        self._emit = emit
        self._condemn = condemn

    def assign(self, run: TaskRun, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a run read these partitions from there, now or when it is hosted."""
        run.positions.update(offsets)
        if run.phase is Phase.HOSTED:
            self._send(run, {"op": "assign", "offsets": encode_offsets(offsets)})

    def revoke(self, run: TaskRun, partitions: Sequence[TopicPartition], timeout_ms: int) -> None:
        """Have a run let go of partitions; its hosting is condemned when it has not in time."""
        for partition in partitions:
            run.positions.pop(partition, None)
        unanswered = run.revocations.add(partitions)
        if run.host is None:
            self.release(run, partitions)
        elif run.phase is Phase.HOSTED:
            pairs = [(tp.topic, tp.partition) for tp in partitions]
            self._send(run, {"op": "revoke", "partitions": pairs})
        if unanswered:
            self._loop.later(timeout_ms, lambda: self._unreleased(run, unanswered))

    def _unreleased(self, run: TaskRun, unanswered: Collection[TopicPartition]) -> None:
        """Kill the hosting of a run that cannot let go of its partitions: another task is about to write them."""
        if unanswered:
            self._condemn(run)

    def release(self, run: TaskRun, partitions: Sequence[TopicPartition]) -> None:
        """Report to the worker that a run has released these."""
        if partitions:
            run.revocations.answered(partitions)
            self._emit(PartitionsReleased(run.task, run.launch.run, frozenset(partitions)))

    def release_all(self, run: TaskRun) -> None:
        """Answer every open revocation of a run that is hosted nowhere."""
        for partitions in run.revocations.unanswered():
            self.release(run, partitions)


_END_WAIT_S = 10.0  # for empty slots to end by themselves at close; then they are killed
_CONTACT_PATIENCE_MS = 500
_FAILED_LINGER_MS = 30_000  # a failed task's own stop() may take this long before its slot is killed


class Engine:
    """Hosts source and sink tasks in slices (port TaskRunner, but for the Spark-format sinks)."""

    def __init__(
        self,
        launcher: SlotLauncher,
        settings: EngineSettings | None = None,
        report: Report = report_nowhere,
        threads: Threads = MACHINE_THREADS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._launcher = launcher
        self._settings = settings or EngineSettings()
        self._now_ms = clock.monotonic_ms
        self._loop = Loop("engine", report, threads)
        self._slots = SlotTable(launcher, self._loop, self._settings, self._now_ms, self._move)
        self._partitions = RunPartitions(self._loop, self._send, self._emit, self._slots.condemn)
        self._runs: dict[ConnectorTaskId, TaskRun] = {}
        self._look_ups = OffsetLookUps(threads)
        self._holds_lease: Callable[[], bool] = lambda: True
        self._closing = False
        self._warm = threads.event()  # a slot was up once: Spark runs, its Python processes are imported
        self._all_ended = threads.event()
        self._all_gone = threads.event()

    # -- port TaskRunner; any thread

    def open(self, on_event: OnTaskEvent, read_offsets: ReadOffsets) -> None:
        """Start the engine's thread and, if the settings ask for it, the first slots; ``on_event`` is called on it."""
        self._on_event = on_event
        self._look_ups.open(read_offsets)
        self._launcher.open(lambda event: self._loop.submit(lambda: self._on_slice_event(event)))
        self._loop.start()
        if self._settings.prewarm:
            self._loop.submit(self._slots.prewarm)
        self._loop.every(self._settings.housekeeping_ms, self._housekeeping)

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Start and recover runs only while this holds."""
        self._holds_lease = holds_lease
        self._launcher.live_while(holds_lease)

    def do(self, command: TaskCommand) -> None:
        """Carry out a command, on the loop."""
        self._loop.submit(lambda: self._obey(command))

    def await_warm(self, timeout_s: float) -> bool:
        """Wait until a slot was up, so that a task would run at once; False: not in time. Blocks."""
        return self._warm.wait(timeout_s)

    def close(self, timeout_ms: int) -> None:
        """Stop every run, then every slot, then the launcher. Blocks."""
        if self._loop.is_alive():  # else nothing is left that could drain: the launcher cuts every slice off
            self._end_slots(timeout_ms)
        self._loop.stop()
        self._look_ups.close()
        self._launcher.close()

    def _end_slots(self, timeout_ms: int) -> None:
        self._loop.submit(lambda: self._close(timeout_ms))
        self._all_ended.wait(timeout_ms / 1000 + _END_WAIT_S)
        self._loop.submit(self._slots.end_all)
        if not self._all_gone.wait(_END_WAIT_S):
            self._loop.submit(self._slots.kill_all)
            self._all_gone.wait(_END_WAIT_S)

    # -- on the loop from here

    def _obey(self, command: TaskCommand) -> None:
        if isinstance(command, Start):
            self._start(command.launch)
            return
        if isinstance(command, Expect):
            if not self._closing:
                self._slots.expect(command)
            return
        run = self._runs.get(command.task)
        if run is None:
            return  # it ended meanwhile; its TaskEnded went out
        match command:
            case Pause() | Resume():
                self._set_paused(run, isinstance(command, Pause))
            case Stop(_, timeout_ms):
                self._stop(run, timeout_ms)
            case Assign(_, offsets):
                self._partitions.assign(run, offsets)
            case Revoke(_, partitions, timeout_ms):
                self._partitions.revoke(run, partitions, timeout_ms)
            case NoteGeneration(_, generation):
                run.group_generation = generation
                self._send(run, {"op": "generation", **asdict(generation)})

    def _emit(self, event: TaskEvent) -> None:
        try:
            self._on_event(event)
        except Exception:
            log.exception("the worker failed on %s", type(event).__name__)

    def _start(self, launch: TaskLaunch) -> None:
        why = self._refusal(launch)
        if why:
            self._emit(TaskFailed(launch.task, launch.run, f"task {launch.task} was not started: {why}"))
            self._emit(TaskEnded(launch.task, launch.run, drained=True))
            return
        isolation = Isolation.parse(launch.isolation)
        run = TaskRun(launch, isolation, paused=launch.paused)
        self._runs[launch.task] = run
        self._place(run)

    def _refusal(self, launch: TaskLaunch) -> str:
        """Say why a run is not to be started; empty: it is."""
        if self._closing:
            return "the engine is stopping"
        if launch.task in self._runs:
            return f"run {self._runs[launch.task].launch.run} has not ended"
        return reports.unsendable(launch)

    def _set_paused(self, run: TaskRun, paused: bool) -> None:
        run.paused = paused
        if run.reported_paused is paused:  # already so: say it again, nothing will change
            self._tell_state(run, paused, again=True)
        self._send(run, {"op": "pause" if paused else "resume"})

    def _tell_state(self, run: TaskRun, paused: bool, *, again: bool = False) -> None:
        """Report RUNNING or PAUSED to the worker, unless it knows (a moved run reports it again)."""
        if run.reported_paused is paused and not again:
            return
        run.reported_paused = paused
        self._emit((TaskPaused if paused else TaskRunning)(run.task, run.launch.run))

    def _send(self, run: TaskRun, message: Message) -> None:
        """Send to the run's host; a run without one gets the news when it is hosted."""
        if run.slot is not None and run.host is not None and run.phase in (Phase.HOSTED, Phase.STOPPING):
            run.slot.handle.send({**message, "host": run.host})

    def _stop(self, run: TaskRun, timeout_ms: int) -> None:
        if run.host is None:
            self._slots.leave(run)
            self._finish(run, drained=True)
            return
        run.phase = Phase.STOPPING
        self._send(run, {"op": "stop", "within_ms": timeout_ms})
        host = run.host

        self._loop.later(timeout_ms, lambda: self._overdue(run, host))

    def _overdue(self, run: TaskRun, host: int) -> None:
        if run.host == host and run.phase is Phase.STOPPING:
            self._slots.condemn(run)

    def _move(self, run: TaskRun, target: Slot | None, within_ms: float | None = None) -> None:
        """Drain a run, as far as possible ``within_ms``, and continue in ``target``, or in any slot with room."""
        if run.phase is Phase.HOSTED:
            self._send(run, {"op": "stop", "within_ms": within_ms})
            run.phase, run.target = Phase.MOVING, target

    def _finish(self, run: TaskRun, *, drained: bool) -> None:
        self._partitions.release_all(run)
        if self._runs.get(run.task) is run:
            del self._runs[run.task]
        self._emit(TaskEnded(run.task, run.launch.run, drained, run.records))
        self._check_closed()

    def _fail(self, run: TaskRun, trace: str) -> None:
        if not run.failed:
            run.failed = True
            self._emit(TaskFailed(run.task, run.launch.run, trace))

    # -- news from slices

    def _on_slice_event(self, event: SliceEvent) -> None:
        match event:
            case SliceConnected(number):
                self._on_connected(number)
            case SliceGone(number, error):
                self._on_gone(number, error)
            case SliceMessage(number, message):
                slot = self._slots.get(number)
                if slot is not None and (run := slot.hosts.get(message.get("host", 0))) is not None:
                    self._on_report(run, slot, message)  # else: a hosting that is over (E2)

    def _on_connected(self, number: int) -> None:
        """Host what waits for a slice, with the group in reach (E5): else its tasks may be another worker's by now."""
        if not self._holds_lease():
            self._loop.later(_CONTACT_PATIENCE_MS, lambda: self._on_connected(number))
            return
        self._warm.set()
        # Behind what a fence has just submitted: it ended the work before it let the contact count again.
        self._loop.submit(lambda: self._slots.connected(number))

    def _on_report(self, run: TaskRun, slot: Slot, message: Message) -> None:
        match message["op"]:
            case "running" | "paused" as state:
                self._tell_state(run, state == "paused")
            case "durable":
                self._on_durable(run, message)
            case "released":
                self._partitions.release(
                    run, [TopicPartition(topic, number) for topic, number in message["partitions"]]
                )
            case "failed" | "lost" | "ended":
                self._on_over(run, message)
            case "measures" if not run.failed:  # E2, as in _on_durable
                self._emit(reports.task_measured(run.launch, message))
            case "offsets":
                self._look_up(run, slot, message)
            case "wants_commits":
                run.wants_commits = True
            case "claimed" | "throttle" | "steer":  # from the writer half, for the reader half
                self._pass_on(run, slot, message)

    def _pass_on(self, run: TaskRun, slot: Slot, message: Message) -> None:
        run.begin_at((TopicPartition(topic, number), offset) for topic, number, offset in message.get("seek", ()))
        slot.handle.send(message)

    def _on_durable(self, run: TaskRun, message: Message) -> None:
        durable = reports.batch_durable(run.launch, message)
        run.losses = run.losses.progressed()
        run.records += durable.records
        run.begin_at(durable.sink_offsets)
        reports.remember_moved(run, self._now_ms(), durable.data_bytes, durable.records)
        if not run.failed:  # E2: nothing more comes from a failed run
            self._emit(durable)
        if run.wants_commits and run.slot is not None:  # also one that moves: its hooks learn of it before it goes
            report = {name: message[name] for name in ("rows", "delivered", "metadata") if name in message}
            run.slot.handle.send({"op": "durable", "host": run.host} | report)

    def _on_over(self, run: TaskRun, message: Message) -> None:
        """The task failed, its JVM was lost (its hosting ends, it is hosted again), or nothing of it is left here."""
        match message["op"]:
            case "failed":
                self._fail(run, message["trace"])
                if run.phase is not Phase.STOPPING:
                    self._stop(run, _FAILED_LINGER_MS)
            case "lost":
                run.lost, run.lost_with = message["why"], self._slots.shared_jvm(run)
                self._move(run, None, 0.0)
            case _:
                self._on_ended(run)

    def _on_ended(self, run: TaskRun) -> None:
        self._slots.leave(run)
        lost, run.lost = run.lost, ""
        if run.phase is not Phase.MOVING or self._closing:
            self._finish(run, drained=not lost)
            return
        self._partitions.release_all(run)
        if lost:
            self._recover(run, "the Java host" if run.launch.java else "its place", lost, run.lost_with)
        else:
            self._place_again(run)

    def _on_gone(self, number: int, error: str | None) -> None:
        hosted = [] if (slot := self._slots.get(number)) is None else list(slot.hosts.values())
        found = self._slots.gone(number, error)
        if found is None:
            return
        slot, runs = found
        if error is not None and not slot.killed and slot.connected:
            here = named([run.task for run in hosted])
            log.error("slot=%d was lost%s: %s", number, f" with tasks {here}" if here else "", error)
        for run in runs:
            self._partitions.release_all(run)
            if run.phase is Phase.STOPPING or self._closing:
                self._finish(run, drained=False)
            elif run not in hosted or (slot.killed and not run.failed):  # it never ran there, or a neighbour was stuck
                self._place_again(run)
            elif error is not None and is_of_the_cluster(error):
                log.warning("task=%s run=%d restarts, no task is to blame: %s", run.task, run.launch.run, error)
                self._place_again(run)
            else:
                with_it = [other.task for other in hosted if other is not run]
                self._recover(run, f"slot {slot.number}", error or "the slice ended under its tasks", with_it)
        self._check_closed()

    def _recover(self, run: TaskRun, what: str, error: str, neighbours: Sequence[ConnectorTaskId]) -> None:
        """Host a run again after a loss, from what is committed; apart, or never, if the losses say so."""
        now_ms = self._now_ms()
        judged = judge_loss(run.losses, now_ms, now_ms - run.hosted_at_ms, neighbours, self._settings.losses)
        run.losses = judged.record
        if judged.guilty:
            self._fail(run, verdict_text(run.task, what, run.losses, now_ms, error))
            self._finish(run, drained=False)
            return
        if judged.apart and not run.suspected:
            log.warning(
                "task=%s gets its own process, because its process was lost %d times",
                run.task,
                len(run.losses.lost_at_ms),
            )
        run.suspected = judged.apart
        log.warning("task=%s run=%d restarts in %d ms: %s", run.task, run.launch.run, judged.delay_ms, error)
        run.phase = Phase.WAITING
        self._loop.later(judged.delay_ms, lambda: self._place(run))

    def _place_again(self, run: TaskRun) -> None:
        run.phase = Phase.WAITING
        self._place(run)

    def _place(self, run: TaskRun) -> None:
        if self._runs.get(run.task) is not run or run.slot is not None or run.phase is not Phase.WAITING:
            return
        # E5: else contact to the group comes back, or the run is stopped.
        wait_ms = self._slots.place(run) if self._holds_lease() else _CONTACT_PATIENCE_MS
        if wait_ms:
            self._loop.later(int(wait_ms) + 1, lambda: self._place(run))

    def _look_up(self, run: TaskRun, slot: Slot, message: Message) -> None:
        def wanted() -> bool:
            return not self._closing and run is self._runs.get(run.task) and run.phase is not Phase.STOPPING

        answer = slot.handle.send
        self._look_ups.begin(run.task, message, wanted, lambda found: self._loop.submit(lambda: answer(found)))

    # -- once a second, and the end

    def _housekeeping(self) -> None:
        if self._closing:
            return
        self._slots.housekeeping(closing=False)
        patience_ms, why = self._settings.waiting_patience_ms, self._slots.why_not_opened
        for news in reports.waiting_news(list(self._runs.values()), self._now_ms(), patience_ms, why):
            self._emit(news)
        runs = [run for run in self._runs.values() if run.phase is Phase.HOSTED]
        limits, now_ms = self._settings.limits, self._now_ms()
        for task in reports.busy_tasks(runs, limits, len(self._slots), now_ms):
            run = self._runs[task]
            run.alone, run.outings = True, run.outings + 1
            log.info("task=%s is busy and moves to its own slot", task)
            self._move(run, None)
        for run in reports.calm_tasks(runs, limits, now_ms, self._settings.calm_ms):
            run.alone, run.shares_for = False, "no longer busy"
        for run in reports.cleared_tasks(runs, self._settings.losses, now_ms):
            run.suspected, run.shares_for = False, "cleared: its process lives"
        for run in runs:
            if run.shares_for and (shared := self._slots.shared_beside(run)) is not None:
                log.info("task=%s is %s and shares a slot again", run.task, run.shares_for)
                run.shares_for = ""
                self._move(run, shared)

    def _close(self, timeout_ms: int) -> None:
        self._closing = True
        for run in list(self._runs.values()):
            self._stop(run, timeout_ms)
        self._check_closed()

    def _check_closed(self) -> None:
        if self._closing and not self._runs:
            self._all_ended.set()
            if not len(self._slots):
                self._all_gone.set()
