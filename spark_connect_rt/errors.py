"""Errors, named by what the caller can do about them.

ConnectError
├── RetriableError                 call again, unchanged
│   ├── RebalanceInProgressError   ... once the group is stable
│   ├── UnreachableError           ... nothing was sent: no server answers there
│   └── TimedOutError              ... the deadline passed before the answer came
├── NotLeaderError                 forward to .leader_url
├── NotAssignedError               forward to .owner_url
├── NotFoundError                  correct the name
│   └── UnknownTopicError          ... or call again: it is a RetriableError, too
├── AlreadyExistsError             choose another name
├── BadRequestError                correct the request
├── ConfigConflictError            look at what was changed meanwhile, then decide
├── UnsafeChangeError              do it by hand: it cannot be restored safely
├── PluginInUseError               delete or change the connectors that are named
├── ForbiddenError                 this worker is configured not to do that
├── BadConfigError                 correct every key in .problems
├── JavaPluginError                .java_trace says it: a Java plug-in raised
├── DataError                      fix, skip or dead-letter this record (.stage)
├── ExternalError                  correct what is there, or wait for it: no record is to blame
├── FencedError                    stop: a newer owner has this work
├── ShuttingDownError              ask another worker
└── StartupError                   correct the environment; .exit_code is the process's

The exception that a sink task raises from ``put`` decides about its records, whatever ``errors.tolerance`` is:

RetriableError   the same records are delivered again: the target is away and the sink still has patience
ExternalError    the task fails and nothing is committed: the target stayed away until the retries were used up, or does
                 not let the sink work at all (credentials, address, permissions)
DataError        a record is to blame. With ``errors.tolerance=all`` it is found and dead-lettered; else the task fails
anything else    as ExternalError: only DataError blames a record

Every message names what it is about (setting, connector, task, topic-partition-offset) and says what to do.
``code`` is stable (such as ``CRT-1040``) and explained in docs/reference/errors.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError


class ConnectError(Exception):
    """Root: ``except ConnectError`` catches everything this package raises on purpose."""

    code = "CRT-1000"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class RetriableError(ConnectError):
    """Call again, unchanged. Connectors raise it from ``poll`` and ``put`` (Java ``RetriableException``)."""

    code = "CRT-1001"


class RebalanceInProgressError(RetriableError):
    """The group is rebalancing; call again once it is stable."""

    code = "CRT-1002"


class UnreachableError(RetriableError):
    """There is no connection to another worker, so the request had no effect there."""

    code = "CRT-1012"


class TimedOutError(RetriableError):
    """The deadline passed before the answer came."""

    code = "CRT-1003"


class NotLeaderError(ConnectError):
    """Only the leader may do this; ``leader_url`` is None while there is no leader."""

    code = "CRT-1010"

    def __init__(self, message: str, leader_url: str | None) -> None:
        super().__init__(message)
        self.leader_url = leader_url


class NotAssignedError(ConnectError):
    """Another worker owns this connector or task; ``owner_url`` is None while no worker does."""

    code = "CRT-1011"

    def __init__(self, message: str, owner_url: str | None) -> None:
        super().__init__(message)
        self.owner_url = owner_url


class NotFoundError(ConnectError):
    """No such connector, task, status or plug-in: correct the name."""

    code = "CRT-1020"


class UnknownTopicError(NotFoundError, RetriableError):
    """A broker does not know a topic or partition: there is none, or the broker learns of it in a moment.

    Java's ``UnknownTopicOrPartitionException`` is retriable for the same reason: a broker that has just started, and
    all brokers right after a topic was created, answer so for topics that exist.
    """


class AlreadyExistsError(ConnectError):
    """The name is taken: choose another."""

    code = "CRT-1021"


class BadRequestError(ConnectError):
    """The request cannot be carried out as it stands: correct it."""

    code = "CRT-1030"


class ConfigConflictError(ConnectError):
    """The configuration is not the one that the request is about: another client changed it meanwhile."""

    code = "CRT-1036"


class UnsafeChangeError(ConnectError):
    """An undo, a rollback or a way back in time that is refused: its message says what is not safe."""

    code = "CRT-1037"


class PluginInUseError(ConnectError):
    """An installed plug-in that connectors use is not removed: delete or change these first."""

    code = "CRT-1162"


class ForbiddenError(ConnectError):
    """This worker is configured not to do that (topic tracking off, wrong signature)."""

    code = "CRT-1031"


class BadConfigError(ConnectError):
    """A configuration was refused; ``problems`` maps each key to its reasons."""

    code = "CRT-1040"

    def __init__(self, problems: Mapping[str, Sequence[str]]) -> None:
        super().__init__("; ".join(f"{key}: {', '.join(why)}" for key, why in problems.items()))
        self.problems = problems


class DataError(ConnectError):
    """One record cannot be read, converted, transformed or delivered (Java ``DataException``).

    The only error of a sink's ``put`` that may become a dead letter. Never raise it for a target that is away.
    """

    code = "CRT-1050"

    def __init__(self, message: str, *, stage: str | None = None) -> None:
        super().__init__(message)
        self.stage = stage


class JavaPluginError(ConnectError):
    """A Java plug-in raised: class, message and stack are Java's."""

    def __init__(self, java_class: str, java_message: str | None, java_trace: str) -> None:
        super().__init__(java_trace.rstrip() or f"{java_class}: {java_message}")
        self.java_class = java_class
        self.java_message = java_message
        self.java_trace = java_trace


class ExternalError(ConnectError):
    """A connector's external system is away for too long, or does not let it work: no record is to blame.

    Connectors raise it when their retries are used up. The task fails; nothing of the failed ``put`` is committed or
    dead-lettered, and the records are delivered after a restart (``errors.restart.policy=backoff`` does it by itself).
    """

    code = "CRT-1062"


class FencedError(ConnectError):
    """A newer owner has this work: stop doing it."""

    code = "CRT-1060"


class ShuttingDownError(ConnectError):
    """This worker is stopping: ask another one."""

    code = "CRT-1070"


EXIT_LISTENER_TAKEN = 16
EXIT_PART_FAILED = 25
EXIT_TOO_FEW_FILES = 27  # all as in base.exit_codes, whose table has every one


class StartupError(ConnectError):
    """The process cannot start; ``exit_code`` is documented in docs/reference/exit_codes.md."""

    code = "CRT-1080"

    def __init__(self, message: str, *, exit_code: int, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.exit_code = exit_code


def as_error(raised: BaseException) -> Exception:
    """Return what a request is answered with after foreign code, a plug-in's or a library's, has raised ``raised``.

    Errors stay themselves. Exceptions that mean something to the thread or event loop that passes them on become a
    ConnectError with their name and text. SystemExit ends a thread, StopIteration cannot be set on a future, and a
    CancelledError or TimeoutError is taken for the waiting side's own.
    """
    means_more = isinstance(raised, StopIteration | TimeoutError | CancelledError)
    if isinstance(raised, ConnectError) or (isinstance(raised, Exception) and not means_more):
        return raised
    return ConnectError(f"plug-in code raised {type(raised).__name__}: {raised}".rstrip(": "))


_UNSPECIFIED = "CRT-1000"


def explained_at(code: str) -> str:
    """Return where the docs explain an error code, such as ``reference/errors.md#crt-1040``. Empty: nowhere.

    The path is relative to the docs' first page, because they have no fixed address.
    """
    return f"reference/errors.md#{code.lower()}" if code and code != _UNSPECIFIED else ""


def explain_hint(code: str) -> str:
    """Return the line that ends a message with an error code, such as ``connectrt explain CRT-1040 says more``.

    Empty for an error without a code, because nothing explains it.
    """
    return f"connectrt explain {code} says more" if explained_at(code) else ""
