"""The file that keeps a topic's snapshot between two starts of a worker. Trouble with it costs time, never truth."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from spark_connect_rt.errors import DataError
from spark_connect_rt.topics.log_snapshot import LogSnapshot, decode_snapshot, encode_snapshot
from spark_connect_rt.topics.planning_log_snapshot import LogFacts, snapshot_refusal

log = logging.getLogger(__name__)


class LogCache:
    """Snapshots under one folder; workers on one machine may share it: a file is replaced whole."""

    def __init__(self, directory: Path, now_ms: Callable[[], int]) -> None:
        """Take the folder, made when needed, and the wall clock (ms since the epoch)."""
        self._directory = directory
        self.now_ms = now_ms

    def path(self, facts: LogFacts) -> Path:
        """Return the file of one topic of one cluster."""
        cluster = "".join(c for c in facts.cluster_id if c.isalnum() or c in "-_")
        return self._directory / f"{facts.topic}.{cluster}.snapshot"

    def load(self, facts: LogFacts) -> LogSnapshot | None:
        """Return the snapshot that the topic's tail completes; a file that is in doubt is removed."""
        path = self.path(facts)
        try:
            snapshot = decode_snapshot(path.read_bytes())
            refusal = snapshot_refusal(snapshot, facts, self.now_ms())
        except FileNotFoundError:
            return None
        except (OSError, DataError) as error:
            refusal = str(error)
        if refusal is None:
            return snapshot
        self.discard(facts, refusal)
        return None

    def discard(self, facts: LogFacts, why: str) -> None:
        """Remove the snapshot's file and log why."""
        log.warning("topic=%s discarding the snapshot and reading the whole topic: %s", facts.topic, why)
        try:
            self.path(facts).unlink(missing_ok=True)
        except OSError as error:
            log.warning("topic=%s snapshot cannot be removed: %s", facts.topic, error)

    def save(self, facts: LogFacts, snapshot: LogSnapshot) -> bool:
        """Replace the file; return False, with a warning, when that is not possible."""
        path = self.path(facts)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not readable by others: offsets may hold names of their files and rows.
            handle, beside = tempfile.mkstemp(dir=self._directory, prefix=f"{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(encode_snapshot(snapshot))
                os.replace(beside, path)
            except BaseException:
                Path(beside).unlink(missing_ok=True)
                raise
        except OSError as error:
            log.warning("topic=%s the snapshot cannot be written: %s", facts.topic, error)
            return False
        return True
