"""Sends the folders of ``plugin.path`` to executors on other machines, as archives that Spark unpacks there.

Nothing is sent where driver and executors are one machine's processes with ``local[*]``, or with
``connectrt.plugins.ship=false`` (the folders are at the same paths on every machine: an image, a shared disk).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from spark_connect_rt.spark.executor.shipped_plugins import shipped_name

log = logging.getLogger(__name__)


def ship_plugins(context: SparkContext, folders: Sequence[str]) -> list[str]:
    """Give every executor a copy of each folder that is there; return the names of the copies."""
    sent: list[str] = []
    # Executors fetch the archives when they start, at any time: these must live as long as the session, whose own
    # folder this is.
    made = Path(SparkFiles.getRootDirectory()) / "connectrt-plugin-archives"
    for number, folder in enumerate(map(Path, folders)):
        if not folder.is_dir():
            continue
        name = shipped_name(number)
        archive = shutil.make_archive(str(made / name), "zip", root_dir=folder)
        context.addArchive(f"{archive}#{name}")
        log.info("plug-ins of %s are sent to executors: %d bytes", folder, Path(archive).stat().st_size)
        sent.append(name)
    return sent
