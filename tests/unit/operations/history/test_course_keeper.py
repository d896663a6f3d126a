"""The leader's look at all offsets: what moved is written, and a sink that cannot be asked holds up no other."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.errors import NotFoundError, RetriableError
from spark_connect_rt.operations.history.offset_timeline import HOUR_MS, MINUTE_MS, OffsetTimelineStore
from spark_connect_rt.operations.history.timeline_keeper import OffsetTimelineKeeper
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.compacted_log import LogSource
from spark_connect_rt.topics.offset_changes import OffsetPair

START_MS = 500_000 * HOUR_MS


class Looking:
    def __init__(self) -> None:
        self.topic, self.now_ms, self.at = MemoryLogTopic(), START_MS, {"source": 0, "sink": 0}
        self.away: set[str] = set()
        self.asked: list[str] = []
        self.keeper = self.made()

    def made(self, bytes_max: int = 100_000) -> OffsetTimelineKeeper:
        store = OffsetTimelineStore(
            LogSource(lambda: self.topic.ends() != [0], lambda _: MemoryCompactedLog(self.topic))
        )
        is_sink = "sink".__eq__
        now_ms = self._now_ms
        return OffsetTimelineKeeper(
            store, lambda: [*self.at, "gone"], is_sink, self.offsets, lambda: True, now_ms, bytes_max
        )

    def _now_ms(self) -> int:
        return self.now_ms

    def offsets(self, name: str) -> Sequence[OffsetPair]:
        self.asked.append(name)
        if name == "gone":
            raise NotFoundError("gone")
        if name in self.away:
            raise RetriableError("away")
        return [({"n": name}, {"at": self.at[name]})]

    def points(self, name: str) -> list[tuple[int, object]]:
        found = self.keeper.read(name, 0, 10**18).points
        return [((point.at_ms - START_MS) // MINUTE_MS, (point.offsets[0].offset or {})["at"]) for point in found]


def test_only_what_moved_is_written() -> None:
    looking = Looking()
    for minute, (source, sink) in enumerate([(0, 0), (1, 0), (1, 0), (2, 5)]):
        looking.now_ms = START_MS + minute * MINUTE_MS
        looking.at = {"source": source, "sink": sink}
        looking.keeper.look()
    assert looking.points("source") == [(0, 0), (1, 1), (3, 2)]
    assert looking.points("sink") == [(0, 0), (3, 5)]
    found = looking.keeper.offsets_at("source", START_MS + 2 * MINUTE_MS)
    assert found == (START_MS + MINUTE_MS, [({"n": "source"}, {"at": 1})])
    assert looking.keeper.offsets_at("source", START_MS - 1) is None
    looking.keeper.stop()


def test_the_next_leader_continues_where_the_last_one_was() -> None:
    looking = Looking()
    looking.keeper.look()
    looking.keeper.stop()
    looking.keeper = looking.made()
    looking.at, looking.now_ms = {"source": 7, "sink": 0}, START_MS + MINUTE_MS
    looking.keeper.look()
    assert looking.points("source") == [(0, 0), (1, 7)]
    looking.keeper.stop()


def test_a_sink_that_cannot_be_asked_is_left_alone_for_a_while() -> None:
    looking = Looking()
    looking.away = {"sink"}
    looking.keeper.look()
    looking.at, looking.now_ms = {"source": 1, "sink": 0}, START_MS + MINUTE_MS
    looking.keeper.look()
    assert looking.asked.count("sink") == 1
    assert looking.points("source") == [(0, 0), (1, 1)]
    looking.keeper.stop()


def test_an_hour_is_thinned_to_what_fits() -> None:
    looking = Looking()
    looking.keeper = looking.made(bytes_max=6_000)
    for minute in range(60):
        looking.now_ms, looking.at = START_MS + minute * MINUTE_MS, {"source": minute**9, "sink": 0}
        looking.keeper.look()
    looking.now_ms += 5 * MINUTE_MS  # it rests: where it came to is not lost
    looking.keeper.look()
    points = looking.points("source")
    assert (points[0], points[-1], 3 < len(points) < 40) == ((0, 0), (64, 59**9), True)
    assert (
        sum(len(record.value or b"") for record in looking.topic.records() if b"source" in (record.key or b""))
        < 60 * 300
    )
    looking.keeper.stop()
