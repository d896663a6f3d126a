"""How failed and motionless work is treated: the settings, references to config providers looked up (not in Java)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_connect_rt.config.health_config import HEALTH, HealthSettings
from spark_connect_rt.config.indirection import references
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

log = logging.getLogger(__name__)
_NAMES = tuple(key.name for key in HEALTH)


def health_of(deps: HerderDependencies, connector_config: StoredConfig) -> HealthSettings:
    """Return the worker's settings with a connector's own, the references in these looked up.

    What cannot be looked up now counts as not given: nothing fails by it that did not fail before.
    """
    return deps.settings.worker.health.overridden(_looked_up(deps, connector_config))


def _looked_up(deps: HerderDependencies, config: StoredConfig) -> Mapping[str, str]:
    given = config.only(_NAMES)
    try:
        return given.resolved(deps.resolve)
    except BaseException as error:  # noqa: BLE001 - a provider is a plug-in, and its message may hold a secret
        log.warning(
            "a reference in %s cannot be resolved and is ignored: %s",
            sorted(given.written()),
            type(error).__name__,
        )
        return {name: text for name, text in given.written().items() if not references(text)}
