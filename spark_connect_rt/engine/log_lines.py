"""Log lines of tasks as values: their text without secrets, their bounds, and the answers that hold them.

Owns how long a line may be and how many a second are kept. Lines above the limit are counted before their text is made:
a task that logs a hundred thousand lines a second pays for a comparison each.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.json_text import tellable
from spark_connect_rt.base.loggers import NUMBERS, Subject

LINE_LIMIT = 8_192  # characters of a line, its trace included
READ_LIMIT = 256 * 1024  # characters of a message that are looked at for secrets
LINES_A_SECOND = 100  # of one task below WARN, and as many from WARN on
LINES_IN_ALL = 500  # a second, of a process
BURST = 5  # seconds' worth that may come at once
MOST_SUBJECTS = 2_000  # whose rate is remembered
PLACES = ("driver", "executor", "process")
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_TRACES = logging.Formatter()


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line, as it is carried and kept."""

    at_ms: int
    level: str
    logger: str
    message: str

    def size(self) -> int:
        """Return about how many bytes it takes in memory."""
        return 160 + len(self.logger) + len(self.message)


class LogRateLimit:
    """Lets a burst and then so many lines a second pass, and counts the others. A handler's lock keeps it."""

    def __init__(self, each: int = LINES_A_SECOND, in_all: int = LINES_IN_ALL) -> None:
        self._each = each
        self._in_all = in_all
        self._left: dict[tuple[Subject | None, bool], tuple[float, float]] = {}  # lines that may pass, as of when
        self._left_in_all = (float(in_all * BURST), 0.0)
        self._dropped: dict[Subject | None, int] = {}

    def passes(self, subject: Subject | None, level: int, now_s: float) -> bool:
        """Return whether a line is still within the bounds; warnings have their own share."""
        key = (subject, level >= logging.WARNING)
        if len(self._left) > MOST_SUBJECTS:
            self._left.clear()
        before = self._left.get(key)
        left = self._each * BURST if before is None else _filled(before, self._each, now_s)
        left_in_all = _filled(self._left_in_all, self._in_all, now_s)
        passes = left >= 1 and left_in_all >= 1
        self._left[key] = (left - passes, now_s)
        self._left_in_all = (left_in_all - passes, now_s)
        if not passes:
            self._dropped[subject] = self._dropped.get(subject, 0) + 1
        return passes

    def take_dropped(self) -> dict[Subject | None, int]:
        """Return and forget how many lines did not pass."""
        dropped, self._dropped = self._dropped, {}
        return dropped


def _filled(left: tuple[float, float], rate: int, now_s: float) -> float:
    return min(float(rate * BURST), left[0] + max(0.0, now_s - left[1]) * rate)


def raw_line(record: logging.LogRecord) -> RawLine:
    """Return a record as a line. Raises nothing."""
    return RawLine(int(record.created * 1000), level_name(record.levelno), tellable(record.name[:200]), text_of(record))


def text_of(record: logging.LogRecord) -> str:
    """Return message and trace, without secrets, at most ``LINE_LIMIT`` characters: of a long one both ends."""
    try:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{record.exc_text or _TRACES.formatException(record.exc_info)}"
    except Exception:  # noqa: BLE001 - a plug-in's arguments
        text = f"{record.msg!r:.500} (its arguments do not fit)"
    return bounded_text(text)


def bounded_text(text: str) -> str:
    """Return a text without secrets and within ``LINE_LIMIT``."""
    if len(text) > READ_LIMIT:
        text = f"{text[: READ_LIMIT // 2]}\n... {len(text) - READ_LIMIT} characters ...\n{text[-READ_LIMIT // 2 :]}"
    shown = tellable(without_secrets(text))
    if len(shown) <= LINE_LIMIT:
        return shown
    half = LINE_LIMIT // 2 - 40
    return f"{shown[:half]}\n... {len(shown) - 2 * half} characters ...\n{shown[-half:]}"


def shortened(line: RawLine, limit: int) -> RawLine:
    """Return the line with at most so many characters of its message."""
    return line if len(line.message) <= limit else replace(line, message=f"{line.message[:limit]} ... (cut)")


def level_name(number: int) -> str:
    """Return log4j's name of Python's number."""
    return next((name for name in reversed(LEVELS) if number >= NUMBERS[name]), "TRACE")


def at_least(level: str) -> frozenset[str]:
    """Return the levels that show when this one is asked for."""
    return frozenset(LEVELS[LEVELS.index(level) :])


def dropped_line(number: int, at_ms: int) -> RawLine:
    """Return the line that stands for those that were dropped."""
    what = (
        f"{number} lines were dropped: a task may log {LINES_A_SECOND} lines a second, and all together {LINES_IN_ALL}"
    )
    return RawLine(at_ms, "WARN", "connectrt.logs", what)


def encoded(line: RawLine) -> list[Any]:
    """Return a line for a message of the control channel."""
    return [line.at_ms, line.level, line.logger, line.message]


def decoded_line(fields: Sequence[Any]) -> RawLine:
    """Return the line of ``encoded``'s fields. Raises TypeError, ValueError: it is invalid."""
    at_ms, level, logger, message = fields
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}")
    return RawLine(int(at_ms), level, str(logger)[:200], str(message)[: LINE_LIMIT + 100])
