"""The execution engine of a simulation: executor sides that live beside their driver (port TaskRunner).

Owns ``SimulatedTaskRunner`` (the driver's part: dies and freezes with its worker) and ``ExecutorSide`` (a task's part:
reads where it is, writes batches, reports them). An executor side outlives a frozen driver until it has heard nothing
for the silence limit, and a killed one by a moment, as with the control channel of spark.driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.ports.task_runner import (
    BatchDurable,
    OnTaskEvent,
    Pause,
    ReadOffsets,
    Resume,
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
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.testing.simulated_invariants import GroundTruth
from spark_connect_rt.testing.simulated_threads import Scheduler, SimulatedProcess

LOSSES_MAX = 3
CONTACT_PATIENCE_MS = 500


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """How long things take, ms."""

    start_ms: int = 300  # at most, until a task's code runs
    batch_ms: int = 5_000  # at most, from one durable batch to the next
    kill_ms: int = 1_000  # at most, until what was killed is certainly dead
    silence_ms: int = 6_000  # (E5) an executor side that hears nothing of its driver for so long ends itself
    ping_ms: int = 2_000  # the driver says something at least this often
    mend_ms: int = 200  # before what was lost is started again
    way_ms: int = 5  # of one control message


class SimulatedTaskRunner:
    """A TaskRunner of one worker."""

    def __init__(self, process: SimulatedProcess, truth: GroundTruth, times: EngineTimes) -> None:
        self.process = process
        self.truth = truth
        self.times = times
        self.slow_batch_ms = 0  # the next batch of whoever writes one takes this long
        self._runs: dict[ConnectorTaskId, _Run] = {}
        self._closing = False
        self._none_left = process.condition()
        self._pinged_ms = 0
        self.may_vouch: Callable[[], bool] = lambda: True

    def open(self, on_event: OnTaskEvent, read_offsets: ReadOffsets) -> None:
        """See TaskRunner."""
        self.on_event = on_event
        self.read_offsets = read_offsets
        self._ping()

    def live_while(self, may_vouch: Callable[[], bool]) -> None:
        """See TaskRunner."""
        self.may_vouch = may_vouch

    def do(self, command: TaskCommand) -> None:
        """See TaskRunner; sources only here, which have no partitions."""
        if isinstance(command, Start):
            self._start(command.launch)
            return
        run = self._runs.get(command.task)
        if run is None:
            return
        match command:
            case Pause() | Resume():
                run.set_paused(isinstance(command, Pause))
            case Stop(_, timeout_ms):
                run.stop(timeout_ms)

    def _start(self, launch: TaskLaunch) -> None:
        if launch.task in self._runs or self._closing:
            self.on_event(TaskFailed(launch.task, launch.run, "not started: the task runs, or the engine closes"))
            self.on_event(TaskEnded(launch.task, launch.run, drained=True))
            return
        run = self._runs[launch.task] = _Run(self, launch)
        run.host()

    def close(self, timeout_ms: int) -> None:
        """See TaskRunner."""
        self._closing = True
        for run in list(self._runs.values()):
            run.stop(timeout_ms)
        self._none_left.wait_for(lambda: not self._runs, (timeout_ms + 30_000) / 1000)

    def lose_executors(self) -> int:
        """Let every executor side of this worker die; return how many there were."""
        sides = [run.side for run in self._runs.values() if run.side is not None and run.side.alive]
        for side in sides:
            side.die_lost()
        return len(sides)

    def fail_tasks(self) -> int:
        """Let every task that runs here fail by its own code; return how many did."""
        runs = [run for run in self._runs.values() if run.side is not None and run.side.alive]
        return sum(run.fail() for run in runs)

    @property
    def pinged_ms(self) -> int:
        """When the driver last told its executors to live on."""
        return self._pinged_ms

    def forget(self, run: _Run) -> None:
        """A run is over."""
        if self._runs.get(run.launch.task) is run:
            del self._runs[run.launch.task]
        self._none_left.notify_all()

    def _ping(self) -> None:
        if self.may_vouch():
            self._pinged_ms = self.process.scheduler.at_ms
        self.process.later(self.times.ping_ms, self._ping)


class _Run:
    """One run as its driver knows it."""

    def __init__(self, engine: SimulatedTaskRunner, launch: TaskLaunch) -> None:
        self.engine = engine
        self.launch = launch
        self.paused = launch.paused
        self.side: ExecutorSide | None = None
        self._losses = 0
        self._stopping = False
        self._over = False
        self._scheduler = engine.process.scheduler

    def host(self) -> None:
        """Have an executor take the run."""
        if self._over or self._stopping:
            return
        if not self.engine.may_vouch():
            self.engine.process.later(CONTACT_PATIENCE_MS, self.host)
        else:
            self.side = ExecutorSide(self, self._scheduler, self.engine.truth, self.engine.times)

    def set_paused(self, paused: bool) -> None:
        """Pause or resume."""
        self.paused = paused
        side = self.side
        if side is not None:
            self._send(lambda: side.set_paused(paused))

    def stop(self, timeout_ms: int) -> None:
        """Drain; at the deadline kill."""
        side, self._stopping = self.side, True
        if side is None:
            self.end(drained=True)
            return
        self._send(side.drain)
        self.engine.process.later(timeout_ms, self._overdue)

    def fail(self) -> bool:
        """The task's own code raised; return whether it could (it was not being stopped)."""
        side = self.side
        if side is None or self._stopping or self._over:
            return False
        self._stopping = True
        self.hear(TaskFailed(self.launch.task, self.launch.run, "ValueError: as ordered"))
        side.kill()
        return True

    def hear(self, event: TaskEvent) -> None:
        """Take a report of the executor side in."""
        if not self._over:
            self._losses = 0 if isinstance(event, BatchDurable) else self._losses
            self.engine.on_event(event)

    def ended(self, drained: bool) -> None:
        """The executor side is gone in order, or was killed."""
        self.end(drained)

    def lost(self) -> None:
        """The executor side ended itself: what was lost is mended, by this run."""
        self.side = None
        if self._over:
            return
        if self._stopping:
            self.end(drained=False)
            return
        self._losses += 1
        if self._losses > LOSSES_MAX:
            self.hear(TaskFailed(self.launch.task, self.launch.run, "lost too often"))
            self.end(drained=False)
            return
        self.engine.process.later(self.engine.times.mend_ms, self.host)

    def end(self, drained: bool) -> None:
        """Tell the worker that nothing is left of it."""
        if not self._over:
            self._over = True
            self.engine.forget(self)
            self.engine.on_event(TaskEnded(self.launch.task, self.launch.run, drained))

    def _overdue(self) -> None:
        if self.side is not None and not self._over:
            self.side.kill()

    def _send(self, call: Callable[[], None]) -> None:
        self._scheduler.later(self._scheduler.between(1, self.engine.times.way_ms), call)


class ExecutorSide:
    """A task where it runs. ``alive`` is the ground truth of invariant S1."""

    def __init__(self, run: _Run, scheduler: Scheduler, truth: GroundTruth, times: EngineTimes) -> None:
        self.task = run.launch.task
        self.launch = run.launch
        self.worker = run.engine.process.name
        self.alive = False
        self._run = run
        self._driver = run.engine.process
        self._scheduler = scheduler
        self._truth = truth
        self._times = times
        self._paused = run.paused
        self._draining = False
        self._busy = False
        self._position = -1  # not known yet
        self._began_ms = 0
        self._last_arrival_ms = 0
        self._partition = {"task": run.launch.config["task"]}
        scheduler.later(scheduler.between(1, times.start_ms), self._begin)

    def set_paused(self, paused: bool) -> None:
        """Poll no more, or again."""
        self._paused = paused
        if self.alive and self._position >= 0 and not self._draining and not self._busy:
            self._say_state()
            self._next_batch()

    def drain(self) -> None:
        """End after the batch under way."""
        self._draining = True
        if self.alive and not self._busy:
            self._end(drained=True)

    def kill(self) -> None:
        """Die within the time killing takes; what is under way may or may not be written."""
        self._scheduler.later(self._scheduler.between(1, self._times.kill_ms), self._die_killed)

    def _begin(self) -> None:
        if self._draining or not self._driver.alive:
            self._report(lambda: self._run.ended(True))
            return
        self.alive = True
        self._began_ms = self._scheduler.at_ms
        self._truth.began(self)
        self._driver.when_killed(lambda: self._scheduler.later(self._scheduler.between(1, 500), self.die_lost))
        self._watch_driver()
        self._report(self._ask_position)

    def _ask_position(self) -> None:
        self._driver.start(f"offsets-{self.task}", self._look_up)

    def _look_up(self) -> None:
        """Runs in the driver: the store may block."""
        if not self.alive:
            return
        try:
            stored = self._run.engine.read_offsets(self.task, [self._partition])[0]
        except RetriableError:
            self._driver.later(1_000, self._ask_position)
            return
        position = int(stored["position"]) if stored else 0
        self._send_back(lambda: self._known(position))

    def _known(self, position: int) -> None:
        if not self.alive or self._position >= 0:
            return
        self._position = position
        self._say_state()
        self._next_batch()

    def _say_state(self) -> None:
        kind = TaskPaused if self._paused else TaskRunning
        self._report(lambda: self._run.hear(kind(self.task, self.launch.run)))

    def _next_batch(self) -> None:
        if not self.alive or self._busy or self._paused:
            return
        self._busy = True
        engine = self._run.engine
        slow_ms, engine.slow_batch_ms = engine.slow_batch_ms, 0
        wait_ms = slow_ms or self._scheduler.between(1, self._times.batch_ms)
        first, last = self._position, self._position + self._scheduler.between(1, 9)
        self._scheduler.later(wait_ms, lambda: self._batch_durable(first, last))

    def _batch_durable(self, first: int, last: int) -> None:
        if not self.alive:
            return
        self._truth.wrote(self.task, first, last)
        self._position, self._busy = last, False
        batch = BatchDurable(
            self.task,
            self.launch.run,
            self.launch.generation,
            records=last - first,
            data_bytes=last - first,
            source_offsets=((self._partition, {"position": last}),),
        )
        self._report(lambda: self._run.hear(batch))
        if self._draining:
            self._end(drained=True)
        elif self._paused:
            self._say_state()
        else:
            self._next_batch()

    def _end(self, drained: bool) -> None:
        if self.alive:
            self._die()
            self._report(lambda: self._run.ended(drained))

    def _die_killed(self) -> None:
        if self.alive:
            if self._busy and self._scheduler.chance(0.5):
                self._truth.wrote(self.task, self._position, self._position + 1)
            self._end(drained=False)

    def _watch_driver(self) -> None:
        """End by itself when the driver is dead or silent."""
        if not self.alive:
            return
        silent_ms = self._scheduler.at_ms - max(self._began_ms, self._run.engine.pinged_ms)
        if not self._driver.alive or silent_ms >= self._times.silence_ms:
            self.die_lost()
            return
        self._scheduler.later(self._times.silence_ms - silent_ms, self._watch_driver)

    def die_lost(self) -> None:
        """Die without being asked; the driver is told that it was lost."""
        if self.alive:
            self._die()
            self._report(self._run.lost)

    def _die(self) -> None:
        self.alive = False
        self._truth.ended(self)

    def _report(self, call: Callable[[], Any]) -> None:
        """Send something to the driver; reports keep their order."""
        at_ms = self._scheduler.at_ms + self._scheduler.between(1, self._times.way_ms)
        self._last_arrival_ms = at_ms = max(at_ms, self._last_arrival_ms)
        self._scheduler.later(at_ms - self._scheduler.at_ms, lambda: self._driver.arrive(call))

    def _send_back(self, call: Callable[[], None]) -> None:
        self._scheduler.later(self._scheduler.between(1, self._times.way_ms), call)
