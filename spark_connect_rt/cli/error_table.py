"""The meaning of an error code, read from the table of the docs that the wheel contains."""

from __future__ import annotations

import re
from pathlib import Path

from spark_connect_rt.errors import NotFoundError

_ROW = re.compile(
    r'^\| (?P<code>CRT-\d{4}) \|(?: <a id="[\w-]+"></a>)?(?P<meaning>.*?) \| (?P<action>.*) \|$', re.MULTILINE
)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")  # without its target, which is a page of the docs


def explanation(code: str) -> str:
    """Return what an error code means and what to do, as two lines of text.

    Args:
        code: such as ``CRT-1040``, in any case, or only its number.

    Raises NotFoundError: the table has no such code.
    """
    wanted = code.strip().upper()
    wanted = wanted if wanted.startswith("CRT-") else f"CRT-{wanted}"
    for row in _ROW.finditer(table_file().read_text("utf-8")):
        if row["code"] == wanted:
            return f"{wanted}: {_plain(row['meaning'])}\nWhat to do: {_plain(row['action'])}"
    raise NotFoundError(f"{code} is not an error code. Codes look like CRT-1040")


def _plain(cell: str) -> str:
    return _LINK.sub(r"\1", cell).strip()


def table_file() -> Path:
    """Return the file of the table: in an installed package the one next to this module, else the docs' page."""
    installed = Path(__file__).with_name("errors.md")
    return installed if installed.exists() else Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
