"""Archives and class files that tests make."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

OBJECT = "java/lang/Object"
SOURCE = "org/apache/kafka/connect/source/SourceConnector"
PUBLIC, ABSTRACT, INTERFACE = 0x0001, 0x0400, 0x0200


def class_file(
    name: str, parent: str = OBJECT, interfaces: Sequence[str] = (), flags: int = PUBLIC, constructor: bool = True
) -> bytes:
    """Return a class file of Java 17 with nothing in it but, perhaps, a public constructor; names with slashes."""
    texts = ["<init>", "()V", name, parent, *interfaces]
    pool = b"".join(struct.pack(">BH", 1, len(text)) + text.encode() for text in texts)
    classes = range(3, len(texts) + 1)
    pool += b"".join(struct.pack(">BH", 7, number) for number in classes)
    pool += struct.pack(">BQ", 5, 1)  # a long: takes two numbers
    first = len(texts) + 1
    indexes = list(range(first, first + len(classes)))
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, first + len(classes) + 2)
    body = struct.pack(">HHHH", flags, indexes[0], indexes[1], len(interfaces))
    body += b"".join(struct.pack(">H", index) for index in indexes[2:])
    body += struct.pack(">HHHHH", 1, PUBLIC, 1, 2, 0)  # one field
    methods = struct.pack(">HHHHH", 1, PUBLIC, 1, 2, 0) if constructor else struct.pack(">H", 0)
    return head + pool + body + methods


def jar_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def plugin_jar(class_name: str = "org.example.OneSource") -> bytes:
    """Return a jar with one source connector, without service files."""
    path = class_name.replace(".", "/")
    return jar_bytes({f"{path}.class": class_file(path, SOURCE)})


def plugin_zip(path: Path, folder: str = "vendor-one-1.0", jar: bytes | None = None) -> Path:
    """Write a vendor's archive: one folder, a jar in ``lib``, a document."""
    files = {f"{folder}/lib/one.jar": jar or plugin_jar(), f"{folder}/doc/README.md": b"read me"}
    path.write_bytes(jar_bytes(files))
    return path


def tgz(path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Write a .tgz of these members."""
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
