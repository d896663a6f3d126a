"""The connector of a replay's own, made and deleted as any other: by the leader, through its herder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as LateError
from typing import TypeVar

from spark_connect_rt.errors import NotFoundError, NotLeaderError, RetriableError, TimedOutError
from spark_connect_rt.kafka.ports_group_offsets import GroupOffsets
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.runtime.herder.api import HerderApi
from spark_connect_rt.runtime.herder.requests_api import CreateConnector, DeleteConnector, Request

REQUEST_S = 60.0
FAILED = "FAILED"
NOTE = "a replay of dead letters"
T = TypeVar("T")


class HerderFeed:
    """ConnectorFeed over one worker's herder. Any thread but the herder's own."""

    def __init__(
        self,
        herder: HerderApi,
        offsets: GroupOffsets,
        admin: Callable[[], Mapping[str, str]],
        history: History | None = None,
    ) -> None:
        """``admin``: the properties of an admin client of the worker's cluster; ``history``: learns who asked."""
        self._herder = herder
        self._history = history
        self._offsets = offsets
        self._admin = admin

    def can_begin(self) -> bool:
        """See ``ConnectorFeed.can_begin``."""
        return self._herder.views.is_leader()

    def begin(self, name: str, config: Mapping[str, str]) -> None:
        """See ``ConnectorFeed.begin``."""
        if name not in self._herder.views.list_connectors():
            self._submit(CreateConnector(name, config))

    def config_of(self, connector: str) -> Mapping[str, str]:
        """See ``ConnectorFeed.config_of``."""
        return self._herder.views.connector_config(connector).written()

    def trouble(self, name: str) -> str:
        """See ``ConnectorFeed.trouble``."""
        try:
            status = self._herder.views.connector_status(name)
        except NotFoundError:
            return ""  # nothing was reported yet
        for task in (status.connector, *status.tasks):
            if task.state == FAILED:
                return (task.trace or "no trace").strip()
        return ""

    def committed(self, name: str) -> Mapping[str, int]:
        """See ``ConnectorFeed.committed``."""
        return {
            partition.topic: offset
            for partition, offset in self._offsets.committed(self._admin(), _group(name)).items()
        }

    def end(self, name: str) -> None:
        """See ``ConnectorFeed.end``."""
        if name in self._herder.views.list_connectors():
            self._submit(DeleteConnector(name))

    def forget(self, name: str) -> None:
        """See ``ConnectorFeed.forget``."""
        self._offsets.delete(self._admin(), _group(name))

    def _submit(self, request: Request[T]) -> T:
        try:
            done = self._herder.submit(request).result(REQUEST_S)
        except NotLeaderError as error:
            raise RetriableError("this worker no longer leads the group") from error
        except LateError as error:
            raise TimedOutError(f"{request} did not complete within {REQUEST_S:.0f} s") from error
        if self._history is not None:
            self._history.served(request, self._herder.views.standing().worker_id, NOTE, here=True)
        return done


def _group(name: str) -> str:
    return f"connect-{name}"
