"""A worker's file and its ``--set``. Imports next to nothing: Spark's JVM is started by it before anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.errors import StartupError

REQUIRED = (
    "group.id",
    "key.converter",
    "value.converter",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
)
"""The settings without which no distributed worker starts: read here, where the declarations are not imported yet."""


def is_complete(settings: Mapping[str, str]) -> bool:
    """Return whether a distributed worker's file sets everything that is required, so that its JVM is worth a start."""
    return all(settings.get(name) for name in REQUIRED)


def read_settings(file: Path | None, override: Sequence[str] | None = None) -> dict[str, str]:
    """Return a file's properties (no file: none) with ``name=value`` overrides applied.

    Raises StartupError (exit code 14).
    """
    from spark_connect_rt.config.java_properties import load_properties
    from spark_connect_rt.config.repeated_settings import warn_repeated

    try:
        settings = dict(warn_repeated(load_properties(file), file)) if file else {}
    except (OSError, ValueError) as error:
        from spark_connect_rt.base.exit_codes import EXIT_BAD_PROPERTIES

        raise StartupError(
            f"cannot read the properties file {file}: {error}", exit_code=EXIT_BAD_PROPERTIES, code="CRT-1084"
        ) from error
    for pair in override or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise StartupError(f"--set {pair}: expected name=value", exit_code=2)
        settings[name.strip()] = value
    return settings
