"""``${env:NAME}``: an environment variable (Java ``EnvVarConfigProvider``)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Set

from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.errors import BadConfigError

ALLOWLIST = "allowlist.pattern"


class EnvVarConfigProvider(ConfigProvider):
    """Reads the process's environment; variables that ``allowlist.pattern`` does not match whole are not there."""

    _allowed: re.Pattern[str] | None = None

    def configure(self, config: Mapping[str, str]) -> None:
        """Take ``allowlist.pattern``. Raises BadConfigError: it does not compile."""
        pattern = config.get(ALLOWLIST)
        try:
            self._allowed = re.compile(pattern) if pattern else None
        except re.error as error:
            raise BadConfigError({ALLOWLIST: [f"invalid regex {pattern}: {error}"]}) from None

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        """Return the variables. Raises BadConfigError: a path was given."""
        if path:
            raise BadConfigError({"${env:...}": [f"environment variables have no path, but the path is {path!r}"]})
        allowed = self._allowed
        return {
            name: value
            for name, value in os.environ.items()
            if (keys is None or name in keys) and (allowed is None or allowed.fullmatch(name))
        }
