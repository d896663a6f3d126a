"""Starting and stopping the three stores. All start at once: each waits for its own topic."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.state.config_fold import ConfigEvent

log = logging.getLogger(__name__)

FLUSH_LIMIT_MS = 5_000


def start_stores(deps: HerderDependencies, on_event: Callable[[ConfigEvent], None]) -> None:
    """Read all three topics to their ends. Raises the first failure."""
    failures: list[Exception] = []

    def guarded(start: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                start()
            except Exception as error:  # noqa: BLE001 - top of a thread; raised again by the caller
                failures.append(error)

        return run

    threads = [
        threading.Thread(target=guarded(deps.status_store.start), name="start-status-store", daemon=True),
        threading.Thread(target=guarded(deps.offset_store.start), name="start-offset-store", daemon=True),
    ]
    for thread in threads:
        thread.start()
    guarded(lambda: deps.config_store.start(on_event))()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def stop_stores(deps: HerderDependencies) -> None:
    """Flush offsets and statuses, then close the topics; best effort, each for itself."""
    calls: tuple[tuple[str, Callable[[], None]], ...] = (
        ("offsets flushed", lambda: deps.offset_store.flush(FLUSH_LIMIT_MS)),
        ("statuses flushed", lambda: deps.status_store.flush(FLUSH_LIMIT_MS)),
        ("offset store stopped", deps.offset_store.stop),
        ("status store stopped", deps.status_store.stop),
        ("config store stopped", deps.config_store.stop),
    )
    for what, call in calls:
        try:
            call()
        except ConnectError as error:
            log.warning("worker=%s not %s: %s", deps.settings.worker_id, what, error)
