"""One worker carrying out one replay into a sink: letters copied, the sink fed, letters marked as it commits them.

Copying is exact, as replay_run's sending. The sink gets each copy at least once, exactly as often as the connector's
ordinary records when something dies. A letter is marked when the offset behind its copy was committed, unless the copy
lies among the refused ones: these are durable before the offset is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.errors import BadRequestError, ConnectError, DataError, FencedError, RetriableError, TimedOutError
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.operations.dead_letters.letter import Letter
from spark_connect_rt.operations.dead_letters.letter_edit import EditedRecord
from spark_connect_rt.operations.dead_letters.replay_ledger import DONE, RUNNING, Progress
from spark_connect_rt.operations.dead_letters.replay_run import SIGN_OF_LIFE_S, ConnectorFeed, Entry, ReplayRun
from spark_connect_rt.operations.dead_letters.sink_feed import (
    TOPICS_MAX,
    feed_config,
    feed_name,
    place_header,
    place_of,
    refused_topic,
    side_topic,
)
from spark_connect_rt.records.pipeline.produce_rows import ProduceRow

LOOK_S = 0.5
SETTLED_MAX = 2_000  # letters marked in one transaction
_KEPT = {"retention.ms": "-1"}  # copies are as old as their letters
Refusals = dict[tuple[str, int], str]


class SinkRun(ReplayRun):
    """One run into the sink of the replay's connector.

    Of its progress ``side`` holds: topics (that letters came from, each with a side topic of its number), copied and
    settled (letters of each), at (offset of each up to which letters were settled).
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
        """A letter that a transformation dropped is done; the sink decides about the others."""
        return [
            (entry.letter.partition, entry.letter.offset) for entry in entries if entry.row is None and not entry.error
        ]

    def _with_sent(self, progress: Progress, entries: Sequence[Entry]) -> Progress:
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
        """Have the connector read the copies; True: all of them are settled. Raises ConnectError."""
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
            raise  # it goes on here or elsewhere
        except ConnectError:
            feed.end(name)
            raise
        feed.end(name)
        self._clean_up(feed, name, [*(side for side, _ in sides), refused])
        return True

    def _is_fed(self, feed: ConnectorFeed, name: str, refused: str) -> bool:
        """Settle letters until all are (True), or this run must end. Raises ConnectError: the sink failed."""
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
        """Stop feeding if the replay was stopped; the next worker goes on with the connector if this one stops."""
        found = self._parts.log.read(lambda records: records.standing(self._replay.id))
        if found is not None and found.is_stopped:
            feed.end(name)

    def _clean_up(self, feed: ConnectorFeed, name: str, topics: Sequence[str]) -> None:
        """Delete the group and the side topics; what cannot be deleted stays: nothing depends on it."""
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
        """Mark the letters whose copies the sink has taken, note those that it refused."""
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
        """Return side topic and offset of the copies that the sink did not take, and why."""
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
