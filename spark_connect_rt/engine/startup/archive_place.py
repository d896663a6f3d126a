"""Where the archive of Spark's classes lies: it belongs to one environment, one Java and one Spark.

Imports nothing of Spark: a JVM is started before pyspark is imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from spark_connect_rt.engine.startup.spark_version import VERSION

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def archive_path(java_home: Path) -> Path:
    """Return where the archive of this environment and Java lies, or would lie."""
    home = java_home.resolve()
    release = home / "release"
    release_bytes = release.read_bytes() if release.is_file() else b""
    key = hashlib.sha256(os.fsencode(home) + release_bytes).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "connectrt" / f"spark-{VERSION}-{key}.jsa"


def archive_option() -> str:
    """Return the JVM's option that maps the archive; empty when there is none."""
    path = _chosen()
    return f"-XX:SharedArchiveFile={path}" if path is not None and path.is_file() else ""


def classes_path() -> Path | None:
    """Return the folder of classes that were compiled with the archive, or would be; None: no Java was chosen."""
    path = _chosen()
    return None if path is None else classes_of(path)


def classes_of(archive: Path) -> Path:
    """Return the folder of classes that are compiled with an archive."""
    return archive.with_suffix("")


def _chosen() -> Path | None:
    home = _java_home()
    return None if home is None else archive_path(home)


def _java_home() -> Path | None:
    given = os.environ.get("JAVA_HOME")
    if given:
        return Path(given)
    found = shutil.which("java")
    return Path(found).resolve().parent.parent if found else None
