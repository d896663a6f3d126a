"""Reads the reports of the halves for the worker, answers them, and derives each task's load from them.

Owns the reading of "durable" messages, the answer to a lookup, and the few seconds of memory from which a busy task
is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import tellable
from spark_connect_rt.engine.driver.model import TaskRun
from spark_connect_rt.engine.driver.slot_packing import PackingLimits, TaskLoad, is_calm, tasks_to_move
from spark_connect_rt.engine.executor.control_wire import Message, decode_offsets, encode_launch, encode_message
from spark_connect_rt.engine.slot_losses import LossLimits, is_cleared
from spark_connect_rt.engine.task_runner import BatchDurable, TaskLaunch, TaskMeasured, TaskWaiting

WINDOW_MS = 5_000.0
CALM_DOUBLED_MAX = 6
log = logging.getLogger(__name__)


def batch_durable(launch: TaskLaunch, message: Message) -> BatchDurable:
    """Return the event of a "durable" message of ``launch``'s run."""
    return BatchDurable(
        task=launch.task,
        run=launch.run,
        generation=launch.generation,
        records=message["n"],
        data_bytes=message["bytes"],
        source_offsets=tuple((partition, offset) for partition, offset in message.get("source_offsets", ())),
        sink_offsets=tuple(decode_offsets(message.get("sink_offsets", ())).items()),
        skipped=message["skipped"],
        topics=tuple(message["topics"]),
    )


def task_measured(launch: TaskLaunch, message: Message) -> TaskMeasured:
    """Return the event of a "measures" message of ``launch``'s run."""
    return TaskMeasured(
        task=launch.task,
        run=launch.run,
        host=message["host"],
        half=message["half"],
        totals=message["totals"],
        longest=message["longest"],
        call=message.get("call", ""),
        call_ms=message.get("call_ms", 0),
        positions=tuple(decode_offsets(message.get("positions", ())).items()),
        where=message.get("where", ""),
        away=message.get("away", ""),
        away_ms=message.get("away_ms", 0),
        events=tuple((str(summary), dict(details)) for summary, details in message.get("events", ())),
        topics=tuple(message.get("topics", ())),
    )


WHY_PATIENCE_MS = 3_000  # most shortages are over by then


def waiting_news(runs: Iterable[TaskRun], now_ms: float, patience_ms: float, why: str = "") -> Iterator[TaskWaiting]:
    """Yield the worker's news of runs that wait for an executor for ``patience_ms``, or do no more.

    ``why``: the reason why no slot can be opened. It is reported after ``WHY_PATIENCE_MS``, although that is not late.
    """
    for run in runs:
        waited_ms = 0.0 if run.waits_since_ms is None else now_ms - run.waits_since_ms
        late = waited_ms > 0 and waited_ms >= patience_ms
        reports = late or (bool(why) and waited_ms >= WHY_PATIENCE_MS)
        reported = f"{'late' if late else 'early'} {why}" if reports else ""
        if reported != run.reported_waiting:
            run.reported_waiting = reported
            if reports:
                yield TaskWaiting(run.task, run.launch.run, int(waited_ms), why, late)
            else:
                yield TaskWaiting(run.task, run.launch.run, 0)


def remember_moved(run: TaskRun, now_ms: float, data_bytes: int, records: int) -> None:
    """Keep what a run moved within the window."""
    run.moved.append((now_ms, data_bytes, records))
    while run.moved[0][0] < now_ms - WINDOW_MS:
        run.moved.popleft()


def busy_tasks(
    runs: Sequence[TaskRun], limits: PackingLimits, slots_open: int, now_ms: float
) -> tuple[ConnectorTaskId, ...]:
    """Return which runs should leave a shared slot. A run hosted for less than the window is not judged."""
    return tasks_to_move([_load(run, now_ms) for run in runs], limits, slots_open)


def calm_tasks(runs: Iterable[TaskRun], limits: PackingLimits, now_ms: float, calm_ms: float) -> Iterator[TaskRun]:
    """Yield the runs that have their own slot for being busy, and were calm for so long that they should share.

    The time is doubled each time a run leaves a shared slot: one that is busy now and then moves less and less. Java
    tasks stay, because a restart costs them more than a slot: they read a schema's history again.
    """
    for run in runs:
        may_share = run.alone and run.launch.java is None and _settled(run, now_ms)
        if not (may_share and is_calm(_load(run, now_ms), limits)):
            run.calm_since_ms = None
        elif run.calm_since_ms is None:
            run.calm_since_ms = now_ms
        elif now_ms - run.calm_since_ms >= calm_ms * 2 ** min(run.outings - 1, CALM_DOUBLED_MAX):
            yield run


def cleared_tasks(runs: Iterable[TaskRun], limits: LossLimits, now_ms: float) -> Iterator[TaskRun]:
    """Yield the runs that were hosted apart for losses, for so long that they should share again."""
    return (run for run in runs if run.suspected and is_cleared(run.losses, now_ms - run.hosted_at_ms, limits))


def _settled(run: TaskRun, now_ms: float) -> bool:
    return now_ms - run.hosted_at_ms >= WINDOW_MS


def _load(run: TaskRun, now_ms: float) -> TaskLoad:
    settled = _settled(run, now_ms)
    recent = [sample for sample in run.moved if settled and sample[0] >= now_ms - WINDOW_MS]
    seconds = WINDOW_MS / 1000
    return TaskLoad(
        run.task,
        run.slot.number if run.slot is not None else 0,
        run.isolation,
        bytes_per_s=sum(sample[1] for sample in recent) / seconds,
        records_per_s=sum(sample[2] for sample in recent) / seconds,
    )


def unsendable(launch: TaskLaunch) -> str:
    """Say why a launch cannot be sent to an executor; empty: it can."""
    try:
        encode_message({"op": "start", "launch": encode_launch(launch)})
    except TypeError as error:
        return f"its configuration cannot be sent to an executor: {error}"
    return ""


def offsets_answer(task: ConnectorTaskId, number: int, read: Callable[[], list[Mapping[str, Any] | None]]) -> Message:
    """Return the answer to a task's look-up: the offsets, or why they could not be read or sent."""
    try:
        answer: Message = {"op": "offsets", "id": number, "answer": read()}
        encode_message(answer)  # an offset that cannot be sent, such as one of 65 bits, fails who asked
    except Exception as error:
        log.exception("task=%s: source offsets could not be read", task)
        return {"op": "offsets", "id": number, "error": tellable(f"{type(error).__name__}: {error}")}
    return answer
