"""Java's ``SimpleDateFormat`` in UTC with English names: the pattern, and how a moment is written.

Every letter is written; reading is in ``simple_date_parse``. Weeks are those of the United States (they begin on
Sunday, the first one holds 1 January), as in a JVM without another locale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_connect_rt.api.data.java_calendar import DateFields, days_of, fields_of

LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ERAS = ("BC", "AD")
HALVES = ("AM", "PM")


@dataclass(frozen=True, slots=True)
class PatternPart:
    """A run of one letter, or literal text (``letter`` empty)."""

    letter: str
    count: int
    text: str = ""


def pattern_parts(pattern: str) -> tuple[PatternPart, ...]:
    """Return the parts of a pattern. Raises ValueError with the reason in Java's words."""
    parts: list[PatternPart] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if character == "'":
            text, index = _quoted(pattern, index)
            _add_text(parts, text)
        elif character.isascii() and character.isalpha():
            run = len(pattern[index:]) - len(pattern[index:].lstrip(character))
            _check_letter(character, run)
            parts.append(PatternPart(character, run))
            index += run
        else:
            _add_text(parts, character)
            index += 1
    return tuple(parts)


def pattern_doubt(pattern: str) -> str | None:
    """Return why a legal pattern is surely a mistake, None for a pattern without such a letter."""
    try:
        counts = {part.letter: part.count for part in pattern_parts(pattern) if part.letter}
    except ValueError:
        return None
    letters = counts.keys()
    for is_doubtful, why in (
        (counts.get("S", 0) > 3, "S is milliseconds: .123456 is 123456 ms. Write SSS"),
        ("Y" in letters and "M" in letters, "Y is the year of the week, another one around New Year. Write yyyy"),
        ("D" in letters and "M" in letters, "D is the day of the year. Write dd for the day of the month"),
        ("m" in letters and not letters & set("HkKh"), "m is minutes, and there is no hour. Write MM for the month"),
        (letters & set("Hk") and "s" in letters and "m" not in letters, "M is the month. Write mm for the minutes"),
        (
            letters & set("hK") and "a" not in letters,
            "h and K are hours of half a day. Write HH, or add a for AM and PM",
        ),
    ):
        if is_doubtful:
            return why
    return None


def _check_letter(letter: str, count: int) -> None:
    if letter not in LETTERS:
        raise ValueError(f"Illegal pattern character '{letter}'")
    if letter == "X" and count > 3:
        raise ValueError(f"invalid ISO 8601 format: length={count}")


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """Return the text of a quotation and where it ends; two quotes stand for one."""
    if pattern[start : start + 2] == "''":
        return "'", start + 2
    text, index = "", start + 1
    while index < len(pattern):
        if pattern[index] != "'":
            text, index = text + pattern[index], index + 1
        elif pattern[index : index + 2] == "''":
            text, index = text + "'", index + 2
        else:
            return text, index + 1
    raise ValueError("Unterminated quote")


def _add_text(parts: list[PatternPart], text: str) -> None:
    if parts and not parts[-1].letter:
        parts[-1] = PatternPart("", 0, parts[-1].text + text)
    else:
        parts.append(PatternPart("", 0, text))


def format_ms(parts: tuple[PatternPart, ...], ms: int) -> str:
    """Return the text of a moment, ms since the epoch."""
    fields = fields_of(ms)
    return "".join(_field_text(part, fields) if part.letter else part.text for part in parts)


def _field_text(part: PatternPart, fields: DateFields) -> str:
    letter, count = part.letter, part.count
    if letter in _NUMBERS:
        return f"{_NUMBERS[letter](fields):0{count}d}"
    if letter in "yY":
        year = _week_year(fields) if letter == "Y" else fields.year
        year = year if year > 0 else 1 - year
        return f"{year % 100:02d}" if count == 2 else f"{year:0{count}d}"
    if letter in "ML":
        name = MONTHS[fields.month - 1]
        return name if count >= 4 else name[:3] if count == 3 else f"{fields.month:0{count}d}"
    if letter == "E":
        return WEEKDAYS[fields.weekday] if count >= 4 else WEEKDAYS[fields.weekday][:3]
    if letter == "z":
        return "Coordinated Universal Time" if count >= 4 else "UTC"
    names = {"G": ERAS[fields.year > 0], "a": HALVES[fields.hour >= 12], "Z": "+0000", "X": "Z"}
    return names[letter]


def _week_of_year(fields: DateFields) -> int:
    return 1 if _week_year(fields) > fields.year else _week(fields.day_of_year, fields.weekday)


def _week(day: int, weekday: int) -> int:
    """Return the number of the week that holds ``day``, counted from the week of day 1."""
    first_weekday = (weekday - day + 1) % 7
    return (day - 1 + first_weekday) // 7 + 1


def _week_year(fields: DateFields) -> int:
    days_in_year = days_of(fields.year + 1, 1, 1) - days_of(fields.year, 1, 1)
    saturday = fields.day_of_year + 6 - fields.weekday
    return fields.year + 1 if saturday > days_in_year else fields.year


_NUMBERS: dict[str, Callable[[DateFields], int]] = {
    "d": lambda fields: fields.day,
    "D": lambda fields: fields.day_of_year,
    "F": lambda fields: (fields.day - 1) // 7 + 1,
    "w": _week_of_year,
    "W": lambda fields: _week(fields.day, fields.weekday),
    "u": lambda fields: fields.weekday or 7,
    "H": lambda fields: fields.hour,
    "k": lambda fields: fields.hour or 24,
    "K": lambda fields: fields.hour % 12,
    "h": lambda fields: fields.hour % 12 or 12,
    "m": lambda fields: fields.minute,
    "s": lambda fields: fields.second,
    "S": lambda fields: fields.ms,
}
