"""Where the folders of ``plugin.path`` are on an executor: where Spark put the copies, else where they always are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def shipped_name(number: int) -> str:
    """Return the name of the copy of the ``number``-th folder of ``plugin.path``."""
    return f"connectrt-plugins-{number}"


def copies_here() -> Path | None:
    """Return the folder that holds the copies on this executor; None: this is no executor."""
    from pyspark import SparkFiles, TaskContext

    return None if TaskContext.get() is None else Path(SparkFiles.getRootDirectory())


def folders_here(folders: Sequence[str], root: Path | None) -> tuple[str, ...]:
    """Return the folders to look for plug-ins in, in this process; ``root``: of the copies."""
    if root is None:
        return tuple(folders)  # the driver, or no Spark at all
    copies = [root / shipped_name(number) for number in range(len(folders))]
    return tuple(str(copy) if copy.is_dir() else folder for copy, folder in zip(copies, folders, strict=True))
