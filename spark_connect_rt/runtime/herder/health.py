"""How failed and motionless work is treated: the settings, references to config providers looked up (not in Java)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.health_config import HEALTH, health_settings
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

log = logging.getLogger(__name__)
_NAMES = tuple(key.name for key in HEALTH)


def health_of(deps: HerderDependencies, connector_config: Mapping[str, str]) -> dict[str, Any]:
    """Return ``config.health_config.health_settings`` of a connector, its and the worker's references looked up.

    What cannot be looked up now counts as not given: nothing fails by it that did not fail before.
    """
    return health_settings(_looked_up(deps, connector_config), _looked_up(deps, deps.settings.raw))


def _looked_up(deps: HerderDependencies, config: Mapping[str, str]) -> Mapping[str, str]:
    given = {name: config[name] for name in _NAMES if name in config}
    if not any("${" in (value or "") for value in given.values()):
        return given
    try:
        return deps.resolve(given)
    except Exception as error:  # noqa: BLE001 - a provider is a plug-in, and its message may hold a secret
        log.warning(
            "a reference in %s cannot be looked up and counts for nothing: %s", sorted(given), type(error).__name__
        )
        return given
