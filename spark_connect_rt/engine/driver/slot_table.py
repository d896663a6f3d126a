"""The life of slots: opened, filled, retired at the end of their length, killed when a task is stuck.

Owns where runs are hosted; the engine owns the runs themselves. Called only on the engine's loop. Which slot a task
gets is decided by engine.driver.slot_packing.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import asdict

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.driver.loop import Loop
from spark_connect_rt.engine.driver.model import EngineSettings, Phase, Slot, TaskRun
from spark_connect_rt.engine.driver.slot_jobs import SlotLauncher
from spark_connect_rt.engine.driver.slot_packing import Isolation, SlotFacts, choose_apart, choose_slot
from spark_connect_rt.engine.executor.control_wire import encode_expected, encode_launch, encode_offsets
from spark_connect_rt.engine.slot_losses import named, opening_delay_ms
from spark_connect_rt.engine.task_runner import Expect

OPENING_LOOK_MS = 500  # while one slot shows whether any can be opened again
JVM_REPORTS_WITHIN_MS = 5_000
log = logging.getLogger(__name__)


class SlotTable:
    """Every slot of this worker."""

    def __init__(
        self,
        launcher: SlotLauncher,
        loop: Loop,
        settings: EngineSettings,
        now_ms: Callable[[], float],
        move: Callable[[TaskRun, Slot | None, float | None], None],
    ) -> None:
        self._launcher = launcher
        self._loop = loop
        self._settings = settings
        self._now_ms = now_ms
        self._move = move  # asks the engine to drain a run, in so many ms, and continue in another slot
        self._slots: dict[int, Slot] = {}
        self._slot_numbers = itertools.count(1)
        self._host_numbers = itertools.count(1)
        self._failed_openings = 0  # in a row
        self._opens_from_ms = 0.0  # not before
        self.why_not_opened = ""  # since a slot could not be opened, until one can

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, number: int) -> Slot | None:
        """Return a slot, None once it is gone."""
        return self._slots.get(number)

    def open_slot(self, *, exclusive: bool = False) -> Slot:
        """Launch one more slice and return its slot; ``exclusive``: for one task alone."""
        number, now = next(self._slot_numbers), self._now_ms()
        handle = self._launcher.launch(number)
        slot = Slot(number, handle, opened_at_ms=now, exclusive=exclusive, idle_since_ms=now)
        self._slots[number] = slot
        log.info("slot=%d opened exclusive=%s", number, exclusive)
        return slot

    def prewarm(self) -> None:
        """Open a slot before the first task asks: a first Spark job takes seconds."""
        if not self._slots:
            self.open_slot()

    # -- where runs go

    def place(self, run: TaskRun) -> float:
        """Host a run, now or as soon as its slot is connected; else return in how many ms to try again.

        A slot that cannot be opened (no free descriptor, memory, disk, process or core, or Spark refuses the job)
        fails no task. Opening one is tried again, and tasks that fit into an open slot do not wait for that.
        """
        slot, run.target = run.target, None
        if slot is None or slot.number not in self._slots or not slot.takes_tasks():
            if (wait_ms := self._opening_wait_ms()) and self._chosen(run) is None:
                run.waits_since_ms = self._now_ms() if run.waits_since_ms is None else run.waits_since_ms
                return wait_ms
            slot = self._choose(run)
        run.slot, run.phase = slot, Phase.WAITING
        if slot.connected:
            self._host(run, slot)
        else:
            slot.waiting.append(run)
            run.waits_since_ms = self._now_ms() if run.waits_since_ms is None else run.waits_since_ms
        return 0.0

    def _opening_wait_ms(self) -> float:
        """Return how long no slot is opened, 0: one may be. After a failure one at a time is tried."""
        trying = any(not (slot.connected or slot.ending) for slot in self._slots.values())
        if self._failed_openings and trying:
            return OPENING_LOOK_MS
        return max(0.0, self._opens_from_ms - self._now_ms())

    def _opening_failed(self, slot: Slot, error: str) -> None:
        self._failed_openings += 1
        self.why_not_opened = self.why_not_opened or f"no process can be opened: {error}"
        delay_ms = opening_delay_ms(self._failed_openings)
        self._opens_from_ms = self._now_ms() + delay_ms
        waiting = named([run.task for run in slot.waiting]) or "none"
        log.warning(
            "slot=%d cannot be opened, retrying in %d ms; tasks that wait for it: %s; %s",
            slot.number,
            delay_ms,
            waiting,
            error,
        )

    def expect(self, expected: Expect) -> None:
        """Have the slot that a task would get now, if there is one, prepare for it."""
        number = self._fitting(Isolation.AUTO, crowds=False)
        if number is not None and self._slots[number].connected:
            self._slots[number].handle.send(encode_expected(expected))

    def shared_beside(self, run: TaskRun) -> Slot | None:
        """Open the run's own slot to others; return a shared slot that the run should move to, if there is one.

        The engine asks again until the run shares a slot, since other isolated runs may be cleared later. Java tasks
        stay where they are: their restart is expensive.
        """
        assert run.slot is not None
        if run.suspected or run.alone or run.isolation is Isolation.PROCESS or run.launch.java is not None:
            return None
        run.slot.exclusive = False
        if run.slot.load() > 1:
            run.shares_for = ""
            return None
        number = self._fitting(run.isolation, without=run.slot)
        found, here = None if number is None else self._slots[number], run.slot
        if found is None or found.load() == 0 or (-found.load(), found.number) > (-here.load(), here.number):
            return None  # of two that could change places one stays
        return found

    def shared_jvm(self, run: TaskRun) -> list[ConnectorTaskId]:
        """Return the tasks that were in the JVM of a run which reports that it is gone: each of them reports it."""
        slot, java, now = run.slot, run.launch.java, self._now_ms()
        assert slot is not None
        lost_at_ms, code, tasks = slot.lost_jvm
        if code != java or not tasks or now - lost_at_ms > JVM_REPORTS_WITHIN_MS:
            tasks = tuple(host.task for host in slot.hosts.values() if host.launch.java == java)
            slot.lost_jvm = (now, java, tasks)
        return [task for task in tasks if task != run.task]

    def _fitting(
        self, isolation: Isolation, *, alone: bool = False, crowds: bool = True, without: Slot | None = None
    ) -> int | None:
        """Return the slot for one more task, None: a new one."""
        facts = self._facts(without)
        if alone:
            facts = [slot for slot in facts if slot.tasks == 0]
        return choose_slot(facts, isolation, self._settings.limits, len(self._slots), crowds=crowds)

    def _facts(self, without: Slot | None = None) -> list[SlotFacts]:
        return [
            SlotFacts(slot.number, slot.load(), slot.exclusive, slot.has_suspects())
            for slot in self._slots.values()
            if slot.takes_tasks() and slot is not without
        ]

    def _chosen(self, run: TaskRun) -> int | None:
        """Return the slot that a run would get, None: a new one."""
        if run.suspected and run.isolation is not Isolation.PROCESS:
            return choose_apart(self._facts(), self._settings.limits, len(self._slots))
        crowds = not run.alone and run.launch.java is None  # a JVM's heap is for as many as the setting says
        return self._fitting(run.isolation, alone=run.alone, crowds=crowds)

    def _choose(self, run: TaskRun) -> Slot:
        alone = run.alone
        number = self._chosen(run)
        chosen = self.open_slot() if number is None else self._slots[number]
        chosen.exclusive = chosen.exclusive or (chosen.load() == 0 and (alone or run.isolation.value == "process"))
        return chosen

    def _host(self, run: TaskRun, slot: Slot) -> None:
        host = next(self._host_numbers)
        run.host, run.phase, run.hosted_at_ms = host, Phase.HOSTED, self._now_ms()
        run.wants_commits, run.waits_since_ms = False, None
        run.moved.clear()
        slot.hosts[host] = run
        launch = {**encode_launch(run.launch), "paused": run.paused}
        slot.handle.send({"op": "start", "host": host, "launch": launch})
        if run.group_generation is not None:
            slot.handle.send({"op": "generation", "host": host, **asdict(run.group_generation)})
        if run.positions:
            slot.handle.send({"op": "assign", "host": host, "offsets": encode_offsets(run.positions)})

    def leave(self, run: TaskRun) -> None:
        """Take a run out of its slot: it ended there, or never got in."""
        slot, host = run.slot, run.host
        run.slot = run.host = None
        if slot is None:
            return
        if host is None:
            slot.waiting.remove(run)
        else:
            slot.hosts.pop(host, None)
            slot.overdue.discard(host)
        if slot.load() == 0:
            slot.idle_since_ms = self._now_ms()
            slot.exclusive = False
        if slot.ending:
            return
        if slot.killed_when_empty and set(slot.hosts) <= slot.overdue:
            self._kill(slot) if slot.hosts else self.end(slot)
        elif slot.successor is not None and slot.load() == 0:
            self.end(slot)

    # -- how slots end

    def end(self, slot: Slot) -> None:
        """Ask an empty slot to end; SliceGone follows."""
        slot.ending = True
        if slot.connected:
            slot.handle.send({"op": "end"})
        else:
            self._kill(slot)

    def _kill(self, slot: Slot) -> None:
        if not slot.killed:
            slot.ending = slot.killed = True
            slot.handle.abort()

    def condemn(self, run: TaskRun) -> None:
        """A run passed its stop deadline: move its neighbours out, then kill the slot.

        A thread cannot be killed, its process can; neighbours get a short grace to drain.
        """
        slot = run.slot
        if slot is None or run.host is None or slot.killed:
            return
        slot.overdue.add(run.host)
        slot.killed_when_empty = True
        log.warning("slot=%d task=%s is past its deadline, so the slot is killed", slot.number, run.task)
        for neighbour in list(slot.hosts.values()):
            if neighbour.phase is Phase.HOSTED:
                self._move(neighbour, None, self._settings.neighbour_grace_ms)
        if set(slot.hosts) <= slot.overdue:
            self._kill(slot)
        else:
            self._loop.later(self._settings.neighbour_grace_ms, lambda: self._kill(slot))

    def connected(self, number: int) -> None:
        """Both halves of a slice are up: host what waited for it."""
        slot = self._slots.get(number)
        if slot is None or slot.ending:
            return
        slot.connected = True
        self._failed_openings, self._opens_from_ms, self.why_not_opened = 0, 0.0, ""
        waiting, slot.waiting = slot.waiting, []
        for run in waiting:
            self._host(run, slot)
        for retiring in [other for other in self._slots.values() if other.successor is slot]:
            self._hand_over(retiring, slot)

    def _hand_over(self, retiring: Slot, successor: Slot) -> None:
        for run in list(retiring.hosts.values()):
            if run.phase is Phase.HOSTED:
                self._move(run, successor, None)
        if retiring.load() == 0:
            self.end(retiring)

    def gone(self, number: int, error: str | None) -> tuple[Slot, list[TaskRun]] | None:
        """Forget a slice that is certainly dead; return it and the runs it had. ``error``: why it ended unasked."""
        slot = self._slots.pop(number, None)
        if slot is None:
            return None
        if not (slot.connected or slot.ending):
            self._opening_failed(slot, error or "the slice ended before it was ready")
        runs = slot.runs()
        for run in runs:
            run.slot = run.host = None
        for retiring in self._slots.values():
            if retiring.successor is slot:  # try again after another length
                retiring.successor, retiring.opened_at_ms = None, self._now_ms()
        return slot, runs

    # -- once a second

    def housekeeping(self, *, closing: bool) -> None:
        """Retire slots that are as old as a slice may be; end empty ones that lingered, all but one."""
        now = self._now_ms()
        for slot in list(self._slots.values()):
            self._warn_when_starved(slot, now)
            self._share_when_starved(slot, now)
            if not slot.takes_tasks() or not slot.connected:
                continue
            if slot.hosts and now - slot.opened_at_ms >= self._settings.slice_length_ms and not closing:
                if self._opening_wait_ms():
                    continue
                slot.successor = self.open_slot(exclusive=slot.exclusive)
            elif slot.load() == 0 and self._may_go(slot, now):
                self.end(slot)

    def _warn_when_starved(self, slot: Slot, now_ms: float) -> None:
        """Say once that Spark has not given a slot its core; on a full cluster this would be silent."""
        late = now_ms - slot.opened_at_ms >= self._settings.slot_patience_ms
        if late and slot.waiting and not slot.connected and not slot.starved:
            slot.starved = True
            tasks = ", ".join(str(run.task) for run in slot.waiting)
            log.warning(
                "slot=%d still waits for Spark, and so do tasks %s. If all cores are in use (each slot needs "
                "one), give the application more cores, or lower connectrt.slots.max. If the cluster's master "
                "restarted and forgot the application, submit this worker again",
                slot.number,
                tasks,
            )

    def _share_when_starved(self, slot: Slot, now_ms: float) -> None:
        """Have suspects that get no slot for themselves, for lack of a core, share one that is up: late beats never."""
        up = [candidate for candidate in self._slots.values() if candidate.connected and candidate.takes_tasks()]
        late = now_ms - slot.opened_at_ms >= self._settings.apart_patience_ms
        if slot.connected or not (late and up and slot.has_suspects()):
            return
        for run in list(slot.waiting):
            self.leave(run)
            run.target = min(
                up, key=lambda candidate: (not candidate.has_suspects(), candidate.load(), candidate.number)
            )
            self.place(run)
        if not slot.ending:
            self.end(slot)

    def _may_go(self, slot: Slot, now_ms: float) -> bool:
        """Return whether an empty slot lingered long enough; the last one stays warm for a limited time."""
        others = [other for other in self._slots.values() if other is not slot and other.takes_tasks()]
        if now_ms - slot.opened_at_ms >= self._settings.slice_length_ms:
            return True
        return bool(others) and now_ms - slot.idle_since_ms >= self._settings.idle_linger_ms

    def end_all(self) -> None:
        """Ask every slot to end; they are empty."""
        for slot in list(self._slots.values()):
            if not slot.ending:
                self.end(slot)

    def kill_all(self) -> None:
        """Kill every slot, as at the end of the engine."""
        for slot in list(self._slots.values()):
            self._kill(slot)
