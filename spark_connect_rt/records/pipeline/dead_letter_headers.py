"""Connect's headers of a dead letter (KIP-298; Java ``DeadLetterQueueReporter``): their prefix, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PREFIX = "__connect.errors."
RawHeaders = Iterable[tuple[str, bytes | None]]


def split_headers(headers: RawHeaders) -> tuple[tuple[tuple[str, bytes | None], ...], Mapping[str, str | None]]:
    """Return the record's own headers, and Connect's by their names without the prefix; of two of a name the last."""
    own: list[tuple[str, bytes | None]] = []
    errors: dict[str, str | None] = {}
    for name, data in headers:
        if name.startswith(PREFIX):
            errors[name[len(PREFIX) :]] = None if data is None else data.decode("utf-8", errors="replace")
        else:
            own.append((name, data))
    return tuple(own), errors
