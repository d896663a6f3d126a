"""The operations of all resources of the management API, for /openapi.json."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.rest.management import checks, dead_letters, events, history, logs, overview, previews
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
