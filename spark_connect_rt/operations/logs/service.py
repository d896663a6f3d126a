"""Log lines of tasks of the whole group: each worker keeps those of what runs or ran there, any worker gathers them.

Owns the read between workers and the order of lines of several workers. Lines of a task that has moved are read where
they were logged, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.engine.log_lines import LEVELS
from spark_connect_rt.engine.task_logs import LINES_EACH, TASK_LOGS, KeptLine, TaskLogs
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.operations.logs.model import LogLine, PlacedLine, WantedLines
from spark_connect_rt.rest.peers import GroupReads, Unanswered, unanswered
from spark_connect_rt.runtime.herder.herder_api import HerderViews

READ = "task-logs"
LIMIT_MS = 2_000
ANSWER_BYTES = 4 * 1024 * 1024  # of one worker; of more the newest

log = logging.getLogger(__name__)


class GroupLogs:
    """Implements operations.logs.model.LogReads with reads between workers."""

    def __init__(
        self,
        views: HerderViews,
        reads: GroupReads,
        worker_id: str,
        logs: TaskLogs = TASK_LOGS,
        limit_ms: int = LIMIT_MS,
    ) -> None:
        """``limit_ms``: for the answers of the other workers."""
        self._limit_ms = limit_ms
        self._views = views
        self._reads = reads
        self._worker_id = worker_id
        self._logs = logs
        reads.serve(READ, self._serve)

    def lines(
        self, wanted: WantedLines, after: Mapping[str, int] | None = None, *, everywhere: bool = True
    ) -> tuple[Sequence[PlacedLine], Sequence[Unanswered]]:
        """Return the wanted lines of all workers that have some, and the workers that did not answer."""
        owners = self._owners(wanted.connector)
        arguments = {
            "connector": wanted.connector,
            "task": wanted.task,
            "tail": wanted.tail,
            "level": wanted.level,
            "after": dict(after or {}),
        }
        only = None if everywhere or owners is None else owners | {self._worker_id}
        answers = self._reads.ask(READ, arguments, self._limit_ms, only)
        found: list[PlacedLine] = []
        for answer in answers:
            if not answer.why:
                try:
                    found += [
                        placed(answer.worker.worker_id, answer.answer["run"], fields)
                        for fields in answer.answer["lines"]
                    ]
                except (LookupError, TypeError, ValueError) as error:
                    log.warning("worker=%s: its log lines cannot be read: %s", answer.worker.worker_id, error)
        if owners is None and not found:
            raise NotFoundError(f"Connector {wanted.connector} not found")
        found.sort(key=lambda line: (line.line.at_ms, line.run, line.number))
        return (found[-wanted.tail :] if wanted.tail else []), unanswered(answers)

    def _owners(self, connector: str) -> set[str] | None:
        """Return the workers that run the connector and its tasks; None: there is no such connector."""
        try:
            status = self._views.connector_status(connector)
        except NotFoundError:
            return set() if connector in self._views.list_connectors() else None
        return {task.worker_id for task in (status.connector, *status.tasks) if task.worker_id}

    def _serve(self, arguments: Mapping[str, Any]) -> Any:
        task, after, level = arguments.get("task"), arguments.get("after"), arguments.get("level")
        known = after.get(self._logs.run, 0) if isinstance(after, Mapping) else 0
        tail = arguments.get("tail")
        found = self._logs.lines(
            str(arguments.get("connector")),
            task if isinstance(task, int) else None,
            after=known if isinstance(known, int) else 0,
            tail=tail if isinstance(tail, int) and tail > 0 else LINES_EACH,
            level=level if level in LEVELS else LEVELS[0],
        )
        return {"run": self._logs.run, "lines": _within([_fields(its, kept) for its, kept in found])}


def _fields(task: int | None, kept: KeptLine) -> list[Any]:
    line = kept.line
    return [kept.number, task, kept.where, kept.host, line.at_ms, line.level, line.logger, line.message]


def _within(lines: Sequence[list[Any]]) -> Sequence[list[Any]]:
    """Return the newest lines that fit into an answer."""
    left = ANSWER_BYTES
    for position in range(len(lines) - 1, -1, -1):
        left -= 2 * len(lines[position][-1]) + 200  # JSON escapes some
        if left < 0:
            return lines[position + 1 :]
    return lines


def placed(worker_id: str, run: str, fields: Sequence[Any]) -> PlacedLine:
    """Return a line as another worker sent it. Raises TypeError, ValueError: it is invalid."""
    number, task, where, host, at_ms, level, logger, message = fields
    line = LogLine(
        at_ms=int(at_ms),
        level=str(level),
        logger=str(logger),
        task=None if task is None else int(task),
        where=str(where),
        worker_id=worker_id,
        host=str(host),
        message=str(message),
    )
    return PlacedLine(line, str(run), int(number))
