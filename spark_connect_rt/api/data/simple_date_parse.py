"""How Java's lenient ``SimpleDateFormat`` reads a text: month 13 is next January, a rest of the text is left over.

Not read, only written: weeks (``w W F Y``) and weekdays without a day of month. Zone names known are UTC, GMT and
those of the United States; ``GMT+1``, ``+0100`` and ISO zones are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from spark_connect_rt.api.data.java_calendar import DAY_MS, days_of
from spark_connect_rt.api.data.simple_date_format import ERAS, HALVES, MONTHS, WEEKDAYS, PatternPart

NOT_READ = "wWFY"
_NUMERIC = "yYdHkKhmsSDFwWu"
_NUMBER = re.compile(r"-?\d+")
_RFC_822 = re.compile(r"([+-])(\d\d)(\d\d)")
_GMT = re.compile(r"GMT(?:([+-])(\d\d?):(\d\d)|(?![+-]))", re.IGNORECASE)  # an offset that begins must be whole
_ISO = {1: re.compile(r"([+-])(\d\d)()"), 2: re.compile(r"([+-])(\d\d)(\d\d)"), 3: re.compile(r"([+-])(\d\d):(\d\d)")}
_ZONES_HOURS = {"UTC": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}

Fields = dict[str, int]
"""Field letter -> value, in the order in which they were read: where two disagree, the later one counts."""


class _NoMatchError(Exception):
    """The text does not follow the pattern."""


def parse_prefix(
    parts: Sequence[PatternPart], text: str, century_start: tuple[int, int, int]
) -> tuple[int, int] | None:
    """Return (ms since the epoch, index after the last character read), None where the text does not fit.

    Args:
        century_start: (year, month, day) from which on two-digit years count; Java takes today less 80 years.
    """
    fields: Fields = {}
    index = 0
    try:
        for place, part in enumerate(parts):
            if not part.letter:
                if not text.startswith(part.text, index):
                    return None
                index += len(part.text)
                continue
            follower = parts[place + 1] if place + 1 < len(parts) else None
            index = _read_field(part, text, index, _is_numeric(follower), fields, century_start[0])
    except _NoMatchError:
        return None
    ms = _moment(fields)
    if fields.get("ambiguous year") and ms < days_of(*century_start) * DAY_MS:
        fields["y"] += 100
        ms = _moment(fields)
    return ms, index


def _is_numeric(part: PatternPart | None) -> bool:
    if part is None:
        return False
    return part.count <= 2 if part.letter in ("M", "L") else part.letter != "" and part.letter in _NUMERIC


def _read_field(part: PatternPart, text: str, index: int, exact: bool, fields: Fields, century_year: int) -> int:
    index += len(text[index:]) - len(text[index:].lstrip(" \t"))
    if index >= len(text):
        raise _NoMatchError
    letter = "M" if part.letter == "L" else part.letter
    if letter in _READERS and not (letter == "M" and part.count <= 2):
        value, end = _READERS[letter](part, text, index)
        fields.pop(letter, None)
        fields["zone" if letter in "zZX" else letter] = value
        return end
    found = _NUMBER.match(text[: index + part.count] if exact else text, index)
    if found is None or (exact and index + part.count > len(text)):
        raise _NoMatchError
    value = int(found.group())
    fields.pop(letter, None)
    if letter == "y" and part.count <= 2 and len(found.group()) == 2 and value >= 0:
        fields["ambiguous year"] = int(value == century_year % 100)
        value += century_year // 100 * 100 + (100 if value < century_year % 100 else 0)
    fields[letter] = value
    return found.end()


def _name_reader(names: Sequence[str], short: int) -> Callable[[PatternPart, str, int], tuple[int, int]]:
    """Return a reader of whole names and of their first ``short`` letters, in any case."""

    def read(_: PatternPart, text: str, index: int) -> tuple[int, int]:
        rest = text[index:].lower()
        for forms in (names, [name[:short] for name in names]):
            for value, name in enumerate(forms):
                if rest.startswith(name.lower()):
                    return value, index + len(name)
        raise _NoMatchError

    return read


def _read_month(part: PatternPart, text: str, index: int) -> tuple[int, int]:
    value, end = _MONTH_NAMES(part, text, index)
    return value + 1, end


def _read_zone(_: PatternPart, text: str, index: int) -> tuple[int, int]:
    """Return the offset in minutes of ``+0100``, ``GMT``, ``GMT+1:00`` or a known name."""
    found = _RFC_822.match(text, index) or _GMT.match(text, index)
    if found:
        return _offset(found), found.end()
    name = text[index : index + 3].upper()
    if name in _ZONES_HOURS:
        return _ZONES_HOURS[name] * 60, index + 3
    raise _NoMatchError


def _read_iso_zone(part: PatternPart, text: str, index: int) -> tuple[int, int]:
    if text[index] == "Z":
        return 0, index + 1
    found = _ISO[part.count].match(text, index)
    if found is None:
        raise _NoMatchError
    return _offset(found), found.end()


def _offset(found: re.Match[str]) -> int:
    hours, minutes = int(found.group(2) or 0), int(found.group(3) or 0)
    if hours > 23 or minutes > 59:
        raise _NoMatchError
    return (hours * 60 + minutes) * (-1 if found.group(1) == "-" else 1)


_MONTH_NAMES = _name_reader(MONTHS, 3)
_READERS: dict[str, Callable[[PatternPart, str, int], tuple[int, int]]] = {
    "M": _read_month,
    "E": _name_reader(WEEKDAYS, 3),
    "G": _name_reader(ERAS, 2),
    "a": _name_reader(HALVES, 2),
    "z": _read_zone,
    "Z": _read_zone,
    "X": _read_iso_zone,
}


def _moment(fields: Fields) -> int:
    """Return ms since the epoch of leniently read fields. Missing fields default to 1970-01-01 00:00."""
    year = fields.get("y", 1970)
    year = 1 - year if fields.get("G") == 0 else year
    order = list(fields)
    if "D" in fields and ("d" not in fields or order.index("D") > order.index("d")):
        days = days_of(year, 1, fields["D"])
    else:
        days = days_of(year, fields.get("M", 1), fields.get("d", 1))
    minutes = _hour(fields) * 60 + fields.get("m", 0) - fields.get("zone", 0)
    return days * DAY_MS + minutes * 60_000 + fields.get("s", 0) * 1000 + fields.get("S", 0)


def _hour(fields: Fields) -> int:
    """Return the hour of day of the last hour letter. 12 and 24 mean 0 for letters that count from 1."""
    named = [letter for letter in fields if letter in "HkKh"]
    if not named:
        return 12 * fields.get("a", 0)
    last = named[-1]
    if last in "Kh" and "a" not in fields and any(letter in "Hk" for letter in named):
        last = next(letter for letter in reversed(named) if letter in "Hk")
    value = fields[last]
    if last in "Hk":
        return 0 if (last, value) == ("k", 24) else value
    return (0 if (last, value) == ("h", 12) else value) + 12 * fields.get("a", 0)
