"""What a dedicated MirrorMaker shows of its flows: a live table, or log lines."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.live import Live
from rich.table import Table

from spark_connect_rt.connectors.mirror.maker_config import SourceAndTarget
from spark_connect_rt.runtime.values import TaskProgress, WorkerProgress

TELL_EVERY_S = 60.0
REDRAW_EVERY_S = 0.5
NOT_UP = "waits for its cluster"

Progress = Mapping[SourceAndTarget, WorkerProgress | None]

log = logging.getLogger(__name__)


def show(progress: Callable[[], Progress], console: Console, ended: threading.Event) -> None:
    """Keep a table of the flows on a terminal; elsewhere log a line for each, now and then. Returns at the end."""
    if not console.is_terminal:
        while not ended.wait(TELL_EVERY_S):
            for line in flow_lines(progress()):
                log.info("%s", line)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while not ended.wait(REDRAW_EVERY_S):
            live.update(flows_table(progress()))


def flows_table(progress: Progress) -> Table:
    """Return a row for each task of this process; a flow without one has a row of its own."""
    table = Table(title="MirrorMaker")
    for column in ("flow", "task", "state", "records", "records/s", "MB"):
        table.add_column(column, justify="left" if column in ("flow", "task", "state") else "right")
    for flow, worker in sorted(progress.items()):
        for task in worker.tasks if worker else ():
            moved = (f"{task.records:,}", f"{task.records_per_s:,.0f}", f"{task.data_bytes / 1e6:,.1f}")
            table.add_row(str(flow), str(task.task), task.state, *moved)
        if worker is None or not worker.tasks:
            table.add_row(str(flow), "-", NOT_UP if worker is None else "no task here", "-", "-", "-")
    return table


def flow_lines(progress: Progress) -> list[str]:
    """Return a sentence for each flow: its tasks of this process by state, and what they moved."""
    return [f"flow={flow} {_sentence(worker)}" for flow, worker in sorted(progress.items())]


def _sentence(worker: WorkerProgress | None) -> str:
    if worker is None:
        return NOT_UP
    tasks = worker.tasks
    rate, records = sum(task.records_per_s for task in tasks), sum(task.records for task in tasks)
    return f"{_states(tasks)}, {records:,} records, {rate:,.0f} records/s"


def _states(tasks: tuple[TaskProgress, ...]) -> str:
    names = [task.state for task in tasks]
    counted = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    return f"{len(tasks)} tasks here" + (f" ({', '.join(counted)})" if counted else "")
