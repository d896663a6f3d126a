"""Settings of the management API: history, replays of dead letters, the web console. Ours; Java workers ignore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import LOW, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast

HISTORY_TOPIC = "connectrt.history.storage.topic"
HISTORY_CHANGES_MAX = "connectrt.history.changes.max"
HISTORY_AGE_MAX = "connectrt.history.age.max.ms"
COURSE_BYTES_MAX = "connectrt.history.course.max.bytes"
REPLAYS_TOPIC = "connectrt.replays.storage.topic"
CONSOLE_ENABLED = "connectrt.console.enabled"
DAY_MS = 24 * 60 * 60 * 1000

MANAGEMENT = ConfigDef(
    [
        ConfigKey(
            HISTORY_TOPIC,
            Type.STRING,
            None,
            LOW,
            "Compacted topic of the history of changes: configurations, target states, offsets, logger levels. "
            "Created at the first change. The offset history has a second topic with the suffix -course. Not set: "
            "config.storage.topic with the suffix -history. A standalone worker uses a file instead: "
            "offset.storage.file.filename with the suffix .history.",
        ),
        ConfigKey(
            HISTORY_CHANGES_MAX,
            Type.INT,
            200,
            LOW,
            "Most changes kept for each connector, and for all loggers together. The oldest are deleted first. 0: "
            "neither changes nor offsets are recorded.",
            AtLeast(0),
        ),
        ConfigKey(
            HISTORY_AGE_MAX,
            Type.LONG,
            90 * DAY_MS,
            LOW,
            "How long a change is kept, ms.",
            AtLeast(1),
        ),
        ConfigKey(
            COURSE_BYTES_MAX,
            Type.INT,
            262_144,
            LOW,
            "Most bytes kept of the offset history of one connector. It has a point per minute for a day and a "
            "point per hour for a month, or fewer if they do not fit. 0: no offset history.",
            AtLeast(0),
        ),
        ConfigKey(
            REPLAYS_TOPIC,
            Type.STRING,
            None,
            LOW,
            "Compacted topic of replays of dead letters: the requests, their progress, and the replayed letters. "
            "Created at the first replay. Not set: config.storage.topic with the suffix -replays. A standalone "
            "worker without it cannot replay.",
        ),
        ConfigKey(
            CONSOLE_ENABLED,
            Type.BOOLEAN,
            True,
            LOW,
            "Whether this worker serves the web console at /console. It uses the listeners and REST extensions of "
            "/admin.",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class ManagementSettings(SettingsGroup):
    """What the management API keeps, and where."""

    definition: ClassVar[ConfigDef] = MANAGEMENT
    connectrt_history_storage_topic: str | None
    connectrt_history_changes_max: int
    connectrt_history_age_max_ms: int
    connectrt_history_course_max_bytes: int
    connectrt_replays_storage_topic: str | None
    connectrt_console_enabled: bool
