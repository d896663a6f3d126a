"""Jars from Maven Central, resolved once by ``jgo`` and remembered as a class path file."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

from spark_connect_rt.embedded.cache import cache_directory, exclusive
from spark_connect_rt.errors import StartupError
from spark_connect_rt.optional_package import optional_module

KAFKA_VERSION = "4.1.1"
EXIT_JARS_UNRESOLVED = 12

_log = logging.getLogger(__name__)


def resolve_jars(coordinates: Sequence[str]) -> list[Path]:
    """Return the jars of ``group:artifact:version`` coordinates and of all they need.

    The first call downloads (Kafka's broker: 45 jars, about 20-30 s); later calls read a list on disk and
    need no network. Raises StartupError naming the coordinates when they can't be had.
    """
    digest = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:16]
    folder = cache_directory() / "jars"
    listing = folder / f"{digest}.classpath"
    with exclusive(folder / f"{digest}.lock"):
        if listing.exists():
            jars = [Path(line) for line in listing.read_text(encoding="utf-8").splitlines()]
            if jars and all(jar.exists() for jar in jars):
                return jars
        jars = _resolve_with_jgo(coordinates, folder)
        listing.write_text("\n".join(map(str, jars)), encoding="utf-8")
        return jars


def _resolve_with_jgo(coordinates: Sequence[str], folder: Path) -> list[Path]:
    # imported late: half a second that a cached start need not pay
    jgo = optional_module("jgo", "quickstart", "downloads from Maven Central")
    _log.info("resolving %s from Maven Central", ", ".join(coordinates))
    try:
        environment = jgo.build("+".join(coordinates), cache_dir=folder)
    except Exception as error:  # a third-party edge: whatever it raises means "not resolved"
        raise StartupError(
            f"cannot resolve {', '.join(coordinates)} from Maven Central: {error}. "
            "Check the network, or set bootstrap.servers to a running Kafka.",
            exit_code=EXIT_JARS_UNRESOLVED,
            code="CRT-1081",
        ) from error
    # jgo sorts jars into a class path and a module path by their descriptors; Kafka wants one class path.
    return sorted(Path(environment.path).glob("*/*.jar"))
