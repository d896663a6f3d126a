"""Sends the folders of ``plugin.path`` to executors on other machines, as archives that Spark unpacks there.

Nothing is sent where driver and executors are one machine's processes with ``local[*]``, or with
``connectrt.plugins.ship=false`` (the folders are at the same paths on every machine: an image, a shared disk).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from spark_connect_rt.spark.executor.shipped_plugins import shipped_name

log = logging.getLogger(__name__)


def ship_plugins(context: SparkContext, worker_config: Mapping[str, str]) -> list[str]:
    """Give every executor a copy of each folder; return the names of the copies."""
    if worker_config.get("connectrt.plugins.ship", "true").strip().lower() == "false":
        return []
    sent: list[str] = []
    # Executors fetch the archives when they start, at any time: these must live as long as the session, whose own
    # folder this is.
    made = Path(SparkFiles.getRootDirectory()) / "connectrt-plugin-archives"
    for number, folder in _folders(worker_config):
        name = shipped_name(number)
        archive = shutil.make_archive(str(made / name), "zip", root_dir=folder)
        context.addArchive(f"{archive}#{name}")
        log.info("plug-ins of %s are sent to executors: %d bytes", folder, Path(archive).stat().st_size)
        sent.append(name)
    return sent


def _folders(worker_config: Mapping[str, str]) -> Iterator[tuple[int, Path]]:
    """Yield (place in ``plugin.path``, folder) of what is there."""
    texts = [one.strip() for one in worker_config.get("plugin.path", "").split(",") if one.strip()]
    for number, text in enumerate(texts):
        if Path(text).is_dir():
            yield number, Path(text)
