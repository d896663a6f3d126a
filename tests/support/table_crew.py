"""Tasks of one table sink in simulated time: each on its own thread, one of which runs at a time.

Owns: the schedule. A task sleeps when it waits for its records, for its commit's answer, or after a lost race, and the
task whose time comes first continues. So a seed determines everything, and commits overlap as those of processes do.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.sink_settings import TableSinkSettings, read_settings
from spark_connect_rt.connectors.lakehouse.sink_task import TableSinkTask
from spark_connect_rt.connectors.lakehouse.table_port import TableStore
from spark_connect_rt.errors import RetriableError

TOPIC = "t"
LOOP_MS, RECORD_MS = 250, 400
LIMIT_S = 120


class VirtualTime:
    """Lets one of several threads run at a time: the one whose sleep ends first."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._wake_at: dict[int, tuple[int, int]] = {}  # thread -> (time, order of going to sleep)
        self._order = 0
        self._changed = threading.Condition()
        self._running: int | None = None

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run works until all have ended. Raises the first error of any."""
        errors: list[BaseException] = []

        def guarded(number: int, work: Callable[[], None]) -> None:
            self._wait_turn(number)
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised on the thread of the test
                errors.append(error)
            finally:
                self._leave()

        threads = []
        for number, work in enumerate(works):
            self._wake_at[number] = 0, number
            threads.append(threading.Thread(target=guarded, args=(number, work), name=str(number), daemon=True))
        for thread in threads:
            thread.start()
        with self._changed:
            self._next()
        for thread in threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), "the simulation hangs"
        if errors:
            raise errors[0]

    def sleep(self, wait_ms: int) -> None:
        """Let the others run until this much time is over."""
        number = self._running
        assert number is not None
        with self._changed:
            self._order += 1
            self._wake_at[number] = self.now_ms + max(0, wait_ms), self._order
            self._next()
        self._wait_turn(number)

    @property
    def running(self) -> int | None:
        """The number of the work that runs now."""
        return self._running

    def _leave(self) -> None:
        with self._changed:
            self._next()

    def _next(self) -> None:
        self._running = None
        if self._wake_at:
            number = min(self._wake_at, key=lambda key: self._wake_at[key])
            self.now_ms = max(self.now_ms, self._wake_at.pop(number)[0])
            self._running = number
        self._changed.notify_all()

    def _wait_turn(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._running == number, LIMIT_S), "the simulation hangs"


@dataclass
class CrewMetrics:
    """Sums of counts, and the time of each commit that the task made."""

    clock_ms: Callable[[], int]
    counts: Counter[str] = field(default_factory=Counter)
    commits_at_ms: list[int] = field(default_factory=list)
    landed: int = 0
    """How often rows became visible, in a commit of the task or of another one."""

    def count(self, name: str, number: float = 1, group: str = "", **tags: str) -> None:
        self.counts[name] += int(number)
        if name == "table-commits":
            self.commits_at_ms.append(self.clock_ms())
        self.landed += name == "table-files"

    def observe(self, name: str, values: Sequence[float], group: str = "", **tags: str) -> None:
        """Ignore averages."""

    def gauge(self, name: str, value: float, group: str = "", **tags: str) -> None:
        """Ignore current values."""


class TaskKilled(BaseException):
    """Ends a task wherever it is, as SIGKILL does. A table may raise it before it makes a commit."""


class CrewContext:
    """The `SinkTaskContext` of a task of the crew."""

    previewed = False

    def __init__(self, crew: TableCrew) -> None:
        self._crew = crew
        self.metrics: Any = CrewMetrics(lambda: crew.time.now_ms)
        self.moves: dict[TopicPartition, int] = {}

    def positions(self) -> Mapping[TopicPartition, int]:
        return dict(self._crew.group)

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, "id")

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.moves |= offsets

    def timeout(self, timeout_ms: int) -> None:
        """Call the task at its usual times."""

    def errant_record_reporter(self) -> None:
        return None


class _Task(TableSinkTask):
    def __init__(self, crew: TableCrew, number: int) -> None:
        chance = random.Random(crew.seed * 100 + number)
        super().__init__(lambda: crew.time.now_ms, crew.time.sleep, chance.random, lambda: crew.time.now_ms)
        self._make = crew.make_store

    def read_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        return read_settings(config)

    def make_store(self, table: str) -> TableStore:
        return self._make(table)


class TableCrew:
    """Tasks of one connector, whose partitions move at random, often without the old owner's knowledge."""

    def __init__(
        self,
        make_store: Callable[[str], TableStore],
        seed: int,
        *,
        tasks: int,
        interval_ms: int,
        length_ms: int,
        kill_chance: float = 0.0,
        moves: bool = True,
        **more_config: str,
    ) -> None:
        """Take the stores of the table.

        Args:
            kill_chance: that a task is killed instead of a partition moved. It starts again at once.
            moves: whether partitions move.
            more_config: further settings of the connector.
        """
        self.make_store, self.seed, self.length_ms = make_store, seed, length_ms
        self.time = VirtualTime()
        self.random = random.Random(seed)
        self.group = {TopicPartition(TOPIC, number): 0 for number in range(2 * tasks)}
        self.owner = {place: number % tasks for number, place in enumerate(sorted(self.group))}
        self.orders: list[list[tuple[str, TopicPartition | None]]] = [[] for _ in range(tasks)]  # open, close, kill
        self.reading: list[dict[TopicPartition, int]] = [{} for _ in range(tasks)]
        self.config = {
            "name": "crew",
            "topics": TOPIC,
            "tasks.max": str(tasks),
            "iceberg.tables": "shop.orders",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": str(interval_ms),
            **more_config,
        }
        self._kill_chance, self._moves = kill_chance, moves
        self.contexts = [CrewContext(self) for _ in range(tasks)]
        self.counts: Counter[str] = Counter()
        self.longest_wait_ms = [0] * tasks
        """By task: the longest time from the first row that waits to a commit, or to a fence that drops all rows."""
        self._waiting_since_ms: dict[int, int] = {}
        self._commits = [0] * tasks

    def run(self) -> None:
        """Run everything, and let each task commit what it holds at the end."""
        works = [lambda number=number: self._work(number) for number in range(len(self.orders))]
        for place, task in self.owner.items():
            self.orders[task].append(("open", place))
        self.time.run([*works, *([self._move] if self._moves else [])])
        for context in self.contexts:
            self.counts += context.metrics.counts

    def _work(self, number: int) -> None:
        task = self._new_task(number)
        reading = self.reading[number]
        while self.time.now_ms < self.length_ms:
            try:
                if ("kill", None) in self.orders[number]:
                    raise TaskKilled
                self._work_once(task, number)
            except TaskKilled:
                task = self._killed(number)
        task.close(sorted(reading))
        task.stop()

    def _work_once(self, task: Any, number: int) -> None:
        reading = self.reading[number]
        self._obey(task, number)
        for place in sorted(reading):
            end = self.time.now_ms // RECORD_MS
            records = [_record(place, offset) for offset in range(reading[place], end)]
            self._put(task, number, records, place, end)
        self._put(task, number, [], None, 0)
        self._note_wait(task, number)
        safe = task.pre_commit(dict(reading))
        self.group |= {place: end for place, end in safe.items() if self.owner[place] == number}
        self.time.sleep(LOOP_MS)

    def _new_task(self, number: int) -> Any:
        task: Any = _Task(self, number)
        task.context = self.contexts[number]
        task.start(self.config)
        return task

    def _killed(self, number: int) -> Any:
        """Forget a task with all that it holds, and start it again with the partitions that it owns."""
        self.counts["kills"] += 1
        self.orders[number].clear()
        self.reading[number].clear()
        self.contexts[number].moves.clear()
        owned = [("open", place) for place, owner in self.owner.items() if owner == number]
        self.orders[number] += owned
        return self._new_task(number)

    def pause(self, wait_ms: int) -> None:
        """Stop the task that runs now, as SIGSTOP does. Its partitions go to others, and it learns of that later."""
        number = self.time.running
        if number is None or number >= len(self.orders):
            return
        self.counts["pauses"] += 1
        for place in [place for place, owner in self.owner.items() if owner == number]:
            other = self.random.choice([task for task in range(len(self.orders)) if task != number])
            self.owner[place] = other
            self.orders[other].append(("open", place))
            self.orders[number].append(("close", place))
        self.time.sleep(wait_ms)

    def _put(
        self, task: Any, number: int, records: Sequence[SinkRecord], place: TopicPartition | None, end: int
    ) -> None:
        try:
            task.put(records)
            if place is not None:
                self.reading[number][place] = end
        except RetriableError:  # the same records come again, except for those of partitions that were moved
            self.counts["retries"] += 1
        self._seek(number)

    def _note_wait(self, task: Any, number: int) -> None:
        commits = self.contexts[number].metrics.landed
        is_waiting = any(table.writer.waiting_rows for table in task._tables.values())
        if self._commits[number] != commits or not is_waiting:
            self._waiting_since_ms.pop(number, None)
        self._commits[number] = commits
        if is_waiting:
            since_ms = self._waiting_since_ms.setdefault(number, self.time.now_ms)
            self.longest_wait_ms[number] = max(self.longest_wait_ms[number], self.time.now_ms - since_ms)

    def _seek(self, number: int) -> None:
        """Read from where the task asked for, as the worker does after every call."""
        moves, reading = self.contexts[number].moves, self.reading[number]
        reading |= {place: offset for place, offset in moves.items() if place in reading}
        moves.clear()

    def _obey(self, task: Any, number: int) -> None:
        orders, self.orders[number] = self.orders[number], []
        reading = self.reading[number]
        for order, place in orders:
            if place is None:
                continue
            if order == "close" and place in reading:
                task.close([place])
                del reading[place]
                self._seek(number)
            elif order == "open" and place not in reading:
                reading[place] = self.group[place]
                task.open([place])
                self._seek(number)

    def _move(self) -> None:
        """Move partitions. The old owner hears of every second move only later, as after a long pause."""
        late: dict[int, list[tuple[int, TopicPartition]]] = defaultdict(list)
        while self.time.now_ms < self.length_ms:
            self.time.sleep(self.random.randrange(200, 1200))
            for old, waiting in late.items():
                for at_ms, place in waiting[:]:
                    if at_ms <= self.time.now_ms:
                        waiting.remove((at_ms, place))
                        if self.owner[place] != old:
                            self.orders[old].append(("close", place))
            if self.random.random() < self._kill_chance:
                self.orders[self.random.randrange(len(self.orders))].append(("kill", None))
                continue
            place = self.random.choice(sorted(self.group))
            old, new = self.owner[place], self.random.randrange(len(self.orders))
            if old == new:
                continue
            self.counts["moves"] += 1
            if self.random.random() < 0.5:
                self.orders[old].append(("close", place))
            else:
                late[old].append((self.time.now_ms + self.random.randrange(500, 4000), place))
            self.owner[place] = new
            self.orders[new].append(("open", place))


def _record(place: TopicPartition, offset: int) -> SinkRecord:
    return SinkRecord(place.topic, place.partition, offset, {"partition": place.partition, "offset": offset}, None)
