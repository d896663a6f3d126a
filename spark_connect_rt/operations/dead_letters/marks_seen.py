"""Marks of replayed letters for pages: as of now, or as they are known where the topic of replays does not answer."""

from __future__ import annotations

import logging

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.dead_letters.browser import Marks
from spark_connect_rt.operations.dead_letters.model import ReplayedMark
from spark_connect_rt.operations.dead_letters.replay_log import ReplayLog

CATCH_UP_MS = 5_000
log = logging.getLogger(__name__)


def marks_of(replay_log: ReplayLog, topic_id: str) -> Marks:
    """Return the marks of a topic; pages go on without what cannot be read."""
    try:
        replay_log.catch_up(CATCH_UP_MS)
    except ConnectError as error:
        log.warning("the list of replayed dead letters is incomplete: %s", error)

    def mark(partition: int, offset: int) -> ReplayedMark | None:
        found = replay_log.read(lambda records: records.marks.of(topic_id, partition, offset))
        return None if found is None else ReplayedMark(found.replay, found.at_ms)

    return mark
