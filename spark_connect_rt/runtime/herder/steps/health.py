"""How failed and motionless work is treated: the settings, references to config providers looked up (not in Java)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_connect_rt.config.worker.health_config import HEALTH, HealthSettings
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

log = logging.getLogger(__name__)
_NAMES = tuple(key.name for key in HEALTH)


def health_of(deps: HerderDependencies, connector_config: Mapping[str, str]) -> HealthSettings:
    """Return the worker's settings with a connector's own, the references in these looked up.

    What cannot be looked up now counts as not given: nothing fails by it that did not fail before.
    """
    return deps.settings.worker.health.overridden(_looked_up(deps, connector_config))


def _looked_up(deps: HerderDependencies, config: Mapping[str, str]) -> Mapping[str, str]:
    given = {name: config[name] for name in _NAMES if name in config}
    if not any("${" in (value or "") for value in given.values()):
        return given
    try:
        return deps.resolve(given)
    except BaseException as error:  # noqa: BLE001 - a provider is a plug-in, and its message may hold a secret
        log.warning(
            "a reference in %s cannot be looked up and counts for nothing: %s", sorted(given), type(error).__name__
        )
        return given
