"""Settings of the management API: history, replays of dead letters, the web console. Ours; Java workers ignore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of

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
    """Which data the management API keeps, and where it is stored."""

    definition: ClassVar[ConfigDef] = MANAGEMENT
    connectrt_history_storage_topic: str | None
    connectrt_history_changes_max: int
    connectrt_history_age_max_ms: int
    connectrt_history_course_max_bytes: int
    connectrt_replays_storage_topic: str | None
    connectrt_console_enabled: bool


# Settings of installing plug-ins while a worker runs: the target folder, the allowed users and sources. Not in Java.


DIRECTORY = "connectrt.plugins.directory"
INSTALL = "connectrt.plugins.install"
TOKEN_FILE = "connectrt.plugins.install.token.file"
ALLOWED = "connectrt.plugins.allowed"
SIZE_MAX = "connectrt.plugins.size.max.bytes"
STORAGE_TOPIC = "connectrt.plugins.storage.topic"
WATCH = "connectrt.plugins.watch.interval.ms"
LOOPBACK, ALLOW, DENY = "loopback", "allow", "deny"

PLUGIN_INSTALL = ConfigDef(
    [
        ConfigKey(
            DIRECTORY,
            Type.STRING,
            None,
            MEDIUM,
            "Folder that plug-ins are installed in, one subfolder name-version for each. Workers may share it. It "
            "is searched like a folder of plugin.path. Not set: the first writable folder of plugin.path outside "
            "a source checkout, else a folder in the cache for this group.id and bootstrap.servers.",
        ),
        ConfigKey(
            INSTALL,
            Type.STRING,
            LOOPBACK,
            MEDIUM,
            "The clients that may install and remove plug-ins over REST. loopback: those on this machine, on "
            "admin.listeners with only loopback addresses or with the token of connectrt.plugins.install.token.file. "
            "allow: every client of the REST API. deny: no client. Plug-in code runs with the worker's rights.",
            one_of(LOOPBACK, ALLOW, DENY, ignore_case=True),
        ),
        ConfigKey(
            TOKEN_FILE,
            Type.STRING,
            None,
            LOW,
            "File (mode 600) with the token that a client on this machine sends in X-Connectrt-Install-Token. The "
            "command connectrt plugins sends it automatically. It is created if it does not exist. Not set: "
            "install.token in the cache (CONNECTRT_CACHE, else ~/.cache/connectrt) of the worker's user.",
        ),
        ConfigKey(
            ALLOWED,
            Type.LIST,
            (),
            MEDIUM,
            "The sources that may be installed, separated by commas. * matches any text. Coordinates "
            "(io.debezium:*), hosts of URLs (plugins.example.com), whole URLs, file:/folder/*, "
            "Python distributions (pypi:orders*). Empty: anything.",
        ),
        ConfigKey(
            SIZE_MAX,
            Type.LONG,
            1024**3,
            LOW,
            "Largest size of a plug-in, bytes. It applies to the download and to the unpacked files.",
            AtLeast(1),
        ),
        ConfigKey(
            STORAGE_TOPIC,
            Type.STRING,
            None,
            LOW,
            "Compacted topic of installed plug-ins: every worker of the group installs what one of them has. "
            "Created at the first install. Not set: config.storage.topic with the suffix -plugins.",
        ),
        ConfigKey(
            WATCH,
            Type.LONG,
            5_000,
            LOW,
            "Time between two checks of the folders of plugin.path, ms. A change counts once two checks have "
            "found the same content. 0: the worker only checks them when a configuration names an unknown "
            "plug-in.",
            AtLeast(0),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class PluginInstallSettings(SettingsGroup):
    """Where plug-ins are installed, and which users may install them."""

    definition: ClassVar[ConfigDef] = PLUGIN_INSTALL
    connectrt_plugins_directory: str | None
    connectrt_plugins_install: str
    connectrt_plugins_install_token_file: str | None
    connectrt_plugins_allowed: tuple[str, ...]
    connectrt_plugins_size_max_bytes: int
    connectrt_plugins_storage_topic: str | None
    connectrt_plugins_watch_interval_ms: int


# How failed and motionless work is treated: ``errors.restart.*``, ``task.progress.*``. Not in Java.
#
# Each connector may set them. The worker's file gives the defaults, so one line there applies to all connectors.


GROUP = "Health"

HEALTH = ConfigDef(
    [
        ConfigKey(
            "errors.restart.policy",
            Type.STRING,
            "none",
            MEDIUM,
            "The treatment of a FAILED connector or task. none: it waits for a manual restart, as in Java. "
            "backoff: its worker restarts it after a wait that doubles each time.",
            one_of("none", "backoff"),
            GROUP,
            1,
            "SHORT",
            "Restart Policy",
            recommended=("none", "backoff"),
        ),
        ConfigKey(
            "errors.restart.delay.ms",
            Type.LONG,
            5_000,
            LOW,
            "Wait before the first restart, ms. Each further restart within the window waits twice as long. The "
            "wait varies by a fifth, so that tasks that failed together do not restart together.",
            AtLeast(0),
            GROUP,
            2,
            "SHORT",
            "First Restart Delay",
        ),
        ConfigKey(
            "errors.restart.delay.max.ms",
            Type.LONG,
            300_000,
            LOW,
            "Longest wait before a restart, ms.",
            AtLeast(0),
            GROUP,
            3,
            "SHORT",
            "Longest Restart Delay",
        ),
        ConfigKey(
            "errors.restart.max",
            Type.INT,
            10,
            MEDIUM,
            "Most restarts of one connector or task within the window. After them it stays FAILED.",
            AtLeast(1),
            GROUP,
            4,
            "SHORT",
            "Most Restarts",
        ),
        ConfigKey(
            "errors.restart.window.ms",
            Type.LONG,
            3_600_000,
            LOW,
            "Length of the window in which restarts are counted, ms.",
            AtLeast(1),
            GROUP,
            5,
            "SHORT",
            "Restart Window",
        ),
        ConfigKey(
            "errors.restart.poison",
            Type.INT,
            3,
            MEDIUM,
            "A task stays FAILED after so many failures in a row with the same error and no committed offset, "
            "because it cannot pass a record. Connection errors and timeouts do not count. 0: never.",
            AtLeast(0),
            GROUP,
            6,
            "SHORT",
            "Failures at the Same Offset",
        ),
        ConfigKey(
            "task.progress.timeout.ms",
            Type.LONG,
            120_000,
            MEDIUM,
            "A RUNNING task is reported as stalled (status, /admin/progress, metrics) when it has moved nothing "
            "for this long although there is work, ms. It continues to run. 0: never.",
            AtLeast(0),
            GROUP,
            7,
            "SHORT",
            "Progress Timeout",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class HealthSettings(SettingsGroup):
    """How one connector's failed and motionless work is treated."""

    definition: ClassVar[ConfigDef] = HEALTH
    errors_restart_policy: str
    errors_restart_delay_ms: int
    errors_restart_delay_max_ms: int
    errors_restart_max: int
    errors_restart_window_ms: int
    errors_restart_poison: int
    task_progress_timeout_ms: int
