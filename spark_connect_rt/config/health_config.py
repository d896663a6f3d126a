"""How failed and motionless work is treated: ``errors.restart.*``, ``task.progress.*``. Ours; Java workers ignore them.

A connector says them for itself; what it leaves out is the worker's, so one line in the worker's file is for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of

GROUP = "Health"

HEALTH = ConfigDef(
    [
        ConfigKey(
            "errors.restart.policy",
            Type.STRING,
            "none",
            MEDIUM,
            "What happens to a FAILED connector or task. none: it waits for a manual restart, as in Java. "
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
