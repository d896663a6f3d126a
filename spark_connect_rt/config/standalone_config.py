"""Settings of a standalone worker (Java ``StandaloneConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.health_config import HEALTH
from spark_connect_rt.config.listeners import listener_problems
from spark_connect_rt.config.own_settings import ENGINE
from spark_connect_rt.config.validators import non_empty
from spark_connect_rt.config.worker_config import PASSED_ON, WORKER, unknown_setting_warnings
from spark_connect_rt.errors import BadConfigError

OWN = ConfigDef(
    [
        ConfigKey(
            "offset.storage.file.filename",
            Type.STRING,
            REQUIRED,
            Importance.HIGH,
            "File that keeps the source offsets.",
            non_empty,
        )
    ]
)
STANDALONE = OWN + WORKER + ENGINE + HEALTH


def parse_standalone(raw: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return (typed settings, warnings). Raises BadConfigError with every problem."""
    values = STANDALONE.parse(raw)
    problems: dict[str, list[str]] = {}
    for name in ("listeners", "admin.listeners"):
        for _, why in listener_problems(name, values[name] or ["http://:8083"]):
            problems.setdefault(name, []).append(why)
    if problems:
        raise BadConfigError(problems)
    return values, unknown_setting_warnings(STANDALONE, raw, PASSED_ON)
