"""Reads of what only the memory of other workers holds: rates, courses, events, lines of logs.

Every part of the management API serves its reads here under a name, and asks the group for them by that name. A worker
that is away, too slow or of another kind is named with the reason; it never keeps the others' answers back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spark_connect_rt.base.json_shape import JsonShape

OURS, JAVA, UNKNOWN = "spark-connect-rt", "java", "unknown"
ASK_LIMIT_MS = 1_000

Serve = Callable[[Mapping[str, Any]], Any]
"""Takes the arguments of a read, returns what JSON can hold: dicts, lists, texts, numbers. Any thread; soon."""


@dataclass(frozen=True, slots=True)
class GroupWorker:
    """A member of the group, by its advertised address."""

    worker_id: str  # host:port
    url: str  # with a trailing slash
    leader: bool = False
    this: bool = False


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What one worker answered. ``why`` is empty if it did, and else says in one line why not."""

    worker: GroupWorker
    answer: Any = None
    why: str = ""
    runtime: str = OURS  # spark-connect-rt, java, or unknown


@dataclass(frozen=True, slots=True)
class Unanswered(JsonShape):
    """A worker whose part is missing in an answer, and why."""

    worker_id: str
    why: str


def unanswered(answers: Sequence[WorkerAnswer]) -> tuple[Unanswered, ...]:
    """Return whose part is missing."""
    return tuple(Unanswered(answer.worker.worker_id, answer.why) for answer in answers if answer.why)


class GroupReads(Protocol):
    """One worker's end of the reads between workers. Any thread."""

    def serve(self, what: str, read: Serve) -> None:
        """Answer reads called ``what`` (letters, digits, - and .) from now on, of this worker and of others."""

    def answer(self, what: str, arguments: Mapping[str, Any]) -> Any:
        """Return what this worker answers. Raises NotFoundError: it serves no such read."""

    def workers(self) -> Sequence[GroupWorker]:
        """Return the members of the group, this worker first; may ask the leader, for at most ``ASK_LIMIT_MS``."""

    def ask(
        self,
        what: str,
        arguments: Mapping[str, Any] | None = None,
        limit_ms: int = ASK_LIMIT_MS,
        only: Collection[str] | None = None,
    ) -> Sequence[WorkerAnswer]:
        """Ask every worker at once, this one too; return within ``limit_ms`` (and a first look-up of the members).

        Blocks: not for the thread of the REST server. ``only``: these workers, by worker id.
        """
