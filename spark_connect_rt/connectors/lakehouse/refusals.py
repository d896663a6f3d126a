"""Which errors of catalogs, databases and object stores are refusals, so that the same request fails again. Pure.

Everything else may be over soon, and is tried again until `connectrt.table.retry.timeout.ms` has passed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SQL_STATES = ("28000", "28P01", "3D000", "42501")  # login, password, missing database, missing privilege
_TEXT = re.compile(
    r"(?i)authentication failed|no password supplied|(role|database) .{1,80} does not exist|permission denied|"
    r"access[ _]?denied|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|bucket does not exist|"
    r"\b(401 Unauthorized|403 Forbidden)\b"
)


def is_refusal(error: BaseException) -> bool:
    """Return whether credentials, permissions or a missing database or bucket are the cause of an error."""
    return any(_is_refusal(cause) for cause in _causes(error))


def _is_refusal(error: BaseException) -> bool:
    state = getattr(error, "sqlstate", None)
    return isinstance(error, PermissionError) or state in _SQL_STATES or _TEXT.search(str(error)) is not None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, the database driver's own error included."""
    seen: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        inner = getattr(found, "orig", None)  # of SQLAlchemy's errors
        if isinstance(inner, BaseException):
            yield inner
        found = found.__cause__
