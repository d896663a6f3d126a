"""What a validation says about exactly-once: the connector is asked whether it can (Java ``DistributedHerder``).

Runs the connector's own code, so never on the tick thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from spark_connect_rt.api.connector import ConnectorTransactionBoundaries, ExactlyOnceSupport, SourceConnector
from spark_connect_rt.config.exactly_once import BOUNDARY, SUPPORT, Boundary

log = logging.getLogger(__name__)

_NOT_ENABLED = "This worker does not have exactly-once source support enabled."
_SILENT = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. "
    "Please consult the documentation for the connector to determine whether it supports exactly-once semantics, and "
    'then consider reconfiguring the connector to use the value "requested" for this property (which will disable '
    "this preflight check and allow the connector to be created)."
)


def exactly_once_problems(
    connector: SourceConnector, config: Mapping[str, str], *, enabled: bool
) -> dict[str, list[str]]:
    """Return complaints in Java's words: setting -> messages. Values that are none are complained of elsewhere.

    ``enabled``: whether the worker has exactly-once source support.
    """
    problems: dict[str, list[str]] = {}
    if config.get(SUPPORT, "").strip().lower() == "required":
        problems[SUPPORT] = ([] if enabled else [_NOT_ENABLED]) + _asked(lambda: _support(connector, config))
    if config.get(BOUNDARY, "").strip().lower() == Boundary.CONNECTOR.value:
        problems[BOUNDARY] = _asked(lambda: _boundaries(connector, config))
    return problems


def _support(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    said = connector.exactly_once_support(config)
    if said is None:
        return [_SILENT]
    if said is ExactlyOnceSupport.SUPPORTED:
        return []
    return ["The connector does not support exactly-once semantics with the provided configuration."]


def _boundaries(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    if connector.can_define_transaction_boundaries(config) is ConnectorTransactionBoundaries.SUPPORTED:
        return []
    return [
        "The connector does not support connector-defined transaction boundaries with the given configuration. "
        "Please reconfigure it to use a different transaction boundary definition."
    ]


def _asked(question: Callable[[], list[str]]) -> list[str]:
    try:
        return question()
    except BaseException as error:  # the connector's code
        log.exception("the exactly-once support of a connector cannot be determined")
        return [f"An unexpected error occurred during validation: {error}"]
