"""How the text of a file is written: its encoding and its line ends, and both ways between its bytes and UTF-8 with LF.

Readers work on UTF-8 and count in the file's own bytes, so an offset is a place in the file.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.errors import ConnectError

UTF_8 = "utf-8"
_MARKS = (  # byte order marks; UTF-32's begin as UTF-16's do
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WITHOUT_MARK = {"utf-16": "utf-16-be", "utf-32": "utf-32-be", "utf-8-sig": UTF_8, "ascii": UTF_8}  # as in Java
_SAMPLE = "Aa0,\r\n"


def encoding_problem(name: Any) -> str | None:
    """Return why an encoding is invalid, None for a good one, which decodes each piece of text alone."""
    try:
        known = codecs.lookup(name)
        good = len((_SAMPLE + _SAMPLE).encode(name)) >= 2 * len(_SAMPLE) and not known.name.startswith(_STATEFUL)
    except (LookupError, TypeError, ValueError):
        good = False
    return None if good else "must be a text encoding, such as UTF-8, ISO-8859-1, windows-1252 or UTF-16LE"


_STATEFUL = ("utf-7", "iso2022", "hz", "idna", "punycode", "unicode", "raw", "undefined", "mbcs", "oem", "rot")


@dataclass(frozen=True, slots=True)
class FileText:
    """The encoding and line ends of one file's text."""

    path: str
    encoding: str = UTF_8  # Python's name
    mark_bytes: int = 0  # the length of the byte order mark at the beginning
    cr_ends: bool = False  # lines end with CR alone

    @property
    def _is_plain(self) -> bool:
        return self.encoding == UTF_8 and not self.cr_ends

    def utf8(self, raw: bytes, position: int, *, whole: bool) -> bytes:
        """Return the text of bytes that begin at ``position``, in UTF-8, with LF where lines end with CR alone.

        A character that is cut at the end is left out unless the bytes are ``whole``. Raises ConnectError.
        """
        if self._is_plain:
            return raw
        if self.encoding != UTF_8:
            try:
                raw = codecs.getincrementaldecoder(self.encoding)().decode(raw, whole).encode()
            except UnicodeError as error:
                at = position + getattr(error, "start", 0)
                raise ConnectError(
                    f"file {self.path} offset {at}: the bytes are not valid {self.encoding}. Set file.encoding to "
                    "the file's encoding"
                ) from error
        return raw.replace(b"\r", b"\n") if self.cr_ends else raw

    def raw_size(self, text: bytes) -> int:
        """Return how many bytes of the file a part of its text takes."""
        return len(text) if self.encoding == UTF_8 else len(text.decode().encode(self.encoding))


def file_text(path: str, start: bytes, encoding: str) -> FileText:
    """Return how a file is written, by its first bytes and the setting; a byte order mark overrides the setting.

    Raises ConnectError: the file is not text in that encoding.
    """
    name = codecs.lookup(encoding).name
    name = _WITHOUT_MARK.get(name, name)
    mark, name = next(((mark, name) for mark, name in _MARKS if start.startswith(mark)), (b"", name))
    if name == UTF_8 and b"\0" in start[:4]:
        raise ConnectError(
            f"file {path} begins with NUL bytes, so it is not UTF-8 text. Set file.encoding, or remove the file"
        )
    text = FileText(path, name, len(mark))
    seen = text.utf8(start[len(mark) :], len(mark), whole=False)
    cr_ends = b"\r" in seen[:-1] and b"\n" not in seen
    return FileText(path, name, len(mark), cr_ends)
