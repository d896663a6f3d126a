"""What is said about offsets (KIP-875): altered and reset, of a source and of a sink, well and badly."""

from __future__ import annotations

from typing import Any

from tests.parity.conversation import Append, Ask, AwaitBody, AwaitStates, AwaitText, Step

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "more.txt", "topic": "more"}
FILE_SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "more-out.txt", "topics": "more"}
SOURCE, SINK = "/connectors/off/offsets", "/connectors/offsnk/offsets"


def at(partition: Any, offset: Any) -> dict[str, Any]:
    return {"partition": partition, "offset": offset}


def all_of(*entries: Any) -> dict[str, Any]:
    return {"offsets": list(entries)}


def file(position: Any, name: str = "more.txt") -> dict[str, Any]:
    return at({"filename": name}, {"position": position})


def lines(offset: Any, partition: Any = 0, topic: Any = "more") -> dict[str, Any]:
    return at({"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset})


def _bad(what: str, path: str, body: Any) -> Ask:
    return Ask(f"alter {what}", "PATCH", path, body)


def _refused_bodies(kind: str, path: str) -> tuple[Step, ...]:
    """Bodies that no connector is asked about."""
    return (
        _bad(f"{kind}: nothing", path, b""),
        _bad(f"{kind}: null", path, b"null"),
        _bad(f"{kind}: broken JSON", path, b'{"offsets": ['),
        _bad(f"{kind}: an empty object", path, {}),
        _bad(f"{kind}: offsets that are null", path, {"offsets": None}),
        _bad(f"{kind}: no offsets", path, all_of()),
        _bad(f"{kind}: a list", path, []),
        _bad(f"{kind}: an unknown field", path, all_of(file(2)) | {"colour": "red"}),
        _bad(f"{kind}: an entry with an unknown field", path, all_of(file(2) | {"colour": "red"})),
        _bad(f"{kind}: an entry that is a text", path, all_of("more")),
        _bad(f"{kind}: a partition that is a list", path, all_of(at([1], {"position": 2}))),
        _bad(f"{kind}: an offset that is a number", path, all_of(at({"filename": "more.txt"}, 2))),
    )


SOURCE_OFFSETS: tuple[Step, ...] = (
    Ask("alter the offsets of none", "PATCH", "/connectors/none/offsets", all_of(file(2))),
    Ask("reset the offsets of none", "DELETE", "/connectors/none/offsets"),
    Append("more.txt", "1\n2\n3\n4\n"),
    Ask("create a source to alter", "POST", "/connectors", {"name": "off", "config": FILE_SOURCE}),
    AwaitStates("off", "RUNNING", ("RUNNING",)),
    AwaitBody(SOURCE, all_of(file(8))),
    Ask("alter while it runs", "PATCH", SOURCE, all_of(file(2))),
    Ask("reset while it runs", "DELETE", SOURCE),
    Ask("pause the source to alter", "PUT", "/connectors/off/pause"),
    AwaitStates("off", "PAUSED", ("PAUSED",)),
    Ask("alter while it is paused", "PATCH", SOURCE, all_of(file(2))),
    Ask("reset while it is paused", "DELETE", SOURCE),
    Ask("stop the source to alter", "PUT", "/connectors/off/stop"),
    AwaitStates("off", "STOPPED"),
    *_refused_bodies("source", SOURCE),
    _bad("source: a position that is a text", SOURCE, all_of(file("2"))),
    _bad("source: a position below zero", SOURCE, all_of(file(-1))),
    _bad("source: a position with a fraction", SOURCE, all_of(file(2.5))),
    _bad("source: a position that is true", SOURCE, all_of(file(True))),
    _bad("source: a position that is null", SOURCE, all_of(file(None))),
    _bad("source: no position", SOURCE, all_of(at({"filename": "more.txt"}, {"line": 2}))),
    _bad("source: an empty offset", SOURCE, all_of(at({"filename": "more.txt"}, {}))),
    _bad("source: no file name", SOURCE, all_of(at({"name": "more.txt"}, {"position": 2}))),
    _bad("source: a partition that is null", SOURCE, all_of(at(None, {"position": 2}))),
    _bad("source: a partition that is missing", SOURCE, all_of({"offset": {"position": 2}})),
    _bad("source: a partition with a map inside", SOURCE, all_of(at({"filename": {"a": 1}}, {"position": 2}))),
    _bad("source: an offset with a list inside", SOURCE, all_of(at({"filename": "more.txt"}, {"position": [2]}))),
    Ask("offsets after the refusals", "GET", SOURCE),
    Ask("alter a source", "PATCH", SOURCE, all_of(file(4))),
    Ask("offsets altered", "GET", SOURCE),
    Ask("alter one partition twice", "PATCH", SOURCE, all_of(file(6), file(2))),
    Ask("offsets altered twice", "GET", SOURCE),
    Ask("alter a partition never seen", "PATCH", SOURCE, all_of(file(1, "other.txt"))),
    Ask("offsets with a partition more", "GET", SOURCE),
    Ask("forget a partition", "PATCH", SOURCE, all_of(at({"filename": "other.txt"}, None))),
    Ask("forget a partition without saying null", "PATCH", SOURCE, all_of({"partition": {"filename": "other.txt"}})),
    Ask("forget a partition never seen", "PATCH", SOURCE, all_of(at({"colour": "red", "n": 1}, None))),
    Ask("forget the null partition", "PATCH", SOURCE, all_of(at(None, None))),
    Ask("offsets with a partition less", "GET", SOURCE),
    Ask("resume the altered source", "PUT", "/connectors/off/resume"),
    AwaitStates("off", "RUNNING", ("RUNNING",)),
    AwaitBody(SOURCE, all_of(file(8))),
    Ask("stop the altered source", "PUT", "/connectors/off/stop"),
    AwaitStates("off", "STOPPED"),
    Ask("reset a source", "DELETE", SOURCE),
    AwaitBody(SOURCE, all_of()),  # Java forgets the offset first and its partition a moment later
    Ask("offsets reset", "GET", SOURCE),
    Ask("reset a source again", "DELETE", SOURCE),
    Ask("reset with a body", "DELETE", SOURCE, all_of(file(2))),
    Ask("alter after a reset", "PATCH", SOURCE, all_of(file(6))),
    AwaitBody(SOURCE, all_of(file(6))),  # Java lists the partitions it has read, without reading on
    Ask("offsets altered after a reset", "GET", SOURCE),
    Ask("put offsets", "PUT", SOURCE, all_of(file(2))),
    Ask("post offsets", "POST", SOURCE, all_of(file(2))),
    Ask("alter a source that never ran", "PATCH", "/connectors/later/offsets", all_of(file(3, "in.txt"))),
    AwaitBody("/connectors/later/offsets", all_of(file(3, "in.txt"))),
    Ask("offsets of a source that never ran", "GET", "/connectors/later/offsets"),
    Ask("reset a source that never ran", "DELETE", "/connectors/later/offsets"),
)

SINK_OFFSETS: tuple[Step, ...] = (
    Ask("create a sink to alter", "POST", "/connectors", {"name": "offsnk", "config": FILE_SINK}),
    AwaitStates("offsnk", "RUNNING", ("RUNNING",)),
    AwaitText("more-out.txt", "1\n2\n3\n4\n2\n3\n4\n"),
    AwaitBody(SINK, all_of(lines(7))),
    Ask("alter a sink while it runs", "PATCH", SINK, all_of(lines(2))),
    Ask("reset a sink while it runs", "DELETE", SINK),
    Ask("stop the sink to alter", "PUT", "/connectors/offsnk/stop"),
    AwaitStates("offsnk", "STOPPED"),
    *_refused_bodies("sink", SINK),
    _bad("sink: a partition that is null", SINK, all_of(at(None, {"kafka_offset": 2}))),
    _bad("sink: no topic", SINK, all_of(at({"kafka_partition": 0}, {"kafka_offset": 2}))),
    _bad("sink: no partition", SINK, all_of(at({"kafka_topic": "more"}, {"kafka_offset": 2}))),
    _bad("sink: a topic that is null", SINK, all_of(lines(2, topic=None))),
    _bad("sink: a partition number that is null", SINK, all_of(lines(2, partition=None))),
    _bad("sink: a partition that is no number", SINK, all_of(lines(2, partition="x"))),
    _bad("sink: a partition with a fraction", SINK, all_of(lines(2, partition=1.5))),
    _bad("sink: a partition beyond 32 bits", SINK, all_of(lines(2, partition=2**31))),
    _bad("sink: an offset without its key", SINK, all_of(at({"kafka_topic": "more", "kafka_partition": 0}, {"o": 1}))),
    _bad("sink: an offset that is no integer", SINK, all_of(lines("x"))),
    _bad("sink: an offset with a fraction", SINK, all_of(lines(1.5))),
    _bad("sink: an offset that is null inside", SINK, all_of(lines(None))),
    _bad("sink: an offset below zero", SINK, all_of(lines(-1))),
    _bad("sink: a topic that is not there", SINK, all_of(lines(1, topic="not-there"))),
    _bad("sink: a partition that is not there", SINK, all_of(lines(1, partition=99))),
    Ask("sink offsets after the refusals", "GET", SINK),
    Ask("alter a sink", "PATCH", SINK, all_of(lines(5))),
    Ask("sink offsets altered", "GET", SINK),
    Ask("alter a sink by texts", "PATCH", SINK, all_of(lines("6", "0"))),
    Ask("sink offsets altered by texts", "GET", SINK),
    Ask("alter a sink beyond the end", "PATCH", SINK, all_of(lines(1000))),
    Ask("sink offsets beyond the end", "GET", SINK),
    Ask("forget a sink's partition", "PATCH", SINK, all_of(at({"kafka_topic": "more", "kafka_partition": 0}, None))),
    Ask("sink offsets forgotten", "GET", SINK),
    Ask("alter and forget", "PATCH", SINK, all_of(lines(5), at({"kafka_topic": "lines", "kafka_partition": 0}, None))),
    Ask("sink offsets altered and forgotten", "GET", SINK),
    Ask("alter a sink to read on", "PATCH", SINK, all_of(lines(6))),
    Ask("resume the altered sink", "PUT", "/connectors/offsnk/resume"),
    AwaitStates("offsnk", "RUNNING", ("RUNNING",)),
    AwaitText("more-out.txt", "1\n2\n3\n4\n2\n3\n4\n4\n"),
    AwaitBody(SINK, all_of(lines(7))),
    Ask("stop the altered sink", "PUT", "/connectors/offsnk/stop"),
    AwaitStates("offsnk", "STOPPED"),
    Ask("reset a sink", "DELETE", SINK),
    Ask("sink offsets reset", "GET", SINK),
    Ask("reset a sink again", "DELETE", SINK),
    Ask("forget a partition of a group that is gone", "PATCH", SINK, all_of(lines(0) | {"offset": None})),
    Ask("resume the reset sink", "PUT", "/connectors/offsnk/resume"),
    AwaitStates("offsnk", "RUNNING", ("RUNNING",)),
    AwaitText("more-out.txt", "1\n2\n3\n4\n2\n3\n4\n4\n1\n2\n3\n4\n2\n3\n4\n"),
    Ask("delete the sink to alter", "DELETE", "/connectors/offsnk"),
    Ask("delete the source to alter", "DELETE", "/connectors/off"),
)
