"""Checks of one setting's value, small and picklable: call one for the complaint, print it for docs.

Source: the validators of Java ``ConfigDef``. A check of None (not set, optional) never complains. Java's complaint
about a missing or unparsable value is ``complaint_of_nothing``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.config.java_regex import java_pattern

Check = Callable[[Any], str | None]
"""Takes the typed value; returns the complaint about it, or None."""


class Sentence(str):
    """A complaint that is Java's whole sentence already."""

    __slots__ = ()


def anything(_: Any) -> str | None:
    """Accept every value, and never complain."""
    return None


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number that is not below ``least``."""

    least: float

    def __call__(self, value: Any) -> str | None:
        """Complain about a smaller number."""
        return f"Value must be at least {self.least}" if value is not None and value < self.least else None

    def __str__(self) -> str:
        return f"[{self.least},...]"


@dataclass(frozen=True, slots=True)
class Between:
    """A number from ``least`` to ``most``, both included."""

    least: float
    most: float

    def __call__(self, value: Any) -> str | None:
        """Complain about a number outside."""
        if value is None or self.least <= value <= self.most:
            return None
        return f"Value must be between {self.least} and {self.most}"

    def __str__(self) -> str:
        return f"[{self.least},...,{self.most}]"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words; for a list, every element is."""

    words: tuple[str, ...]
    ignore_case: bool = False

    def __call__(self, value: Any) -> str | None:
        """Complain about any other word."""
        given = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        words = {word.lower() for word in self.words} if self.ignore_case else set(self.words)
        for word in given:
            if word is not None and (str(word).lower() if self.ignore_case else str(word)) not in words:
                return self.complaint
        return None

    @property
    def complaint(self) -> str:
        """The complaint about any other word."""
        how = " (case insensitive)" if self.ignore_case else ""
        return f"String must be one of{how}: {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


def choices_of(check: Check) -> tuple[str, ...]:
    """Return the words that are valid, empty where a check does not name them all."""
    if isinstance(check, OneOf):
        return check.words
    parts = check.checks if isinstance(check, AllOf) else ()
    return next((words for part in parts if (words := choices_of(part))), ())


def one_of(*words: str, ignore_case: bool = False) -> OneOf:
    """Return a check that accepts just these words."""
    return OneOf(words, ignore_case)


def non_empty(value: Any) -> str | None:
    """Complain about an empty text or list."""
    if value is None or len(value):
        return None
    return "String must be non-empty" if isinstance(value, str) else "List must not be empty"


def no_control_characters(value: Any) -> str | None:
    """Complain about an empty name and about control characters in it."""
    if value is None:
        return None
    if not value:
        return "String may not be empty"
    bad = ", ".join(str(ord(char)) for char in value if ord(char) < 32 or 127 <= ord(char) < 160)
    return f"String may not contain control sequences but had the following ASCII chars: {bad}" if bad else None


def unique(value: Any) -> str | None:
    """Complain about a list that contains an element twice."""
    if value is None or len(set(value)) == len(value):
        return None
    return "Duplicate alias provided."


def java_regex(value: Any) -> str | None:
    """Complain about a pattern that does not compile."""
    for pattern in [value] if isinstance(value, str) else value or []:
        try:
            java_pattern(pattern)
        except ValueError as error:
            return f"Invalid regex: {error}"
    return None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of some checks; the first complaint counts."""

    checks: tuple[Check, ...]

    def __call__(self, value: Any) -> str | None:
        """Return the first complaint of the checks, None if all accept the value."""
        return next((complaint for check in self.checks if (complaint := check(value))), None)

    def __str__(self) -> str:
        return " and ".join(map(str, self.checks))


@dataclass(frozen=True, slots=True)
class AtLeastOr:
    """A number not below ``least``, or exactly ``special`` (-1: the broker's default)."""

    least: int
    special: int
    meaning: str = "the broker's default"

    def __call__(self, value: Any) -> str | None:
        """Complain about a number below the least one, unless it is the special one."""
        if value is None or value == self.special or value >= self.least:
            return None
        return f"Value must be at least {self.least}, or {self.special} for {self.meaning}"

    def __str__(self) -> str:
        return f"{self.special} or [{self.least},...]"


def complaint_of_nothing(check: Check) -> str | None:
    """Return the complaint of Java's check about null.

    Java checks null when a setting is missing or cannot be parsed.
    """
    if isinstance(check, AtLeast | Between):
        return "Value must be non-null"
    return check.complaint if isinstance(check, OneOf) else check(None)
