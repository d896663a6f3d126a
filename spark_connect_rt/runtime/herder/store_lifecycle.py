"""Starting and stopping the three stores. All start at once: each waits for its own topic."""

from __future__ import annotations

import logging
from collections.abc import Callable

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.topics.config_fold import ConfigEvent

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
        deps.threads.start("start-status-store", guarded(deps.status_store.start)),
        deps.threads.start("start-offset-store", guarded(deps.offset_store.start)),
    ]
    guarded(lambda: deps.config_store.start(on_event))()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def stop_stores(deps: HerderDependencies, were_started: bool) -> None:
    """Flush offsets and statuses (if all stores came up, else there are none), then close the topics."""
    if were_started:
        stop_each(
            ("flush offsets", lambda: deps.offset_store.flush(FLUSH_LIMIT_MS)),
            ("flush statuses", lambda: deps.status_store.flush(FLUSH_LIMIT_MS)),
        )
    stop_each(
        ("stop the offset store", deps.offset_store.stop),
        ("stop the status store", deps.status_store.stop),
        ("stop the config store", deps.config_store.stop),
    )


def stop_each(*calls: tuple[str, Callable[[], None]]) -> None:
    """Run every call whatever the others raise: the end of a worker is best effort."""
    for what, call in calls:
        try:
            call()
        except ConnectError as error:
            log.warning("could not %s: %s", what, error)
        except Exception:
            log.exception("could not %s", what)
