"""Features that the present Spark lacks and this package uses: the one place that asks for its version.

Pure, and importable on driver and executors alike. The oldest Spark is 4.0, the first with the writers of slices
(``DataSourceArrowWriter``).
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path


def folder_of(module: str) -> Path | None:
    """Return the folder that a package would be imported from, without importing it; None: it lies in an archive."""
    found = importlib.util.find_spec(module)
    origin = Path(found.origin) if found is not None and found.origin else None
    return origin.parent if origin is not None and origin.is_file() else None


def _version() -> str:
    """Return pyspark's version: its import takes a tenth of a second, which Spark's JVM need not wait for."""
    folder = folder_of("pyspark")
    said = folder / "version.py" if folder is not None else None
    if said is not None and said.is_file():
        found = re.search(r"""^__version__[^=]*=\s*["']([^"']+)["']""", said.read_text(encoding="utf-8"), re.MULTILINE)
        if found is not None:
            return found[1]
    import pyspark

    return str(pyspark.__version__)


VERSION: str = _version()
OLDEST = (4, 0)
OLDEST_JAVA = 17


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that Spark has since a minor version; ``off``: the loss for a user of older ones, empty: nothing."""

    since: tuple[int, int]
    off: str


UNIX_SOCKETS = Feature((4, 1), "unix domain sockets to Python processes (TCP on loopback is used)")
PUSHED_FILTERS = Feature((4, 1), "filters passed to format connectrt (Spark applies them all)")
STREAM_ARROW_WRITERS = Feature((4, 1), "")
STREAM_LIMITS = Feature((4, 2), "limits of micro-batches of format connectrt (availableNow is one batch)")
ZONE_OF_ARROW_TYPES = Feature((4, 2), "")
JAVA_23 = Feature((4, 2), "")
FEATURES = (UNIX_SOCKETS, PUSHED_FILTERS, STREAM_ARROW_WRITERS, STREAM_LIMITS, ZONE_OF_ARROW_TYPES, JAVA_23)


def minor_of(version: str) -> tuple[int, int]:
    """Return (major, minor) of ``4.0.1``, of a vendor's ``4.0.1-amzn-0``, of ``4.2.0.dev1``.

    Raises ValueError: it is not a version.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(f"{version!r} is not a valid Spark version")
    return int(found[1]), int(found[2])


def has(feature: Feature, version: str = VERSION) -> bool:
    """Return whether Spark of this version has a feature."""
    return minor_of(version) >= feature.since


def runs_on_java(major: int, version: str = VERSION) -> bool:
    """Return whether Spark of this version runs on a Java.

    Before 4.2 its Hadoop calls ``Subject.getSubject``, which Java 23 took away; every 4.x asks for 17.
    """
    return major >= OLDEST_JAVA and (major < 23 or has(JAVA_23, version))


def what_is_off(version: str = VERSION) -> str:
    """Return the log line that names what a user of this version misses; empty: nothing."""
    missing = [feature.off for feature in FEATURES if feature.off and not has(feature, version)]
    return f"Spark {version} does not support: {'; '.join(missing)}" if missing else ""
