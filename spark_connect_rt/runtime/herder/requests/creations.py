"""Connectors that several clients create at the same time: one write of the config topic, read back once.

Owns what waits for that write, from one request to the last of the same tick. A large configuration is written alone:
what a broker refuses of it must be no one else's failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from spark_connect_rt.errors import AlreadyExistsError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.requests_api import CreateConnector, TickRequest
from spark_connect_rt.runtime.herder.topic_calls import TopicCalls
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorInfo
from spark_connect_rt.topics.target_state import TargetState

TOGETHER = CreateConnector.__name__
MOST = 100  # connectors of one write
LARGE_CHARACTERS = 100_000  # of all settings; a broker takes records of 1 MB unless it is configured otherwise


@dataclass(slots=True)
class _Creation:
    name: str
    config: Mapping[str, str]
    target: TargetState | None
    answer: Future[ConfigWritten] = field(default_factory=Future)


def queued_as(request: TickRequest) -> str:
    """Return what a request is called in the queue; those called TOGETHER may share a write."""
    if isinstance(request, CreateConnector) and _characters(request.config) > LARGE_CHARACTERS:
        return f"{TOGETHER} (large)"
    return type(request).__name__


def _characters(config: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in config.items())


class Creations:
    """All on the tick thread."""

    def __init__(
        self,
        deps: HerderDependencies,
        calls: TopicCalls,
        info: Callable[[str], ConnectorInfo],
        not_written: Callable[[Exception], None],
    ) -> None:
        """``info`` describes a connector for its answer; ``not_written`` is called once for a write that failed."""
        self._store = deps.config_store
        self._calls = calls
        self._info = info
        self._not_written = not_written
        self._waiting: list[_Creation] = []
        self._characters = 0

    @property
    def waiting(self) -> int:
        """Return how many ``write`` has to write; nothing else may be begun before it."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Return whether no more goes into this write."""
        return len(self._waiting) >= MOST or self._characters > LARGE_CHARACTERS

    def refuse_waiting(self, name: str) -> None:
        """Raise AlreadyExistsError if a connector of that name is about to be written."""
        if any(creation.name == name for creation in self._waiting):
            raise AlreadyExistsError(f"Connector {name} is being created by another request")

    def add(self, name: str, config: Mapping[str, str], target: TargetState | None) -> Future[ConfigWritten]:
        """Take one that may be created, for the next ``write``."""
        creation = _Creation(name, config, target)
        self._waiting.append(creation)
        self._characters += _characters(config)
        return creation.answer

    def write(self) -> None:
        """Begin the write, if there is anything to write; each is answered once all of it was read back."""
        together, self._waiting, self._characters = self._waiting, [], 0
        if not together:
            return
        names = f"connector {together[0].name}" + (f" and {len(together) - 1} more" if len(together) > 1 else "")

        def done(error: Exception | None, _now_ms: int) -> None:
            if error is not None:
                self._not_written(error)
            for creation in together:
                try:
                    if error is not None:
                        raise error
                    creation.answer.set_result(ConfigWritten(True, self._info(creation.name)))
                except Exception as failure:  # noqa: BLE001 - the request's failure is its answer
                    creation.answer.set_exception(failure)

        configs = [(creation.name, creation.config, creation.target) for creation in together]
        stage = f"writing a config for {names} to the config topic"
        self._calls.begin(stage, lambda: self._store.put_connector_configs(configs), done)
