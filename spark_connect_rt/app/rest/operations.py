"""The operations of all resources of the management API, for /openapi.json."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.operations.checks import routes as checks
from spark_connect_rt.operations.dead_letters import routes as dead_letters
from spark_connect_rt.operations.events import routes as events
from spark_connect_rt.operations.history import routes as history
from spark_connect_rt.operations.logs import routes as logs
from spark_connect_rt.operations.overview import routes as overview
from spark_connect_rt.operations.preview import routes as previews
from spark_connect_rt.rest.operation import Operation

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    **dead_letters.OPERATIONS,
    **events.OPERATIONS,
    **logs.OPERATIONS,
    **overview.OPERATIONS,
    **history.OPERATIONS,
    **previews.OPERATIONS,
    **checks.OPERATIONS,
}
