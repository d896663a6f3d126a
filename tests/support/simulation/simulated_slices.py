"""Slices of a simulation: executor processes that live next to their driver (port SlotLauncher of spark.driver).

Owns the transport (``SimulatedSliceLauncher``: pings, cuts, losses), the processes (``SimulatedSlice``) and the tasks
in them (``HostedTask``). Every decision about them is the real engine's. A slice outlives a frozen driver until no ping
has come for the silence limit, and a killed one by a moment, as with the control channel of spark.driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from spark_connect_rt.engine.driver.slot_jobs import OnSliceEvent, SliceConnected, SliceEvent, SliceGone, SliceMessage
from spark_connect_rt.engine.executor.control_wire import Message, decode_launch
from spark_connect_rt.engine.task_runner import TaskLaunch
from tests.support.simulation.simulated_invariants import GroundTruth, LiveTask
from tests.support.simulation.simulated_threads import Scheduler, SimulatedProcess


@dataclass(frozen=True, slots=True)
class SliceTimes:
    """How long things take, ms."""

    connect_ms: int = 200  # at most, until both halves of a slice are up
    start_ms: int = 100  # at most, from its message until a task's code runs
    batch_ms: int = 5_000  # at most, from one durable batch to the next
    kill_ms: int = 1_000  # at most, until a killed process is certainly dead
    orphan_ms: int = 500  # at most, until a slice whose driver was killed is dead
    silence_ms: int = 6_000  # (E5) a slice that gets no ping for so long ends itself
    ping_ms: int = 2_000  # the driver pings this often
    way_ms: int = 5  # of one control message


KILLER_MS = 2_000
BUSY_BATCH_BYTES = 64 * 1024 * 1024


class SimulatedSliceLauncher:
    """Port SlotLauncher of one worker, and the faults of its executors."""

    def __init__(self, process: SimulatedProcess, truth: GroundTruth, times: SliceTimes, busy_share: float) -> None:
        """``busy_share`` of the tasks move so much that the engine gives each of them a separate slot."""
        self.process = process
        self.truth = truth
        self.times = times
        self.busy_share = busy_share
        self.slow_batch_ms = 0  # the next batch that a task writes takes this long
        self.slow_connect_ms = 0  # so does the next slice until it is up
        self.killers: set[str] = set()  # tasks that end their process KILLER_MS after they began
        self.quiet: set[str] = set()  # tasks that have nothing to do
        self.short_until_ms = 0  # no slice can be started before
        self.slices: list[SimulatedSlice] = []  # that are not over
        self._holds_lease: Callable[[], bool] = lambda: True

    def open(self, on_event: OnSliceEvent) -> None:
        """Take the listener of all slices' events, and begin to ping."""
        self.on_event = on_event
        self._ping()

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Take the condition under which slices are kept alive."""
        self._holds_lease = holds_lease

    def launch(self, slice_id: int) -> SimulatedSlice:
        """Start a slice and return it."""
        slice_ = SimulatedSlice(self, slice_id)
        self.slices.append(slice_)
        return slice_

    def close(self) -> None:
        """Abort every slice that still lives."""
        for slice_ in self.slices:
            slice_.abort()

    def lose_slices(self) -> int:
        """Let every executor of this worker die; return how many tasks lived there."""
        lost = [slice_ for slice_ in self.slices if slice_.up]
        count = sum(len(slice_.living()) for slice_ in lost)
        for simulated_slice in lost:
            simulated_slice.lose("executor lost")
        return count

    def fail_tasks(self) -> int:
        """Let every task that runs here fail by its own code; return how many did."""
        return sum(task.fail() for slice_ in self.slices for task in slice_.living())

    def _ping(self) -> None:
        if self._holds_lease():
            for slice_ in self.slices:
                slice_.ping()
        self.process.later(self.times.ping_ms, self._ping)


class SimulatedSlice:
    """A reader and a writer process that live and die together (port SliceHandle)."""

    def __init__(self, launcher: SimulatedSliceLauncher, slice_id: int) -> None:
        self.slice_id = slice_id
        self.launcher = launcher
        self.times = launcher.times
        self.scheduler: Scheduler = launcher.process.scheduler
        self.up = False
        self.cut_off = False  # nothing of it reaches the driver any more but its end
        self._over = False
        self._pinged_ms = 0
        self._tasks: dict[int, HostedTask] = {}
        self._questions: dict[int, HostedTask] = {}
        self._numbers = itertools.count(1)
        self._down, self._up = _Way(self.scheduler, self.times.way_ms), _Way(self.scheduler, self.times.way_ms)
        slow_ms, launcher.slow_connect_ms = launcher.slow_connect_ms, 0
        self.scheduler.later(slow_ms or self.scheduler.between(1, self.times.connect_ms), self._come_up)

    # -- what the driver does

    def send(self, message: Message) -> None:
        """Send a message to the slice. It arrives after the time of its way."""
        self._down.send(lambda: self._obey(message))

    def ping(self) -> None:
        """Note that it may live on."""
        self._down.send(self._take_ping)

    def abort(self) -> None:
        """Abort the slice.

        It dies within the time that killing takes, and batches in flight may or may not be written.
        """
        if not self.cut_off:
            self.cut_off = True
            self.scheduler.later(self.scheduler.between(1, self.times.kill_ms), lambda: self._end("killed"))

    # -- what goes wrong

    def lose(self, why: str) -> None:
        """Die without a request, for the reason ``why``."""
        self._end(why)

    def living(self) -> list[HostedTask]:
        """Return the tasks whose code runs."""
        return [task for task in self._tasks.values() if task.alive]

    # -- the processes

    def report(self, op: str, task: HostedTask, **fields: object) -> None:
        """Send the driver a report about a task."""
        self._tell(SliceMessage(self.slice_id, {"op": op, "host": task.host, **fields}))

    def ask_offset(self, task: HostedTask) -> None:
        """Have the driver look up where a task is."""
        number = next(self._numbers)
        self._questions[number] = task
        self.report("offsets", task, id=number, partitions=[task.partition])

    def forget(self, task: HostedTask) -> None:
        """Forget a task whose hosting is over."""
        self._tasks.pop(task.host, None)

    def _come_up(self) -> None:
        driver = self.launcher.process
        if self._over or self.cut_off:
            return
        if not driver.alive:
            self._end("no driver")
            return
        if self.scheduler.at_ms < self.launcher.short_until_ms:
            self._end("[Errno 24] Too many open files")
            return
        self.up = True
        self._pinged_ms = self.scheduler.at_ms
        orphan_ms = self.scheduler.between(1, self.times.orphan_ms)
        driver.when_killed(lambda: self.scheduler.later(orphan_ms, lambda: self._end("driver killed")))
        self._watch_driver()
        self._tell(SliceConnected(self.slice_id))

    def _watch_driver(self) -> None:
        """End by itself when the driver is silent."""
        if self._over:
            return
        silent_ms = self.scheduler.at_ms - self._pinged_ms
        if silent_ms >= self.times.silence_ms:
            self._end("the driver was silent")
        else:
            self.scheduler.later(self.times.silence_ms - silent_ms, self._watch_driver)

    def _take_ping(self) -> None:
        self._pinged_ms = self.scheduler.at_ms

    def _obey(self, message: Message) -> None:
        if self._over or not self.up:
            return
        match message["op"]:
            case "start":
                self._tasks[message["host"]] = HostedTask(self, message["host"], decode_launch(message["launch"]))
            case "end":
                self._end(None)
            case "offsets":
                self._questions.pop(message["id"]).take_offset(message)
            case op if (task := self._tasks.get(message["host"])) is not None:
                task.obey(op)

    def _end(self, error: str | None) -> None:
        if self._over:
            return
        self._over, self.up = True, False
        for task in self.living():
            task.die_torn()
        self.launcher.slices.remove(self)
        self._tell(SliceGone(self.slice_id, error))

    def _tell(self, event: SliceEvent) -> None:
        def arrive() -> None:
            if not self.cut_off or isinstance(event, SliceGone):
                self.launcher.on_event(event)

        self._up.send(lambda: self.launcher.process.arrive(arrive))


class _Way:
    """One direction of a connection: messages take time and keep their order."""

    def __init__(self, scheduler: Scheduler, longest_ms: int) -> None:
        self._scheduler = scheduler
        self._longest_ms = longest_ms
        self._last_ms = 0

    def send(self, arrive: Callable[[], None]) -> None:
        now_ms = self._scheduler.at_ms
        self._last_ms = max(now_ms + self._scheduler.between(1, self._longest_ms), self._last_ms)
        self._scheduler.later(self._last_ms - now_ms, arrive)


class HostedTask:
    """One hosting of a source task: asks where it is, writes batches, reports them."""

    def __init__(self, place: SimulatedSlice, host: int, launch: TaskLaunch) -> None:
        self.host = host
        self.task = launch.task
        self.partition = {"task": launch.config.written()["task"]}
        self.alive = False
        self._place = place
        self._scheduler = place.scheduler
        self._truth = place.launcher.truth
        self._live = LiveTask(launch.task, place.launcher.process.name, launch.generation)
        self._paused = launch.paused
        self._stopping = False
        self._busy = False  # a batch is in flight
        self._batch_bytes = BUSY_BATCH_BYTES if self._scheduler.chance(place.launcher.busy_share) else 100
        self._position = -1  # not known yet
        self._scheduler.later(self._scheduler.between(1, place.times.start_ms), self._begin)

    def obey(self, op: str) -> None:
        """Carry out a command of the driver."""
        match op:
            case "stop":
                self._stopping = True
                if self.alive and not self._busy:
                    self._end()
            case "pause" | "resume" if self._paused is not (op == "pause"):
                self._paused = op == "pause"
                if self.alive and not self._busy:
                    self._go_on()

    def fail(self) -> bool:
        """Fail by its own code; False: it is ending already."""
        if self._stopping:
            return False
        self._stopping = True
        self._place.report("failed", self, trace="ValueError: as ordered")
        self._scheduler.later(self._scheduler.between(1, self._place.times.start_ms), self._end)
        return True

    def take_offset(self, answer: Message) -> None:
        """Resume from the stored offset. Without an answer the task has failed."""
        if not self.alive or self._stopping:
            return
        if "error" in answer:
            self.fail()
            return
        (stored,) = answer["answer"]
        self._position = int(stored["position"]) if stored else 0
        self._go_on()

    def die_torn(self) -> None:
        """Die in the middle of an operation, which may or may not be written."""
        if self._busy and self._scheduler.chance(0.5):
            self._truth.wrote(self.task, self._position, self._position + 1)
        self._die()

    def _begin(self) -> None:
        if not self._place.up:
            return
        if self._stopping:
            self._place.forget(self)
            self._place.report("ended", self)
            return
        self.alive = True
        self._truth.began(self._live)
        if str(self.task) in self._place.launcher.killers:
            self._scheduler.later(KILLER_MS, self._kill)
        self._go_on()

    def _kill(self) -> None:
        if self.alive:
            self._place.lose("the reader process died")

    def _go_on(self) -> None:
        if self._paused:
            self._place.report("paused", self)
        elif self._position < 0:
            self._place.ask_offset(self)
        else:
            self._place.report("running", self)
            if str(self.task) not in self._place.launcher.quiet:
                self._next_batch()

    def _next_batch(self) -> None:
        self._busy = True
        launcher = self._place.launcher
        slow_ms, launcher.slow_batch_ms = launcher.slow_batch_ms, 0
        last = self._position + self._scheduler.between(1, 9)
        wait_ms = slow_ms or self._scheduler.between(1, self._place.times.batch_ms)
        self._scheduler.later(wait_ms, lambda: self._batch_written(last))

    def _batch_written(self, last: int) -> None:
        if not self.alive:
            return
        self._truth.wrote(self.task, self._position, last)
        self._report_durable(last)
        self._position, self._busy = last, False
        if self._stopping:
            self._end()
        elif self._paused:
            self._go_on()
        else:
            self._next_batch()

    def _report_durable(self, last: int) -> None:
        moved = {"n": last - self._position, "bytes": self._batch_bytes, "skipped": 0, "topics": ()}
        self._place.report("durable", self, source_offsets=[(self.partition, {"position": last})], **moved)

    def _end(self) -> None:
        if self.alive:
            self._die()
            self._place.forget(self)
            self._place.report("ended", self)

    def _die(self) -> None:
        self.alive = False
        self._truth.ended(self._live)
