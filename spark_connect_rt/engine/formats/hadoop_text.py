"""Small text files of any Hadoop file system, read through the JVM."""

from __future__ import annotations

from typing import Any


def read_text(jvm: Any, fs: Any, path: Any) -> str:
    """Return the whole UTF-8 text of a file. Raises what the file system raises (Py4JJavaError)."""
    stream = fs.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
