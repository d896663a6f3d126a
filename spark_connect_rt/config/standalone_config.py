"""Settings of a standalone worker (Java ``StandaloneConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.connection_config import CLIENTS
from spark_connect_rt.config.connectrt_config import ENGINE
from spark_connect_rt.config.group_config import GROUP, SESSION_KEYS
from spark_connect_rt.config.health_config import HEALTH
from spark_connect_rt.config.listeners import listener_problems
from spark_connect_rt.config.management_config import MANAGEMENT
from spark_connect_rt.config.placement import PLACEMENT
from spark_connect_rt.config.plugin_install import PLUGIN_INSTALL
from spark_connect_rt.config.validators import non_empty
from spark_connect_rt.config.worker_config import PASSED_ON, WORKER, unknown_setting_warnings
from spark_connect_rt.config.worker_settings import Resolve, WorkerConfig, typed_settings
from spark_connect_rt.errors import BadConfigError

OWN = ConfigDef(
    [
        ConfigKey(
            "offset.storage.file.filename",
            Type.STRING,
            REQUIRED,
            Importance.HIGH,
            "File that stores the source offsets.",
            non_empty,
        )
    ]
)
STANDALONE = OWN + WORKER + ENGINE + PLUGIN_INSTALL + MANAGEMENT + PLACEMENT + HEALTH


@dataclass(frozen=True, slots=True)
class StandaloneConfig(WorkerConfig):
    """A standalone worker's settings: a group of one, no internal topics, no transactions (as Java)."""

    offset_storage_file_filename: str = ""


# Compatible: tasks go on while others are added, and no one needs session keys.
_GROUP_OF_ONE = {"group.id": "", "connect.protocol": "compatible"}


def parse_standalone(raw: Mapping[str, str], resolve: Resolve = dict) -> StandaloneConfig:
    """Return the typed settings; ``resolve`` looks up ``${provider:...}``. Raises BadConfigError with every problem."""
    resolved = resolve(raw)
    values = STANDALONE.parse(resolved)
    problems: dict[str, list[str]] = {}
    for name in ("listeners", "admin.listeners"):
        for _, why in listener_problems(name, values[name] or ["http://:8083"]):
            problems.setdefault(name, []).append(why)
    if problems:
        raise BadConfigError(problems)
    of_groups = {key.name: key.parse(_GROUP_OF_ONE)[0] for key in GROUP + SESSION_KEYS + CLIENTS}
    return StandaloneConfig(
        **typed_settings({**of_groups, **values}),
        storage={},
        raw=dict(raw),
        resolved=resolved,
        warnings=tuple(unknown_setting_warnings(STANDALONE, raw, PASSED_ON)),
        offset_storage_file_filename=values["offset.storage.file.filename"],
    )
