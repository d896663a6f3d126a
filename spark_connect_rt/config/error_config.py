"""How a connector treats errant records: ``errors.*``. Source: KIP-298; Java ``ConnectorConfig``."""

from __future__ import annotations

from spark_connect_rt.config.config_def import MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.validators import AtLeast, one_of

_ERRORS = "Error Handling"

ERRORS = ConfigDef(
    [
        ConfigKey(
            "errors.retry.timeout",
            Type.LONG,
            0,
            MEDIUM,
            "How long a failed operation on a record is retried, ms. 0: no retry. -1: no limit.",
            AtLeast(-1),
            _ERRORS,
            1,
            "MEDIUM",
            "Retry Timeout for Errors",
        ),
        ConfigKey(
            "errors.retry.delay.max.ms",
            Type.LONG,
            60_000,
            MEDIUM,
            "Longest wait between two attempts, ms.",
            AtLeast(1),
            _ERRORS,
            2,
            "MEDIUM",
            "Maximum Delay Between Retries for Errors",
        ),
        ConfigKey(
            "errors.tolerance",
            Type.STRING,
            "none",
            MEDIUM,
            "none: the first errant record fails the task. all: errant records are skipped and counted.",
            one_of("none", "all"),
            _ERRORS,
            3,
            "SHORT",
            "Error Tolerance",
        ),
        ConfigKey(
            "errors.log.enable",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Log every failed operation.",
            group=_ERRORS,
            order=4,
            width="SHORT",
            display_name="Log Errors",
        ),
        ConfigKey(
            "errors.log.include.messages",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Also log the failed record. It may contain data that must not be in logs.",
            group=_ERRORS,
            order=5,
            width="SHORT",
            display_name="Log Error Details",
        ),
    ]
)
