"""Log lines that executors sent, into the memory of this process. What cannot be read costs these lines alone."""

from __future__ import annotations

import logging

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.control_wire import Message
from spark_connect_rt.engine.log_lines import decoded_line
from spark_connect_rt.engine.task_logs import TaskLogs

log = logging.getLogger(__name__)


def take_lines(message: Message, logs: TaskLogs) -> None:
    """Keep the lines of a message for each of its tasks. Raises nothing; quick: the control channel waits for it."""
    try:
        tasks = [ConnectorTaskId(str(connector), int(number)) for connector, number in message["tasks"]]
        lines = [decoded_line(line) for line in message["lines"]]
        logs.add(tasks, "process" if message.get("shared") else "executor", str(message["machine"])[:255], lines)
    except (LookupError, TypeError, ValueError) as error:
        log.warning("log lines of an executor cannot be read: %s", error)
