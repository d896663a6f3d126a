"""Settings of the management API: history, replays of dead letters, the web console. Ours; Java workers ignore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast

MEDIUM, LOW = Importance.MEDIUM, Importance.LOW
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
            "Compacted topic of the changes that were made: configurations, target states, offsets, logger levels; "
            "made at the first change. The course of offsets is kept in a second one, with -course behind its name. "
            "Not set: that of config.storage.topic with -history behind it. A standalone worker has a file beside that "
            "of offset.storage.file.filename, .history behind its name.",
        ),
        ConfigKey(
            HISTORY_CHANGES_MAX,
            Type.INT,
            200,
            LOW,
            "Most changes kept of each connector (and of all loggers together); the oldest go first. 0: no history is "
            "kept, neither of changes nor of offsets.",
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
            "Most bytes kept of the course of one connector's offsets: a point a minute for a day and a point an hour "
            "for a month, fewer where they do not fit. 0: the course is not kept.",
            AtLeast(0),
        ),
        ConfigKey(
            REPLAYS_TOPIC,
            Type.STRING,
            None,
            LOW,
            "Compacted topic of replays of dead letters: what was asked for, how far they are, which letters were "
            "replayed; made at the first replay. Not set: that of config.storage.topic with -replays behind it; a "
            "standalone worker replays nothing then.",
        ),
        ConfigKey(
            CONSOLE_ENABLED,
            Type.BOOLEAN,
            True,
            LOW,
            "Whether this worker serves the web console at /console, on the listeners that serve /admin and behind the "
            "same REST extensions.",
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
