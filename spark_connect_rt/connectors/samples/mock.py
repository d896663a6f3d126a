"""Connectors that move nothing and fail on order (Java ``tools.Mock*``): ``mock_mode``, ``delay_ms``.

``connector-failure``: the connector fails after the delay. ``task-failure``: its one task does. Otherwise they idle,
which also shows what an idle connector costs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import Connector, SinkConnector, SourceConnector
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask, Task
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.samples.numbered_source import wall_clock_ms
from spark_connect_rt.errors import ConnectError

MOCK_MODE, DELAY_MS = "mock_mode", "delay_ms"
CONNECTOR_FAILURE, TASK_FAILURE = "connector-failure", "task-failure"
DEFAULT_DELAY_MS = 15_000


def delay_ms(config: Mapping[str, str]) -> int:
    """Return when to fail. Raises ConnectError: it is not a number."""
    text = config.get(DELAY_MS)
    try:
        return DEFAULT_DELAY_MS if text is None else int(text)
    except ValueError:
        raise ConnectError(f"{DELAY_MS} is {text!r}, not a number") from None


class MockConnector(Connector):
    """The common part of both kinds: one task with the connector's own configuration, failure on order."""

    _timer: threading.Timer | None = None

    def config_def(self) -> ConfigDef:
        """Declare nothing, as Java does."""
        return ConfigDef()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration, whatever ``tasks.max`` says."""
        return [dict(self.config)]

    def start(self, config: Mapping[str, str]) -> None:
        """Begin, and with ``connector-failure`` set the time of the failure. Raises ConnectError."""
        super().start(config)
        if config.get(MOCK_MODE) == CONNECTOR_FAILURE:
            self._timer = threading.Timer(delay_ms(config) / 1000, self._fail)
            self._timer.daemon = True
            self._timer.start()

    def _fail(self) -> None:
        self.context.raise_error(ConnectError("failed on order: mock_mode=connector-failure"))

    def stop(self) -> None:
        """Drop a failure that has not come yet."""
        if self._timer is not None:
            self._timer.cancel()


class MockSourceConnector(MockConnector, SourceConnector):
    """A source that returns no records."""

    def task_class(self) -> type[Any]:
        """Return the class of the connector's tasks."""
        return MockSourceTask


class MockSinkConnector(MockConnector, SinkConnector):
    """A sink that forgets what it is given."""

    def task_class(self) -> type[Any]:
        """Return the class of the connector's tasks."""
        return MockSinkTask


class MockTask(Task):
    """The common part of both kinds of task: with ``task-failure`` fail once the delay is over."""

    clock: Callable[[], int] = staticmethod(wall_clock_ms)
    _fails_at_ms: int | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Set the time of the failure. Raises ConnectError."""
        if config.get(MOCK_MODE) == TASK_FAILURE:
            self._fails_at_ms = self.clock() + delay_ms(config)

    def stop(self) -> None:
        """There is nothing to close."""

    def fail_when_due(self) -> None:
        """Raise ConnectError once the time has come."""
        if self._fails_at_ms is not None and self.clock() > self._fails_at_ms:
            raise ConnectError("failed on order: mock_mode=task-failure")


class MockSourceTask(MockTask, SourceTask):
    """A task that polls no records, and fails on order."""

    def poll(self) -> Sequence[SourceRecord]:
        """Return nothing, or fail on order."""
        self.fail_when_due()
        return []


class MockSinkTask(MockTask, SinkTask):
    """A task that discards its records, and fails on order."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take the records, or fail on order; called every second also without any."""
        self.fail_when_due()
