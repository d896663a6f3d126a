"""What can be said of the heap and the options of a JVM that hosts Java plug-ins without starting it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

LEAST_HEAP_BYTES = 32 << 20  # Connect's own classes do not start with less
MOST_HEAP_BYTES = 1 << 40
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_OURS = ("-cp", "-classpath", "--class-path", "-jar", "-m", "--module", "-XX:-ExitOnOutOfMemoryError")


def heap_bytes(text: str) -> int | None:
    """Return the bytes of a size as ``-Xmx`` takes it (``256m``), None: that is none."""
    found = re.fullmatch(r"(\d{1,15})([kmg]?)", text.strip().lower())
    return int(found.group(1)) * _UNITS[found.group(2)] if found else None


def heap_complaint(text: str) -> str | None:
    """Return what is wrong with a heap's size, None when nothing is."""
    size = heap_bytes(text)
    if size is None:
        return f"{text!r} is not a valid size. Use a number with k, m or g, for example 256m"
    if size < LEAST_HEAP_BYTES:
        return f"{text} is too small for a Java host. Use at least {LEAST_HEAP_BYTES >> 20}m"
    if size > MOST_HEAP_BYTES:
        return f"{text} is larger than the memory of any machine"
    return None


def options_complaint(options: Sequence[str]) -> str | None:
    """Return what is wrong with the JVM's options, None when nothing is that can be seen without starting it."""
    for option in options:
        if not option.startswith("-"):
            return f"{option!r} is not a JVM option. Options start with -"
        if option.partition("=")[0] in _OURS:
            return f"{option} cannot be set, because the host sets it itself"
    return None


def heap_of_tasks(value: str | None) -> str | None:
    """Accept a heap that a JVM can start with: a connector with another one would fail with its first task."""
    return heap_complaint(value) if value else None


def options_of_tasks(value: str | None) -> str | None:
    """Accept options in a shell's quotes, none of which is the host's own."""
    try:
        return options_complaint(shlex.split(value or ""))
    except ValueError as error:
        return f"not a valid list of options: {error}"
