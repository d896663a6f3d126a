"""Output to the terminal, with colours if a user sees it: plain for a pipe, ``NO_COLOR`` or a dumb terminal.

Owns the one way text of others gets to a terminal: control characters are shown, never obeyed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

_STYLES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "bold": "1", "faint": "2"}
_STATE_STYLES = {
    "RUNNING": "green",
    "FAILED": "red",
    "DEGRADED": "red",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "cyan",
    "RESTARTING": "cyan",
}
WIDTH = 100  # columns, where the width is unknown
_ALLOWED = frozenset("\n\t")


@dataclass(slots=True)
class Terminal:
    """Both streams of a command. ``interactive`` None: as standard input and output are."""

    environment: Mapping[str, str]
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    interactive: bool | None = None
    ask: Callable[[str], str] = input

    def is_interactive(self) -> bool:
        """Return whether a user can answer questions."""
        if self.interactive is not None:
            return self.interactive
        return sys.stdin.isatty() and self.out.isatty()

    def coloured(self) -> bool:
        """Return whether colours are wanted (no-color.org; ``FORCE_COLOR`` for pipes that keep them)."""
        if self.environment.get("NO_COLOR"):
            return False
        if self.environment.get("FORCE_COLOR"):
            return True
        return self.out.isatty() and self.environment.get("TERM") != "dumb"

    def width(self) -> int:
        """Return how many columns a line may have."""
        said = self.environment.get("COLUMNS", "")
        if said.isdigit() and int(said):
            return int(said)
        try:
            return os.get_terminal_size(self.out.fileno()).columns or WIDTH
        except (OSError, ValueError):  # a pipe, a file
            return WIDTH

    def styled(self, text: str, style: str | None) -> str:
        """Return ``text`` in a style, or as it is."""
        if not style or not text or not self.coloured():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def write(self, text: str) -> None:
        """Write to standard output; no line's end is added."""
        self.out.write(text)

    def line(self, text: str = "", style: str | None = None) -> None:
        """Write one line that may hold text of others."""
        self.out.write(self.styled(harmless(text), style) + "\n")

    def note(self, text: str) -> None:
        """Write one line to standard error, for messages that are not results."""
        self.err.write(harmless(text) + "\n")

    def confirmed(self, question: str) -> bool:
        """Ask for a yes. Without a terminal, the answer is no."""
        if not self.is_interactive():
            return False
        self.out.flush()
        try:
            return self.ask(f"{harmless(question)} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, KeyboardInterrupt):
            return False


def state_style(state: str) -> str | None:
    """Return the colour of a state; one that is not known has none."""
    return _STATE_STYLES.get(state)


def harmless(text: str) -> str:
    """Return ``text`` with control characters and direction marks written out: others wrote it, a terminal obeys it."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _ALLOWED else _written_out(char) for char in text)


def one_line(text: object, limit: int | None = None) -> str:
    """Return ``text`` in one line, cut to ``limit`` characters."""
    line = harmless(" ".join(str(text).split()) if not isinstance(text, str) or not text.isprintable() else text)
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def _written_out(character: str) -> str:
    if character == "\xa0" or character.isspace():
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
