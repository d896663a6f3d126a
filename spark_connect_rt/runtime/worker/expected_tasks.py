"""Tasks that are likely to start on this worker soon: the JVM of a Java connector's comes up beside its validation.

A Java connector is asked in the driver's JVM what is wrong with it and what its tasks are; only then the JVM of its
tasks would start. Owns when that is known beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.task_runner import Expect
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.worker.java_launches import java_code
from spark_connect_rt.runtime.worker.launches import executor_worker_config, new_connector

log = logging.getLogger(__name__)


def comes_here(config: Mapping[str, str], members: int) -> bool:
    """Tell whether one of a connector's tasks is likely to be this worker's: in a group of ``members`` that it leads.

    Tasks are dealt evenly: where there may be as many of them as there are workers, each gets one.
    """
    try:
        tasks_max = int(config.get("tasks.max") or "1")
    except ValueError:  # validation says so
        return False
    return 0 < members <= tasks_max


def expected(
    name: str, stored: StoredConfig, members: int, worker: WorkerConfig, plugins: PluginCatalog, resolve: Resolve
) -> Expect | None:
    """Return what to tell the runner before a connector of this configuration is validated, or starts; None: nothing.

    May block, as validation does, while providers and the plug-in are asked. Never raises.

    Args:
        name: the connector's.
        stored: its configuration, perhaps wrong.
        members: of the group, where this worker leads; 0: not known.
        worker: its settings.
        plugins: where the connector's class is found.
        resolve: looks references up.
    """
    try:
        config = stored.resolved(resolve)
        if not comes_here(config, members):
            return None
        code = java_code(new_connector(plugins, config), config, worker, plugins)
    except BaseException:  # the same is found again, and said, by validation
        log.debug("connector=%s too little is known to prepare for its tasks", name, exc_info=True)
        return None
    if code is None or code.alone:  # a task of its own JVM starts that itself
        return None
    return Expect(ConnectorTaskId(name, 0), code, executor_worker_config(worker))
