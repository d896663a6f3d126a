"""Numbered lines through FileStreamSources, topics and one FileStreamSink; what a story did to them, counted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.e2e.commands import until
from tests.e2e.conftest import Times
from tests.support.connect_rest import ConnectRest
from tests.support.numbered_lines import (
    Feeder,
    Topics,
    create_topics,
    duplicates,
    missing,
    outage,
    replays,
    sink_numbers,
)


def now_ms() -> float:
    return time.time() * 1000


class LineFlow:
    """Growing files, a source and a topic for each, one sink that writes them all to one file."""

    def __init__(
        self, folder: Path, bootstrap_servers: str, files: int, prefix: str = "lines", replication: int = 1
    ) -> None:
        self.feeder = Feeder(folder, files)
        self.target = folder / "out.txt"
        self.topics_of_lines = [f"{prefix}-{number}" for number in range(files)]
        create_topics(bootstrap_servers, self.topics_of_lines, replication)
        self.topics = Topics(bootstrap_servers, self.topics_of_lines)

    def stories(self) -> str:
        """Return what the workers say of themselves, for a message."""
        return ""

    def deploy_to(
        self,
        rest: ConnectRest,
        sink_tasks: int,
        *,
        alone: frozenset[int] = frozenset(),
        more_of_sink: Mapping[str, str] | None = None,
    ) -> None:
        """Create the connectors and begin to write; the sources ``alone`` get a slot of their own."""
        for number, (path, topic) in enumerate(zip(self.feeder.files, self.topics_of_lines, strict=True)):
            path.touch()
            source = {"connector.class": "FileStreamSource", "file": str(path), "topic": topic}
            own = {"connectrt.isolation": "process"} if number in alone else {}
            rest.create(f"in-{number}", source | own)
        sink = {
            "connector.class": "FileStreamSink",
            "file": str(self.target),
            "topics": ",".join(self.topics_of_lines),
            "tasks.max": str(sink_tasks),
        }
        rest.create("out", sink | dict(more_of_sink or {}))
        self.feeder.start()

    def await_flow(self, limit_s: float, what: str, without: frozenset[int] = frozenset()) -> float:
        """Wait until lines written from now on are in topics and sink, but for files ``without``; return seconds."""
        begun, number = time.monotonic(), self.feeder.written

        def late(found: Mapping[str, Sequence[int]]) -> list[str]:
            return [place for place, numbers in found.items() if max(numbers, default=-1) < number]

        def behind() -> list[str]:
            arrived = self.topics.refresh()
            files = [file for file in range(len(self.feeder.files)) if file not in without]
            topics = late({name: arrived[name].numbers for name in (self.topics_of_lines[file] for file in files)})
            if topics:  # the sink cannot have them either: its file, which grows, need not be read
                return topics
            sink = sink_numbers(self.target, len(self.feeder.files))
            return late({f"sink {file}": sink[file] for file in files})

        until(lambda: not behind(), limit_s, f"{what}: lines flow", lambda: (behind(), self.stories()))
        return time.monotonic() - begun

    def outage_s(self, since_ms: float) -> tuple[float, float]:
        """Return the worst of the topics: longest silence that ended after ``since_ms``, and when it ended, s."""
        found = [outage(arrivals, since_ms) for arrivals in self.topics.refresh().values()]
        length, end = max(found)
        return length / 1000, end / 1000

    def counted(self) -> tuple[int, int, int]:
        """Return duplicates in the topics, in the sink's file (beyond the topics'), and replays in the topics."""
        arrivals = self.topics.refresh().values()
        repeated = sum(duplicates(arrival.numbers) for arrival in arrivals)
        in_sink = sum(duplicates(numbers) for numbers in sink_numbers(self.target, len(self.feeder.files)))
        return repeated, max(0, in_sink - repeated), sum(replays(arrival.numbers) for arrival in arrivals)

    def gaps(self) -> dict[str, list[int]]:
        """Return the lines that ought to be in topics and sink and are not; await_flow comes first."""
        arrivals = self.topics.refresh()
        sink = sink_numbers(self.target, len(self.feeder.files))
        found = {}
        for number, name in enumerate(self.topics_of_lines):
            for place, numbers in ((name, arrivals[name].numbers), (f"sink {name}", sink[number])):
                lost = missing(numbers, max(numbers, default=0))
                if lost:
                    found[place] = lost[:5]
        return found


class FlowStory:
    """What one story cost: silence of the topics, duplicates; notes it all in the table."""

    def __init__(self, flow: LineFlow, times: Times, name: str) -> None:
        self._flow, self._times, self.name = flow, times, name
        self._before = flow.counted()
        self.begun_ms = now_ms()

    def note(self, what: str, value: object) -> None:
        """Keep one figure for the table."""
        self._times.note(self.name, what, value)

    def note_outage(self) -> None:
        """Keep the longest silence of a topic."""
        length, end = self._flow.outage_s(self.begun_ms)
        self.note("worst topic", f"silent for {length:.1f} s, flows again {end:.1f} s after the event")

    def counted(self) -> tuple[int, int, int]:
        """Return this story's duplicates in topics, in the sink's file beyond those, and tasks that began again."""
        counts = [after - before for after, before in zip(self._flow.counted(), self._before, strict=True)]
        self.note("duplicates", f"topics {counts[0]}, sink {counts[1]}; sources that read lines again: {counts[2]}")
        return counts[0], counts[1], counts[2]
