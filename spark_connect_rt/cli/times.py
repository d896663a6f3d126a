"""Times as people write them on a command line. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from spark_connect_rt.errors import BadRequestError

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
