"""The folder of parts next to a table, on the file system of its data."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

from pyarrow import fs

from spark_connect_rt.connectors.lakehouse.commit_parts import PART_SUFFIX


class FilePartFolder:
    """A `PartFolder` of small files. Object stores write a file as a whole, and a torn local file is not valid JSON."""

    def __init__(self, files: fs.FileSystem, folder: str) -> None:
        """Take the folder's path in its file system. It is made when a part is written."""
        self._files, self._folder = files, folder.rstrip("/")

    def names(self) -> Sequence[str]:
        """Return the names of all parts in order. Raises OSError."""
        found = self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        return sorted(file.base_name for file in found if file.base_name.endswith(PART_SUFFIX))

    def read(self, name: str) -> bytes | None:
        """Return the content of a part. None: it was removed meanwhile. Raises OSError."""
        try:
            with self._files.open_input_file(f"{self._folder}/{name}") as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a part. Raises OSError."""
        if self._files.type_name == "local":
            self._files.create_dir(self._folder, recursive=True)
        with self._files.open_output_stream(f"{self._folder}/{name}", buffer_size=1 << 16) as stream:
            stream.write(content)

    def remove(self, names: Collection[str]) -> None:
        """Remove parts. Those that are gone already are ignored. Raises OSError."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_file(f"{self._folder}/{name}")
