"""The secret settings of a connector, as its plug-ins declare them. Runs plug-in code.

Asked on its own thread with a time limit, and remembered for each combination of classes: a plug-in that hangs, or
a JVM that is away, must not hold up the history. A plug-in that cannot be asked counts as unknown, and its settings are
hidden.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from spark_connect_rt.api.plugin_modules import connector_plugin
from spark_connect_rt.config.config_def import ConfigDef, Type
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.validation import CONVERTERS, definition_of
from spark_connect_rt.runtime.worker.launches import kind_of
from spark_connect_rt.topics.config_diff import DeclaredSettings

LIMIT_S = 10.0
MOST = 1_000  # combinations of classes that are remembered
_OVERRIDES = ("producer.override.", "consumer.override.", "admin.override.")

log = logging.getLogger(__name__)


class DeclaredByPlugins:
    """Any thread; blocks up to a time limit."""

    def __init__(self, deps: HerderDependencies, limit_s: float = LIMIT_S) -> None:
        self._deps = deps
        self._limit_s = limit_s
        self._known: dict[tuple[tuple[str, str], ...], DeclaredSettings] = {}

    def __call__(self, config: Mapping[str, str]) -> DeclaredSettings:
        """Return what is declared of the settings of a configuration."""
        classes = tuple(sorted(item for item in config.items() if _names_a_class(item[0])))
        found = self._known.get(classes)
        if found is None:
            found = self._asked(config)
            if len(self._known) < MOST and found.complete:
                self._known[classes] = found
        return found

    def _asked(self, config: Mapping[str, str]) -> DeclaredSettings:
        answer: list[DeclaredSettings] = []

        def ask() -> None:
            try:
                answer.append(self._declared(config))
            except ConnectError as error:
                log.info("connector=%s this worker does not know its settings: %s", config.get("name"), error)
            except BaseException:  # the connector's code
                log.warning("connector=%s cannot list its settings", config.get("name"), exc_info=True)

        thread = threading.Thread(target=ask, name="history-settings", daemon=True)
        thread.start()
        thread.join(self._limit_s)
        return answer[0] if answer else DeclaredSettings()

    def _declared(self, config: Mapping[str, str]) -> DeclaredSettings:
        plugins = self._deps.plugins
        cls = plugins.class_of(connector_plugin(config))
        secret = _secrets(definition_of(self._deps, config, sink=kind_of(cls) is not TaskKind.SOURCE))
        secret |= _secrets(cls().config_def())
        complete = True
        for setting in CONVERTERS:
            if config.get(setting):
                prefix = f"{setting}."
                try:
                    own = plugins.class_of(config[setting])().config_def()
                    secret |= {f"{prefix}{name}": is_secret for name, is_secret in _secrets(own).items()}
                except ConnectError:
                    complete = False
        secret |= {name: False for name in config if _names_a_class(name) and name not in secret}
        secret |= {name: name in secret and secret[name] for name in config if name.startswith(_OVERRIDES)}
        return DeclaredSettings(secret, complete)


def _names_a_class(name: str) -> bool:
    return name.endswith((".class", ".type", ".version")) or name in (*CONVERTERS, "transforms", "predicates")


def _secrets(definition: ConfigDef) -> dict[str, bool]:
    return {key.name: key.type is Type.PASSWORD for key in definition}
