"""A worker's settings for tests: the required ones are set, all others are the test's or the defaults."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.config.worker_settings import Resolve, WorkerConfig, parse_distributed

LEAST = {
    "group.id": "g",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
}


def worker_settings(given: Mapping[str, str] | None = None, resolve: Resolve = dict) -> WorkerConfig:
    """Return a distributed worker's settings. Raises BadConfigError."""
    return parse_distributed({**LEAST, **(given or {})}, resolve)
