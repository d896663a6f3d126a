"""Errors for a worker's refusals, with its message; named by what the caller can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.errors import ConnectError


class RefusedError(ConnectError):
    """A worker refused. ``str()`` is its message; ``status`` its HTTP status, ``problems`` setting -> what is wrong."""

    code = "CRT-1190"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        address: str,
        code: str | None = None,
        hint: str | None = None,
        problems: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.address = address
        self.hint = hint
        self.problems = dict(problems or {})


class UnknownNameError(RefusedError):
    """404: no such connector, task, logger ...: correct the name."""


class NotServedError(RefusedError):
    """This worker does not have the path: a Java worker, an older one, or a part that is switched off."""

    code = "CRT-1191"


class ConflictError(RefusedError):
    """409: the name is taken, another client was first, or the group rebalances (``momentary``: send it again)."""

    def momentary(self) -> bool:
        """Return whether the same request can succeed in a moment."""
        return is_momentary(str(self))


class NotAllowedError(RefusedError):
    """401 or 403: give credentials, or other ones."""


class NoAnswerError(ConnectError):
    """The response did not come from a Connect worker (a proxy's page, half a body): check the address."""

    code = "CRT-1192"


def is_momentary(message: str) -> bool:
    """Return whether a 409 says that the group is busy and nothing was done (Java ``ConnectorsResource``)."""
    return "momentarily" in message or "conflicting operation" in message
