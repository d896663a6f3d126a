"""How failed and motionless work is treated: ``errors.restart.*``, ``task.progress.*``. Ours; Java workers ignore them.

A connector says them for itself; what it leaves out is the worker's, so one line in the worker's file is for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of

MEDIUM, LOW = Importance.MEDIUM, Importance.LOW
GROUP = "Health"

HEALTH = ConfigDef(
    [
        ConfigKey(
            "errors.restart.policy",
            Type.STRING,
            "none",
            MEDIUM,
            "What happens to a FAILED connector or task. none: it waits for a manual restart, as in Java. backoff: "
            "its worker starts it again after a wait that doubles.",
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
            "Wait before the first restart, ms; each further one within the window waits twice as long. A fifth more "
            "or less, so that tasks that failed together do not restart together.",
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
            "Most restarts of one connector or task within the window; after them it stays FAILED.",
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
            "Length of the window that restarts are counted in, ms.",
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
            "A task that failed so often in a row by the same error, with no offset committed in between, stays "
            "FAILED: it has met a record that it cannot pass. Errors of connections and time-outs do not count. "
            "0: never.",
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
            "A RUNNING task that moved nothing for so long though there is work is reported (status, /admin/progress, "
            "metrics); it goes on running. ms; 0: never.",
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
