"""The one task that has all of a Java connector's work, asked of an instance started in the driver's JVM."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import Connector, ConnectorContext
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.errors import ConnectError, TimedOutError

log = logging.getLogger(__name__)


class AskedOnce(ConnectorContext):
    """The ConnectorContext of a connector that is started for one question."""

    previewed = True

    def request_task_reconfiguration(self) -> None:
        """Nothing: it is asked once."""

    def raise_error(self, error: Exception) -> None:
        """Say so; its tasks are asked for all the same."""
        log.warning("the connector reports %s", without_secrets(str(error)))

    def measured(self, values: Mapping[str, float]) -> None:
        """Nothing: nobody looks at the metrics of one question."""

    def stored_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return none: what a connector splits does not change with them."""
        return [None] * len(partitions)


def planned_config(connector: Connector, config: Mapping[str, str], limit_s: float) -> Mapping[str, str]:
    """Start a connector, ask it for one task's configuration, stop it.

    Raises what it does; TimedOutError: it does not return in time; ConnectError: it has no work.
    """
    found: list[Any] = []

    def plan() -> None:
        try:
            connector.context = AskedOnce()
            try:
                connector.start(config)
                found.append(connector.task_configs(1))
            finally:
                connector.stop()
        except Exception as error:
            log.info("planning a preview failed", exc_info=True)
            found.append(error)

    thread = threading.Thread(target=plan, name="preview-plan", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not found:
        raise TimedOutError(f"the connector did not return its task configurations within {limit_s:.0f} s")
    if isinstance(found[0], Exception):
        raise ConnectError(f"the connector cannot start: {without_secrets(str(found[0]))}") from found[0]
    if not found[0]:
        raise ConnectError("the connector has no task: there is nothing to preview")
    return dict(found[0][0])
