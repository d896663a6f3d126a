"""Values of dead letters as ``/admin/dead-letters`` shows them, and the contracts of the parts that serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from spark_connect_rt.base.json_text import JsonShape, described, one_of, renamed

TOPIC, SINK = "topic", "sink"
RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
_VALUE = described('null, {"json": ..}, {"text": ".."} or {"base64": ".."}, with "error" and "cut" if they apply.')


@dataclass(frozen=True, slots=True)
class LetterOrigin(JsonShape):
    """Where the record was read from, or was to be written to; null: nothing says so, or it had none yet."""

    topic: str | None
    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class LetterHeader(JsonShape):
    """A header that the record had."""

    name: str
    value: dict[str, Any] | None = field(metadata=_VALUE)


@dataclass(frozen=True, slots=True)
class ReplayedMark(JsonShape):
    """That a letter was replayed."""

    id: str = field(metadata=described("Id of the replay."))
    at_ms: int


@dataclass(frozen=True, slots=True)
class LetterInfo(JsonShape):
    """One dead letter: the record, and what Connect's headers say of its failure."""

    topic: str
    partition: int
    offset: int
    at_ms: int = field(metadata=described("Timestamp of the record, ms since 1970."))
    origin: LetterOrigin
    stage: str | None
    class_name: str | None = field(metadata=renamed("class", "Class that failed."))
    exception: str | None = field(metadata=described("Class of the exception."))
    message: str | None
    stacktrace: str | None
    connector_name: str | None
    task: int | None
    key: dict[str, Any] | None = field(metadata=_VALUE)
    value: dict[str, Any] | None = field(metadata=_VALUE)
    headers: Sequence[LetterHeader]
    replayed: ReplayedMark | None


@dataclass(frozen=True, slots=True)
class LetterPage(JsonShape):
    """Some letters in the order of their times; each partition's in the order of its offsets."""

    topic: str | None = field(metadata=described("Null: the connector has no dead letter queue."))
    connector: str | None
    letters: Sequence[LetterInfo]
    next: str | None = field(metadata=described("Value of 'after' for the next page; null: there is no next page now."))
    scanned: int = field(
        metadata=described("Number of letters that were searched. If few match, a page may end before its limit.")
    )


LETTERS_DEFAULT, LETTERS_MAX = 100, 2_000
"""Letters of one answer, unless the request or the command says how many, and at most."""


@dataclass(frozen=True, slots=True)
class LetterQuery:
    """Which letters are asked for: of a connector, of a topic, or of a connector within a topic."""

    connector: str | None = None
    topic: str | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None
    limit: int = LETTERS_DEFAULT


@dataclass(frozen=True, slots=True)
class EditedLetter(JsonShape):
    """The effect of a replay on one letter, as a dry run shows it."""

    topic: str
    partition: int
    offset: int
    before: Mapping[str, Any] = field(metadata=described("Current key, value and headers."))
    after: Mapping[str, Any] | None = field(
        metadata=described("Key, value and headers that would be sent; null: the letter would not be sent.")
    )
    to: str | None = field(metadata=described("Topic that it would be sent to."))
    error: str | None = field(metadata=described("Why it would not be sent."))


@dataclass(frozen=True, slots=True)
class DryRun(JsonShape):
    """The effect of a whole replay, as a dry run shows it."""

    matched: int
    scanned: int
    complete: bool = field(metadata=described("false: there are more letters than could be searched in time."))
    sample: Sequence[EditedLetter]


@dataclass(frozen=True, slots=True)
class FailedLetter(JsonShape):
    """A letter that was not sent, and why. It is not marked as replayed."""

    partition: int
    offset: int
    error: str


@dataclass(frozen=True, slots=True)
class ReplayInfo(JsonShape):
    """One replay, and how far it is."""

    id: str
    connector: str | None
    topic: str
    target: str = field(metadata=one_of((TOPIC, SINK)))
    state: str = field(metadata=one_of((RUNNING, DONE, STOPPED, FAILED)))
    matched: int = field(metadata=described("Matching letters among those searched so far."))
    done: int = field(metadata=described("Delivered letters, including those that a transformation dropped."))
    failed: int
    rate: float | None = field(metadata=described("Most letters per second; null: no limit."))
    error: str | None
    delivery: str = field(metadata=one_of(("exactly once", "at least once")))
    who: str
    worker_id: str = field(metadata=described("Worker that carries out the replay. Empty: none at the moment."))
    created_ms: int
    changed_ms: int
    filter: Mapping[str, Any]
    letters: Sequence[Mapping[str, int]] | None = field(metadata=described("The first of the selected letters."))
    edit: Mapping[str, Any]
    failures: Sequence[FailedLetter] = field(metadata=described("The first failures."))


@dataclass(frozen=True, slots=True)
class WantedReplay:
    """A replay that is asked for."""

    connector: str | None
    topic: str | None
    target: str
    filter: Mapping[str, Any]
    letters: Sequence[tuple[int, int]] | None  # (partition, offset); None: all that the filter lets through
    edit: Mapping[str, Any]
    rate: float | None
    again: bool  # also letters that were replayed before


@dataclass(frozen=True, slots=True)
class DeletedLetters(JsonShape):
    """Up to where a queue was deleted: all before were replayed."""

    topic: str
    deleted: int = field(metadata=described("Offsets that were deleted."))
    up_to: Mapping[str, int] = field(metadata=described("Partition -> first remaining offset."))


@dataclass(frozen=True, slots=True)
class ReplayList(JsonShape):
    """Every replay that is remembered, newest first."""

    replays: Sequence[ReplayInfo]


class DeadLetterDesk(Protocol):
    """Dead letters of a group. Any thread; every call blocks."""

    def page(self, query: LetterQuery) -> LetterPage:
        """Raises NotFoundError (no such connector), BadRequestError, ForbiddenError (another kind of topic)."""


class DeadLetterReplays(Protocol):
    """Replays of a group's dead letters. Any thread; every call blocks."""

    def dry_run(self, wanted: WantedReplay) -> DryRun:
        """Raises as ``DeadLetterDesk.page``, BadConfigError for an edit that cannot be."""

    def start_replay(self, wanted: WantedReplay, who: str) -> ReplayInfo:
        """Raises as ``dry_run``; ConnectError: the topic of replays cannot be written."""

    def replays(self) -> Sequence[ReplayInfo]:
        """Return every replay that is remembered, newest first."""

    def replay(self, replay_id: str) -> ReplayInfo:
        """Return one replay and its progress. Raises NotFoundError."""

    def stop_replay(self, replay_id: str) -> ReplayInfo:
        """Raises NotFoundError, BadRequestError: it has ended."""

    def resume_replay(self, replay_id: str) -> ReplayInfo:
        """Raises NotFoundError, BadRequestError: it was not stopped and has not failed."""

    def delete(self, connector: str | None, topic: str | None) -> DeletedLetters:
        """Delete the letters before the first one that was not replayed."""


class ConnectorFeed(Protocol):
    """The connector of one replay, which feeds a sink (``sink_replay.HerderFeed``)."""

    def can_begin(self) -> bool:
        """Return whether this worker may make connectors now: it leads the group."""

    def begin(self, name: str, config: Mapping[str, str]) -> None:
        """Make the connector, or leave it as it is. Raises RetriableError, BadConfigError, ConnectError."""

    def config_of(self, connector: str) -> Mapping[str, str]:
        """Return a connector's configuration, references unresolved. Raises NotFoundError."""

    def trouble(self, name: str) -> str:
        """Return why it FAILED; empty: it did not."""

    def committed(self, name: str) -> Mapping[str, int]:
        """Return topic -> offset that its group committed in partition 0. Raises ConnectError."""

    def end(self, name: str) -> None:
        """Delete the connector. Raises ConnectError."""

    def forget(self, name: str) -> None:
        """Delete what its group committed. Raises ConnectError."""
