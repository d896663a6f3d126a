"""One worker carries out one replay into a sink: it copies letters, feeds the sink, and marks committed letters.

The copies are sent exactly once, as ``ReplayRun`` sends letters. The sink gets each copy at least once: after a crash
exactly as often as an ordinary record of the connector. A letter is marked when the offset behind its copy is
committed, unless the sink refused the copy. The report of a refusal is durable before that offset is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as LateError
from dataclasses import replace
from typing import Any, TypeVar

from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.errors import (
    BadRequestError,
    ConnectError,
    DataError,
    FencedError,
    NotFoundError,
    NotLeaderError,
    RetriableError,
    TimedOutError,
)
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.kafka.interfaces import GroupOffsets
from spark_connect_rt.operations.dead_letters.letter import Letter
from spark_connect_rt.operations.dead_letters.letter_edit import EditedRecord
from spark_connect_rt.operations.dead_letters.model import ConnectorFeed
from spark_connect_rt.operations.dead_letters.replay import SIGN_OF_LIFE_S, Entry, ReplayRun, check_brokers
from spark_connect_rt.operations.dead_letters.replay_ledger import DONE, RUNNING, ReplayProgress
from spark_connect_rt.records.pipeline.columns import ProduceRow
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.runtime.herder.herder_api import HerderApi
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, DeleteConnector, Request

# How letters reach a sink: side topics, and a separate connector that reads them. Pure.
#
# The letters are copied, edited, into side topics, one for each topic they came from. A connector with the settings of
# the real one reads them, with a separate name and consumer group. Its first transformations restore the topic that the
# records came from. Records that it cannot use go to a separate dead letter queue.


PLACE_HEADER = "connectrt.letter"
TOPICS_MAX = 50
_SMT = "org.apache.kafka.connect.transforms"
_QUEUE = "errors.deadletterqueue"
_LEFT_OUT = (
    "topics",
    "topics.regex",
    "consumer.override.group.id",
    "consumer.override.group.instance.id",  # another member of that name may be in the real connector's group
    "tasks.max.auto",  # one task: the letters keep their order, and the replay knows when it is over
)


def feed_name(connector: str, replay_id: str) -> str:
    """Return the name of the connector that feeds the sink."""
    return f"{connector}-replay-{replay_id}"


def side_topic(queue: str, replay_id: str, index: int) -> str:
    """Return the name of a side topic."""
    return f"{queue[:200]}-replay-{replay_id}-{index}"


def refused_topic(queue: str, replay_id: str) -> str:
    """Return the name of the topic for copies that the sink refuses."""
    return f"{queue[:200]}-replay-{replay_id}-refused"


def place_header(letter: Letter) -> tuple[str, bytes]:
    """Return the header that names the letter of a copy: a text in quotes, which most header converters can read."""
    return PLACE_HEADER, f'"{letter.partition}-{letter.offset}"'.encode()


def place_of(headers: Sequence[tuple[str, bytes | None]]) -> tuple[int, int]:
    """Return partition and offset of the letter of a copy. Raises DataError if the record is not a copy."""
    for name, data in reversed(headers):
        if name == PLACE_HEADER:
            partition, _, offset = (data or b"").decode("ascii", "replace").strip('"').partition("-")
            if partition.isdigit() and offset.isdigit():
                return int(partition), int(offset)
    raise DataError("a record of a side topic is not a copy of a letter: another program writes to that topic")


def feed_config(config: Mapping[str, str], name: str, sides: Sequence[tuple[str, str]], refused: str) -> dict[str, str]:
    """Return the configuration of the connector that feeds the sink.

    Args:
        config: of the real connector, with unresolved references.
        name: of the new connector.
        sides: pairs of a side topic and the topic that its letters came from.
        refused: topic for copies that the sink refuses.

    Raises BadRequestError if the sink reads from other brokers than those of the copies.
    """
    check_brokers(config)
    made = {setting: value for setting, value in config.items() if setting not in _LEFT_OUT}
    aliases = [f"connectrt_replay_{index}" for index in range(len(sides))]
    for alias, (side, topic) in zip(aliases, sides, strict=True):
        made[f"transforms.{alias}.type"] = f"{_SMT}.RegexRouter"
        made[f"transforms.{alias}.regex"] = side.replace(".", "[.]")
        made[f"transforms.{alias}.replacement"] = topic
    made["transforms.connectrt_replay_place.type"] = f"{_SMT}.DropHeaders"
    made["transforms.connectrt_replay_place.headers"] = PLACE_HEADER
    own = [transform for transform in parse_value(Type.LIST, config.get("transforms") or "") if transform]
    return made | {
        "name": name,
        "topics": ",".join(side for side, _ in sides),
        "tasks.max": "1",
        "transforms": ",".join([*aliases, "connectrt_replay_place", *own]),
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",  # the copies exist before the group does
        "errors.tolerance": "all",
        f"{_QUEUE}.topic.name": refused,
        f"{_QUEUE}.context.headers.enable": "true",
    }


LOOK_S = 0.5
SETTLED_MAX = 2_000  # letters marked in one transaction
_KEPT = {"retention.ms": "-1"}  # copies are as old as their letters
Refusals = dict[tuple[str, int], str]


class SinkReplay(ReplayRun):
    """One run into the sink of the replay's connector.

    ``side`` of its progress has four lists with an element for each topic that letters came from: ``topics``, the
    letters ``copied`` and ``settled``, and ``at``, the offset in the side topic up to which letters are settled.
    """

    def row(self, letter: Letter, record: EditedRecord) -> ProduceRow:
        """Return the copy of a letter for its side topic. Raises DataError."""
        topics = self._side("topics")
        if record.topic not in topics:
            if len(topics) >= TOPICS_MAX:
                raise DataError(
                    f"the letters come from more than {TOPICS_MAX} topics. Replay them topic by topic "
                    "with the filter origin"
                )
            self._progress = replace(self._progress, side=_with_topic(self._progress.side, record.topic))
            topics = self._side("topics")
        index = topics.index(record.topic)
        if self._producer is not None:
            self._make(self._name(index))
        headers = [*record.headers, place_header(letter)]
        return self._name(index), 0, record.key, record.value, headers, letter.at_ms

    def _delivered(self, entries: Sequence[Entry]) -> list[tuple[int, int]]:
        """Return the letters that a transformation dropped. The sink decides about the others."""
        return [
            (entry.letter.partition, entry.letter.offset) for entry in entries if entry.row is None and not entry.error
        ]

    def _with_sent(self, progress: ReplayProgress, entries: Sequence[Entry]) -> ReplayProgress:
        side = dict(progress.side)
        copied = list(side.get("copied", ()))
        for entry in entries:
            if entry.row is not None and not entry.error:
                copied[self._index(entry.row[0])] += 1
        return replace(progress, side={**side, "copied": copied} if side else {})

    def _end(self, over: bool, positions: Mapping[int, int]) -> None:
        if not over:
            super()._end(over, positions)
            return
        self._commit([], positions)
        delivered = not self._side("topics") or self._feed_sink()
        self._write([], [], replace(self._progress, state=DONE if delivered else RUNNING, worker=""))

    def _feed_sink(self) -> bool:
        """Have the connector read the copies. Returns whether all of them are settled. Raises ConnectError."""
        feed, connector = self._parts.feed, self._replay.connector
        assert feed is not None
        assert connector is not None
        name, queue = feed_name(connector, self._replay.id), self._replay.topic
        refused = refused_topic(queue, self._replay.id)
        self._make(refused)
        sides = [(self._name(index), topic) for index, topic in enumerate(self._side("topics"))]
        try:
            feed.begin(name, feed_config(feed.config_of(connector), name, sides, refused))
            if not self._is_fed(feed, name, refused):
                return False
        except (FencedError, RetriableError, TimedOutError):
            raise  # this worker or another resumes the replay
        except ConnectError:
            feed.end(name)
            raise
        feed.end(name)
        self._clean_up(feed, name, [*(side for side, _ in sides), refused])
        return True

    def _is_fed(self, feed: ConnectorFeed, name: str, refused: str) -> bool:
        """Settle letters until all of them are. Returns False if this run must end before.

        Raises ConnectError if the sink failed.
        """
        while not self._is_settled():
            trouble = feed.trouble(name)
            self._settle(feed.committed(name), refused)
            if trouble and not self._is_settled():
                raise BadRequestError(f"the sink failed: {trouble}")
            if self._must_end():
                self._let_go(feed, name)
                return False
            if time.monotonic() - self._committed_s >= SIGN_OF_LIFE_S:
                self._commit([], self._progress.positions)
            time.sleep(LOOK_S)
        return True

    def _let_go(self, feed: ConnectorFeed, name: str) -> None:
        """Delete the connector if the replay was stopped. If only this worker stops, the next one continues with it."""
        found = self._parts.log.read(lambda records: records.standing(self._replay.id))
        if found is not None and found.is_stopped:
            feed.end(name)

    def _clean_up(self, feed: ConnectorFeed, name: str, topics: Sequence[str]) -> None:
        """Delete the group and the side topics. A failure is ignored, because nothing depends on them."""
        end_s = time.monotonic() + SIGN_OF_LIFE_S
        while True:
            try:
                feed.forget(name)
                break
            except ConnectError:  # its member is still leaving
                if time.monotonic() >= end_s:
                    break
                time.sleep(LOOK_S)
        self._parts.topics.admin.delete_topics(topics)

    def _settle(self, committed: Mapping[str, int], refused: str) -> None:
        """Mark the letters of copies that the sink committed, and note those of copies that it refused."""
        refusals: Refusals | None = None
        for index in range(len(self._side("topics"))):
            side, begin = self._name(index), self._side("at")[index]
            end = committed.get(side, 0)
            if end <= begin:
                continue
            refusals = self._refusals(refused) if refusals is None else refusals
            with self._parts.topics.reading(side, {0: begin}, {0: end}) as reading:
                batch: list[Letter] = []
                for copy in reading:
                    if copy is not None:
                        batch.append(copy)
                    if len(batch) >= SETTLED_MAX:
                        self._note_settled(index, batch, batch[-1].offset + 1, refusals)
                        batch = []
                self._note_settled(index, batch, end, refusals)

    def _note_settled(self, index: int, copies: Sequence[Letter], at: int, refusals: Refusals) -> None:
        made, done = self._progress, list[tuple[int, int]]()
        for copy in copies:
            place = place_of(copy.headers)
            why = refusals.get((copy.topic, copy.offset))
            if why is None:
                done.append(place)
            else:
                made = made.failing(*place, why)
        settled, reached = list(self._side("settled")), list(self._side("at"))
        settled[index] += len(copies)
        reached[index] = at
        self._write([], done, replace(made, side={**made.side, "settled": settled, "at": reached}))

    def _refusals(self, refused: str) -> Refusals:
        """Return the reason for each copy that the sink refused, by side topic and offset."""
        span = self._parts.topics.span(refused, [0])
        found: Refusals = {}
        with self._parts.topics.reading(refused, span.begins, span.ends) as reading:
            for letter in reading:
                if letter is not None and letter.origin_topic is not None and letter.origin_offset is not None:
                    why = letter.errors.get("exception.message") or letter.errors.get("exception.class.name")
                    found[letter.origin_topic, letter.origin_offset] = f"the sink: {letter.errors.get('stage')}: {why}"
        return found

    def _is_settled(self) -> bool:
        return list(self._side("settled")) == list(self._side("copied"))

    def _side(self, name: str) -> Sequence[Any]:
        found: Sequence[Any] = self._progress.side.get(name, ())
        return found

    def _name(self, index: int) -> str:
        return side_topic(self._replay.topic, self._replay.id, index)

    def _index(self, name: str) -> int:
        return int(name.rpartition("-")[2])

    def _make(self, topic: str) -> None:
        if topic not in self._partitions:
            self._parts.topics.admin.create_topic(TopicSpec(topic, 1, -1, _KEPT))
            self._partitions[topic] = 1


def _with_topic(side: Mapping[str, Any], topic: str) -> dict[str, Any]:
    return {
        "topics": [*side.get("topics", ()), topic],
        "copied": [*side.get("copied", ()), 0],
        "settled": [*side.get("settled", ()), 0],
        "at": [*side.get("at", ()), 0],
    }


# The connector of a replay. The leader makes and deletes it through its herder, like any other.


REQUEST_S = 60.0
FAILED = "FAILED"
NOTE = "a replay of dead letters"
T = TypeVar("T")


class HerderFeed:
    """A ConnectorFeed through the herder of one worker. Any thread except the herder's."""

    def __init__(
        self,
        herder: HerderApi,
        offsets: GroupOffsets,
        admin: Callable[[], Mapping[str, str]],
        history: History | None = None,
    ) -> None:
        """``admin`` returns the properties of an admin client, and ``history`` records the requests."""
        self._herder = herder
        self._history = history
        self._offsets = offsets
        self._admin = admin

    def can_begin(self) -> bool:
        """Return whether this worker leads the group, so that it may make connectors."""
        return self._herder.views.is_leader()

    def begin(self, name: str, config: Mapping[str, str]) -> None:
        """Make the connector, unless it exists. Raises RetriableError, BadConfigError and ConnectError."""
        if name not in self._herder.views.list_connectors():
            self._submit(CreateConnector(name, config))

    def config_of(self, connector: str) -> Mapping[str, str]:
        """Return the configuration of a connector with unresolved references. Raises NotFoundError."""
        return self._herder.views.connector_config(connector).written()

    def trouble(self, name: str) -> str:
        """Return the trace of the connector or task that FAILED. Empty: none did."""
        try:
            status = self._herder.views.connector_status(name)
        except NotFoundError:
            return ""  # nothing was reported yet
        for task in (status.connector, *status.tasks):
            if task.state == FAILED:
                return (task.trace or "no trace").strip()
        return ""

    def committed(self, name: str) -> Mapping[str, int]:
        """Return the committed offset of partition 0 by topic. Raises ConnectError."""
        return {
            partition.topic: offset
            for partition, offset in self._offsets.committed(self._admin(), _group(name)).items()
        }

    def end(self, name: str) -> None:
        """Delete the connector, if it exists. Raises ConnectError."""
        if name in self._herder.views.list_connectors():
            self._submit(DeleteConnector(name))

    def forget(self, name: str) -> None:
        """Delete the committed offsets of the connector's group. Raises ConnectError."""
        self._offsets.delete(self._admin(), _group(name))

    def _submit(self, request: Request[T]) -> T:
        try:
            done = self._herder.submit(request).result(REQUEST_S)
        except NotLeaderError as error:
            raise RetriableError("this worker no longer leads the group") from error
        except LateError as error:
            raise TimedOutError(f"{request} did not complete within {REQUEST_S:.0f} s") from error
        if self._history is not None:
            self._history.served(request, self._herder.views.standing().worker_id, NOTE, here=True)
        return done


def _group(name: str) -> str:
    return f"connect-{name}"
