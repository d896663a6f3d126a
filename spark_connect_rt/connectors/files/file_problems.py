"""Maps an operating system's error about a file to the reader's reaction: a bad file, or a call to repeat."""

from __future__ import annotations

import errno

from spark_connect_rt.errors import ConnectError, DataError, RetriableError

_PASSING = {
    getattr(errno, name)
    for name in (
        *("EIO", "ESTALE", "ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENOTCONN"),
        *("ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EINTR", "EBUSY", "EREMOTEIO"),
    )
    if hasattr(errno, name)
}
"""Errors of the machine or of a mounted disk: the same file is good once they are over."""


def file_problem(path: str, what: str, error: OSError, kind: str = "file") -> ConnectError:
    """Return the error to raise: RetriableError for a temporary one, ConnectError for others.

    Args:
        what: the failed operation, such as ``cannot be read``.
    """
    words = f"{kind} {path} {what}: {error.strerror or error}"
    return RetriableError(words) if error.errno in _PASSING else ConnectError(words)


def content_problem(path: str, what: str, error: OSError) -> ConnectError:
    """Return ``file_problem`` for an error of pyarrow. Errors without a number blame the content: DataError."""
    found = file_problem(path, what, error)
    return DataError(str(found)) if error.errno is None else found
