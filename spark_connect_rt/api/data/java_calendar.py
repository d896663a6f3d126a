"""Java's calendar: Gregorian from 15 October 1582, Julian before; days and ms since 1970, any year, UTC."""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 86_400_000
_CUTOVER_DAY = -141_427  # 1582-10-15
_GREGORIAN_DAYS = 146_097  # in 400 years
_JULIAN_DAYS = 1_461  # in 4 years
_EPOCH_FROM_MARCH = 719_468  # days from 0000-03-01, Gregorian, to 1970-01-01
_EPOCH_FROM_MARCH_JULIAN = 719_470


@dataclass(frozen=True, slots=True)
class DateFields:
    """A moment in fields; ``year`` 0 is 1 BC, ``weekday`` 0 is Sunday, ``day_of_year`` begins at 1."""

    year: int
    month: int
    day: int
    weekday: int
    day_of_year: int
    hour: int
    minute: int
    second: int
    ms: int


def fields_of(ms: int) -> DateFields:
    """Return the fields of a moment in UTC."""
    days, in_day = divmod(ms, DAY_MS)
    year, month, day = _date_of(days)
    minutes, milliseconds = divmod(in_day, 60_000)
    return DateFields(
        year,
        month,
        day,
        (days + 4) % 7,
        days - days_of(year, 1, 1) + 1,
        minutes // 60,
        minutes % 60,
        milliseconds // 1000,
        milliseconds % 1000,
    )


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01; month and day may lie outside of their range and carry over."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    days = _days(year, month, _GREGORIAN_DAYS, 400, _EPOCH_FROM_MARCH) + day - 1
    if days >= _CUTOVER_DAY:
        return days
    return _days(year, month, _JULIAN_DAYS, 4, _EPOCH_FROM_MARCH_JULIAN) + day - 1


def _days(year: int, month: int, cycle_days: int, cycle_years: int, epoch: int) -> int:
    year -= month < 3  # years begin in March: the leap day is then the last one
    cycle, in_cycle = divmod(year, cycle_years)
    century_days = in_cycle // 100 if cycle_years == 400 else 0
    months = (month + 9) % 12
    return cycle * cycle_days + in_cycle * 365 + in_cycle // 4 - century_days + (153 * months + 2) // 5 - epoch


def _date_of(days: int) -> tuple[int, int, int]:
    if days >= _CUTOVER_DAY:
        cycle, rest = divmod(days + _EPOCH_FROM_MARCH, _GREGORIAN_DAYS)
        in_cycle = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
        of_year = rest - (365 * in_cycle + in_cycle // 4 - in_cycle // 100)
        year = cycle * 400 + in_cycle
    else:
        cycle, rest = divmod(days + _EPOCH_FROM_MARCH_JULIAN, _JULIAN_DAYS)
        in_cycle = min(rest // 365, 3)
        of_year = rest - 365 * in_cycle
        year = cycle * 4 + in_cycle
    months = (5 * of_year + 2) // 153
    day = of_year - (153 * months + 2) // 5 + 1
    month = months + 3 if months < 10 else months - 9
    return year + (month < 3), month, day
