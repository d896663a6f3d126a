"""What a table remembers of a sink's last batch, seen from outside of its tasks: read, and forgotten for good.

For altered offsets (KIP-875): a task that starts skips what the table holds and the group did not commit
(decision 0001), so a user's rewind into that range would be skipped as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.formats.table_writer import Ranges, writer_for


def held_by_table(session: Any, connector: str, config: Mapping[str, str]) -> Ranges:
    """Finish the batches that a crash left declared; return the (start, end) the table holds of each partition."""
    return dict(_writer(session, connector, config).recover().ranges)


def forget_table(session: Any, connector: str, config: Mapping[str, str]) -> None:
    """Remove what every task of the connector left. Call ``held_by_table`` first: it finishes what is half done."""
    _writer(session, connector, config).forget_all()


def _writer(session: Any, connector: str, config: Mapping[str, str]) -> Any:
    # A thread of its own has no active session; writers look formats up there.
    session._jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
    return writer_for(session, config, ConnectorTaskId(connector, 0))
