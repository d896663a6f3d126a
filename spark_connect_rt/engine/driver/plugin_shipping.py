"""Sends the folders of ``plugin.path`` to executors on other machines, as archives that Spark unpacks there.

Nothing is sent where driver and executors are one machine's processes with ``local[*]``, or with
``connectrt.plugins.ship=false`` (the folders are at the same paths on every machine: an image, a shared disk).
"""

from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from spark_connect_rt.engine.executor.shipped_plugins import JAVA_HOST, shipped_name

log = logging.getLogger(__name__)


def ship_plugins(context: SparkContext, folders: Sequence[str], jars: Sequence[Path] = ()) -> list[str]:
    """Give every executor a copy of each folder (or single jar) that is there; return the names of the copies.

    ``jars``: those that host Java plug-ins; sent where there are some.
    """
    sent: list[str] = []
    # Executors fetch the archives when they start, at any time: these must live as long as the session, whose own
    # folder this is.
    made = Path(SparkFiles.getRootDirectory()) / "connectrt-plugin-archives"
    for number, folder in enumerate(map(Path, folders)):
        if not folder.exists():
            continue
        name = shipped_name(number)
        if folder.is_dir():
            archive = shutil.make_archive(str(made / name), "zip", root_dir=folder)
        else:
            archive = _archive_of(made / name, [folder])
        context.addArchive(f"{archive}#{name}")
        log.info("plug-ins of %s are sent to executors: %d bytes", folder, Path(archive).stat().st_size)
        sent.append(name)
    if jars:
        archive = _archive_of(made / JAVA_HOST, jars)
        context.addArchive(f"{archive}#{JAVA_HOST}")
        log.info("the Java host is sent to executors: %d bytes", Path(archive).stat().st_size)
        sent.append(JAVA_HOST)
    return sent


def _archive_of(name: Path, files: Sequence[Path]) -> str:
    """Write an archive of single files, side by side; return its path."""
    archive = name.with_suffix(".zip")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as content:
        for file in files:
            content.write(file, file.name)
    return str(archive)
