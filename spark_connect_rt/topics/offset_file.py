"""The offset file of a standalone worker (Java ``FileOffsetBackingStore``), which moves to a Java worker and back.

Written beside and renamed, so that a crash leaves the old file or the new one; Java writes in place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spark_connect_rt.errors import DataError, StartupError
from spark_connect_rt.topics.java_serialization import decode_byte_map, encode_byte_map

EXIT_BAD_OFFSET_FILE = 21


class OffsetFile:
    """Keeper of source offsets: key and value bytes as in the offset topic."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Mapping[bytes, bytes]:
        """Return the offsets; none when there is no file yet, or an empty one. Raises StartupError (exit code 21)."""
        try:
            data = self._path.read_bytes()
            found = decode_byte_map(data) if data else {}
        except FileNotFoundError:
            return {}
        except (OSError, DataError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise StartupError(
                f"the offset file {self._path} cannot be read: {why}. Move it away to start without offsets.",
                exit_code=EXIT_BAD_OFFSET_FILE,
                code="CRT-1088",
            ) from error
        return {key: value for key, value in found.items() if key is not None and value is not None}

    def save(self, values: Mapping[bytes, bytes]) -> None:
        """Replace the file. Raises OSError."""
        beside = self._path.with_name(f"{self._path.name}.tmp")
        with beside.open("wb") as file:
            file.write(encode_byte_map(values.items()))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
