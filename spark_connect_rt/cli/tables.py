"""Items as a table, as JSON, as YAML or as names. Pure: text out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from spark_connect_rt.cli.terminal import one_line
from spark_connect_rt.errors import BadRequestError

Item = Mapping[str, Any]
GAP = "   "


class Output(Enum):
    """How a result is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header, what an item has there, its style; ``wide``: only with ``-o wide``."""

    header: str
    cell: Callable[[Item], Any]
    wide: bool = False
    limit: int | None = None
    style: Callable[[str], str | None] | None = None


Styled = Callable[[str, str | None], str]


def plain(text: str, _: str | None) -> str:
    """Return ``text`` without a style."""
    return text


class Table:
    """Rows under headers. Widths grow with what is shown: rows that come later keep the columns where they can."""

    def __init__(self, columns: Sequence[Column], wide: bool, styled: Styled = plain) -> None:
        self._columns = [column for column in columns if wide or not column.wide]
        self._wide = wide
        self._styled = styled
        self._widths = [len(column.header) for column in self._columns]

    def header(self) -> str:
        """Return the line of headers."""
        return self._joined([column.header for column in self._columns])

    def rows(self, items: Sequence[Item]) -> list[str]:
        """Return one line an item."""
        return [self._line(cells) for cells in self._measured(items)]

    def text(self, items: Sequence[Item]) -> str:
        """Return headers and rows as lines."""
        measured = self._measured(items)
        return "".join(f"{line}\n" for line in (self.header(), *(self._line(cells) for cells in measured)))

    def _measured(self, items: Sequence[Item]) -> list[list[str]]:
        rows = [[self._cell(column, item) for column in self._columns] for item in items]
        for cells in rows:
            for index, cell in enumerate(cells):
                if len(cell) > self._widths[index]:
                    self._widths[index] = len(cell)
        return rows

    def _cell(self, column: Column, item: Item) -> str:
        value = column.cell(item)
        return one_line("-" if value is None or value == "" else value, None if self._wide else column.limit)

    def _line(self, cells: Sequence[str]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)]
        styled = [
            self._styled(text, column.style(cell)) if column.style else text
            for text, cell, column in zip(padded, cells, self._columns, strict=True)
        ]
        return GAP.join(styled).rstrip()

    def _joined(self, cells: Sequence[str]) -> str:
        return GAP.join(cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)).rstrip()


def json_text(value: Any) -> str:
    """Return ``value`` as JSON for people: indented, with its order, control characters escaped."""
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def yaml_text(value: Any) -> str:
    """Return ``value`` as YAML. Texts that look like a number or a switch are quoted."""
    import yaml

    # through JSON: YAML's anchors for what occurs twice are for machines
    text: str = yaml.safe_dump(
        json.loads(json.dumps(value)), sort_keys=False, default_flow_style=False, allow_unicode=False
    )
    return text


def time_text(at_ms: Any) -> str | None:
    """Return a time in this machine's zone, to the second; None for None."""
    if not isinstance(at_ms, (int, float)):
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return str(at_ms)


def rate_text(rate: Any) -> str | None:
    """Return records a second as people read them; None for None."""
    if not isinstance(rate, (int, float)):
        return None
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def count_text(count: Any) -> str | None:
    """Return a count with separators; None for None."""
    return f"{count:,}" if isinstance(count, int) else None


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, for example ``1 letter`` or ``2 letters``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def compact(value: Any) -> str:
    """Return a JSON value in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Times as people write them on a command line. Pure.


_AGO = re.compile(r"^(\d+)(s|m|h|d)$")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST_MS = 253_402_300_799_000  # the end of the year 9999


def time_ms(text: str, now_ms: int) -> int:
    """Return ms since 1970 of ``2026-11-21T10:00`` (in this machine's zone, if it names none), of ms, or of ``2h`` ago.

    Raises BadRequestError.
    """
    text = text.strip()
    if ago := _AGO.match(text):
        return max(0, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    if text.isdigit() and text.isascii() and int(text[:16]) >= 10_000:
        if int(text[:16]) > _MOST_MS:
            raise BadRequestError(f"time {text}: must be before the year 10000")
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.astimezone()).astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise BadRequestError(f"time {text}: expected 2026-11-21T10:00, ms since 1970, or 2h (ago)") from error


def since_ms(text: str | None, now_ms: int) -> int | None:
    """Return the time of an option that may be missing."""
    return None if text is None else time_ms(text, now_ms)
