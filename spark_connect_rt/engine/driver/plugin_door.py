"""What executors on other machines are answered when they ask for plug-ins that came after their session began.

Archives that Spark sends reach an executor at its start or with its next task; a slot's processes live long. So they
ask here, over the control channel: what is there, which files, the files' bytes, part by part. The jars that host Java
plug-ins are asked for in the same way: a session that began without such plug-ins sent none. Reads files, no more.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

from spark_connect_rt.engine.executor.control_wire import Message
from spark_connect_rt.engine.executor.shipped_plugins import JAVA_HOST
from spark_connect_rt.errors import ConnectError

PART_BYTES = 512 * 1024


class PluginDoor:
    """The folders of plug-ins as they are now. One thread."""

    def __init__(self, folders: Sequence[str], java_jars: Callable[[], Sequence[Path]] = tuple) -> None:
        """Take the folders that executors are sent, and what finds the jars that host the Java plug-ins there.

        No folders: executors have them at the same paths.
        """
        self._folders = [Path(folder) for folder in folders]
        self._java_jars = java_jars
        self._host_jars: dict[str, Path] = {}  # as they were when an executor asked which there are

    def answer(self, message: Message) -> Message:
        """Answer one question; what is not there, or not to be read, is answered by nothing of it."""
        try:
            return self._answer(message)
        except (ConnectError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            return {"op": "refused", "why": f"{type(error).__name__}: {error}"}

    def _answer(self, message: Message) -> Message:
        if message["op"] == "plugins":
            return {"op": "plugins", "folders": [_children(folder) for folder in self._folders]}
        if message["op"] == "files" and message["folder"] == JAVA_HOST:
            self._host_jars = {jar.name: jar for jar in self._java_jars()}
            return {"op": "files", "files": list(self._host_jars)}
        if message["op"] == "files":
            plugin = self._below(message["folder"], message["plugin"])
            if plugin.is_file():
                return {"op": "files", "files": [""]}
            files = (file for file in plugin.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
            return {"op": "files", "files": sorted(file.relative_to(plugin).as_posix() for file in files)}
        if message["op"] == "part":
            with self._file(message).open("rb") as opened:
                opened.seek(message["offset"])
                data = opened.read(PART_BYTES)
            return {"op": "part", "data": b64encode(data).decode(), "last": len(data) < PART_BYTES}
        raise ValueError(f"no answer to {message['op']}")

    def _file(self, message: Message) -> Path:
        if message["folder"] == JAVA_HOST:
            return self._host_jars[message["file"]]
        return self._below(message["folder"], message["plugin"], message["file"])

    def _below(self, number: int, *names: str) -> Path:
        folder = self._folders[number].resolve()
        found = folder.joinpath(*filter(None, names))
        if ".." in found.parts or folder not in found.parents:
            raise ValueError("a path out of the folder of plug-ins")
        return found


def _children(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "__")))
