"""Hadoop's file system over a local folder, as the driver calls it, without a JVM; renames can be made to fail."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class HadoopPath:
    """``org.apache.hadoop.fs.Path``: a parent and a child, resolved; ``..`` is taken out."""

    fs: LocalFiles  # of the class that a session has

    def __init__(self, parent: str | HadoopPath, child: str = "") -> None:
        joined = posixpath.join(str(parent).removeprefix("file://"), child)
        self._text = posixpath.normpath(joined)

    def __str__(self) -> str:
        return self._text

    toString = __str__  # noqa: N815 - Java's name

    def getName(self) -> str:  # noqa: N802
        return posixpath.basename(self._text)

    def getFileSystem(self, _: object) -> LocalFiles:  # noqa: N802
        return self.fs


class _Status:
    def __init__(self, path: HadoopPath) -> None:
        self._path = path
        self._length = os.path.getsize(str(path))

    def getPath(self) -> HadoopPath:  # noqa: N802
        return self._path

    def isDirectory(self) -> bool:  # noqa: N802
        return os.path.isdir(str(self._path))

    def getLen(self) -> int:  # noqa: N802
        return self._length


class _Output:
    def __init__(self, path: str) -> None:
        self._file = io.FileIO(path, "w")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def hsync(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class LocalFiles:
    """``FileSystem``; ``before_rename`` and ``after_rename`` may raise, the first may answer for it."""

    def __init__(self, path_class: type[HadoopPath]) -> None:
        self._path_class = path_class
        self.before_rename: Callable[[str, str], bool | None] = lambda source, target: None
        self.after_rename: Callable[[str, str], None] = lambda source, target: None

    def exists(self, path: HadoopPath) -> bool:
        return os.path.exists(str(path))

    def listStatus(self, path: HadoopPath) -> list[_Status]:  # noqa: N802
        return [_Status(self._path_class(path, name)) for name in sorted(os.listdir(str(path)))]

    def getFileStatus(self, path: HadoopPath) -> _Status:  # noqa: N802
        return _Status(path)

    def delete(self, path: HadoopPath, recursive: bool) -> bool:
        found = Path(str(path))
        if not found.exists():
            return False
        if not found.is_dir():
            found.unlink()
        elif recursive:
            shutil.rmtree(found)
        else:
            found.rmdir()
        return True

    def rename(self, source: HadoopPath, target: HadoopPath) -> bool:
        answer = self.before_rename(str(source), str(target))
        if answer is not None:
            return answer
        if not os.path.exists(str(source)):
            raise FileNotFoundError(str(source))
        os.makedirs(os.path.dirname(str(target)), exist_ok=True)
        if os.path.exists(str(target)):
            return False
        os.rename(str(source), str(target))
        self.after_rename(str(source), str(target))
        return True

    def create(self, path: HadoopPath, _overwrite: bool) -> _Output:
        os.makedirs(os.path.dirname(str(path)), exist_ok=True)
        return _Output(str(path))

    def open(self, path: HadoopPath) -> Any:
        return Path(str(path)).open("rb")


def local_session() -> tuple[Any, LocalFiles]:
    """Return what stands for a SparkSession, and its file system."""
    path_class = type("Path", (HadoopPath,), {})
    files = path_class.fs = LocalFiles(path_class)
    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=path_class))
    commons = SimpleNamespace(io=SimpleNamespace(IOUtils=SimpleNamespace(toString=lambda s, c: s.read().decode(c))))
    org = SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop, commons=commons))
    context = SimpleNamespace(_jvm=SimpleNamespace(org=org), _jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
    return SimpleNamespace(sparkContext=context), files
