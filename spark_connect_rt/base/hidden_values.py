"""The secrets this process knows, hidden from all output: traces, statuses, answers, logs.

Owns the one list of them and the one way to hide them. Config providers also return numbers and switches. Values that
are too short for a secret are not remembered: hiding them would make every trace unreadable.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence

HIDDEN = "[hidden]"
LINE = "%(asctime)s %(levelname)s %(threadName)s %(name)s %(message)s"  # of every process of ours
SHORT = 4  # characters
NO_SECRETS = frozenset({"true", "false", "none", "null"})
MOST = 10_000  # the oldest are forgotten first

_lock = threading.Lock()
_known: dict[str, None] = {}
_longest_first: tuple[str, ...] | None = ()  # of them; None: to be made again


def remember(values: Iterable[str]) -> None:
    """Hide these values from now on."""
    global _longest_first
    with _lock:
        for value in values:
            if len(value.strip()) >= SHORT and value.lower() not in NO_SECRETS:
                if value in _known:
                    del _known[value]
                else:
                    _longest_first = None
                _known[value] = None
        while len(_known) > MOST:
            del _known[next(iter(_known))]


def forget() -> None:
    """Hide nothing any more (tests)."""
    global _longest_first
    with _lock:
        _known.clear()
        _longest_first = ()


def without_secrets(text: str, shown: Mapping[str, str] | None = None) -> str:
    """Return ``text`` with every known value replaced.

    ``shown``: value -> what to show instead of it; a short one is replaced only where it stands alone.
    """
    values = _values()
    if shown:
        values = sorted(dict.fromkeys((*values, *shown)), key=len, reverse=True)
    for value in values:
        if value in text:
            instead = shown.get(value, HIDDEN) if shown else HIDDEN
            pattern = re.escape(value) if len(value) >= SHORT else rf"(?<!\w){re.escape(value)}(?!\w)"
            text = re.sub(pattern, lambda _, instead=instead: instead, text)  # type: ignore[misc]
    return text


def _values() -> Sequence[str]:
    """Return the hidden values, longer ones first, because they may contain shorter ones."""
    global _longest_first
    found = _longest_first
    if found is None:
        with _lock:
            found = _longest_first = tuple(sorted(_known, key=len, reverse=True))
    return found


class MaskingFormatter(logging.Formatter):
    """Formats as another formatter does, and hides every known value: plug-ins quote their settings."""

    def __init__(self, formatter: logging.Formatter | None = None) -> None:
        """``formatter``: None is that of ``LINE``."""
        super().__init__()
        self._formatter = formatter or logging.Formatter(LINE)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, its trace included, without secrets."""
        return without_secrets(self._formatter.format(record))
