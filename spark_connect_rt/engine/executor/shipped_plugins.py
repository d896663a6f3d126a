"""Where the folders of ``plugin.path`` are on an executor: where Spark put the copies, else where they always are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def shipped_name(number: int) -> str:
    """Return the name under which the ``number``-th folder of ``plugin.path`` is copied."""
    return f"connectrt-plugins-{number}"


JAVA_HOST = "connectrt-java-host"  # the copy of the jars that host Java plug-ins


def java_host_here() -> Path | None:
    """Return the folder of the jars that the driver sent, in this process; None: it sent none."""
    root = copies_here()
    folder = root / JAVA_HOST if root is not None else None
    return folder if folder is not None and folder.is_dir() else None


def copies_here() -> Path | None:
    """Return the folder that holds the copies on this executor; None: this is not an executor."""
    from pyspark import SparkFiles, TaskContext

    return None if TaskContext.get() is None else Path(SparkFiles.getRootDirectory())


def folders_here(folders: Sequence[str], root: Path | None) -> tuple[str, ...]:
    """Return the folders to look for plug-ins in, in this process; ``root``: of the copies."""
    if root is None:
        return tuple(folders)  # the driver, or no Spark at all
    copies = [root / shipped_name(number) for number in range(len(folders))]
    return tuple(_copy_or(copy, folder) for copy, folder in zip(copies, folders, strict=True))


def _copy_or(copy: Path, folder: str) -> str:
    """Return the copy of an element of ``plugin.path``, or of the one file that it is; else the element itself."""
    if not copy.is_dir():
        return folder
    single = copy / Path(folder).name
    return str(single) if single.is_file() and Path(folder).suffix in (".jar", ".whl") else str(copy)
