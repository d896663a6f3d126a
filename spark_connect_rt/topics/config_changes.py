"""What one record of the config topic changed for users: a configuration, a target state, a logger's level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONFIG, STATE, LOGGER = "config", "state", "logger"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change as it stands in the topic, secrets included.

    Attributes:
        kind: config, state, logger.
        name: of the connector, or of the logger.
        before: None: there was nothing, or compaction took it.
        after: None: it was deleted. Of a state or a level: one entry, ``state`` or ``level``.
        position: the record's offset.
        state: target state beside a configuration; before, where it was deleted.
        is_live: made while the worker ran, not read at its start.
    """

    kind: str
    name: str
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None
    position: int
    at_ms: int
    state: str | None
    is_live: bool
