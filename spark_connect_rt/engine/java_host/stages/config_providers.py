"""Java config providers: they look up values in a JVM (Java ``ConfigProvider``)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Set
from typing import ClassVar

from spark_connect_rt.api.config_provider import ConfigData, ConfigProvider
from spark_connect_rt.engine.java_host.stages.stage import JavaStage
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.errors import BadConfigError, DataError

ANSWER_LIMIT_S = 60.0  # a worker's start and a connector's wait for it


class JavaConfigProvider(ConfigProvider):
    """A provider. Any thread; one question at a time."""

    java_class: ClassVar[str]
    java_code: ClassVar[JavaCode]
    java_version: ClassVar[str] = ""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings, have the JVM make it. Raises BadConfigError, JavaHostGoneError, TimedOutError."""
        makes = {
            "kind": "config_provider",
            "class": self.java_class,
            "version": self.java_version,
            "config": dict(config),
        }
        self._asking = threading.Lock()
        self._stage = JavaStage(self.java_code, makes, ANSWER_LIMIT_S)
        self._stage.prepare()

    def get(self, path: str, keys: Set[str] | None = None) -> ConfigData:
        """Return the values at ``path``.

        Raises BadConfigError: Java's provider cannot read it; TimedOutError, JavaHostGoneError.
        """
        try:
            with self._asking:
                asked = {"path": path, "keys": None if keys is None else sorted(keys)}
                found = self._stage.ask("get", asked).head["ok"]
        except DataError as error:
            raise BadConfigError({"config.providers": [f"{self.java_class} cannot read {path}: {error}"]}) from error
        return ConfigData(found["data"], found["ttl_ms"])

    def close(self) -> None:
        """Release the provider's number in its JVM."""
        self._stage.close()
