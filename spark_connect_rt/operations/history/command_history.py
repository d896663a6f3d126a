"""Changes of offsets that a command made itself, while no worker ran: they are in the history as those of workers are.

The history never fails a command: it reports a change that it could not record.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Sequence

from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.internal_topics import admin_of, topic_source
from spark_connect_rt.operations.history.store import Draft, HistoryStore
from spark_connect_rt.operations.history.wiring import history_topics
from spark_connect_rt.rest.change_history import OFFSETS, Change
from spark_connect_rt.topics.offset_changes import OffsetPair, OffsetsChanged


def record_offsets(config: WorkerConfig, changes: Sequence[OffsetsChanged], say: Callable[[str], None]) -> None:
    """Write changes to the group's history, unless its worker's file wants none."""
    topics, settings = history_topics(config), config.management
    if not changes or topics is None or settings.connectrt_history_changes_max == 0:
        return
    clock, admin = SystemClock(), admin_of(config)
    store = HistoryStore(
        topic_source(topics[0], admin, log_client_properties(config, "history")),
        settings.connectrt_history_changes_max,
        settings.connectrt_history_age_max_ms,
        clock.now_ms,
    )
    try:
        store.append([Draft(_change(change, clock.now_ms())) for change in changes])
    except ConnectError as error:
        say(f"the history of changes does not contain it: {error}")
    finally:
        store.close()
        admin.close()


def _change(change: OffsetsChanged, now_ms: int) -> Change:
    before, after = _shown(change.before), _shown(change.after)
    return Change(
        0,
        now_ms,
        change.connector,
        OFFSETS,
        change.action,
        _who(),
        None,
        before,
        after,
        "by a command",
    )


def _shown(pairs: Sequence[OffsetPair] | None) -> dict[str, list[dict[str, object]]] | None:
    if pairs is None:
        return None
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}


def _who() -> str:
    """Return user@host of this process; a user without a name is its number."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
