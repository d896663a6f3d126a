"""Dead letters and replays that answer one thing each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_connect_rt.operations.dead_letters.model import (
    DeletedLetters,
    DryRun,
    EditedLetter,
    FailedLetter,
    LetterHeader,
    LetterInfo,
    LetterOrigin,
    LetterPage,
    LetterQuery,
    ReplayedMark,
    ReplayInfo,
    WantedReplay,
)

LETTER = LetterInfo(
    "dead", 0, 5, 1, LetterOrigin("lines", 0, 7), "VALUE_CONVERTER", "A", "B", "no", "trace", "src", 0, None,
    {"text": "x", "error": "no JSON"}, (LetterHeader("h", {"json": 7}),), ReplayedMark("r", 3),
)  # fmt: skip
REPLAY = ReplayInfo(
    "r", "src", "dead", "topic", "running", 2, 1, 0, None, None, "exactly once", "ann", "w:1", 1, 2, {}, None, {},
    (FailedLetter(0, 5, "no JSON"),),
)  # fmt: skip


class FakeLetters:
    """A desk with one letter, and one replay of it; what is asked is remembered."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def page(self, query: LetterQuery) -> LetterPage:
        self.calls.append(query)
        return LetterPage("dead", query.connector, (LETTER,), None, 1)

    def dry_run(self, wanted: WantedReplay) -> DryRun:
        self.calls.append(("dry", wanted))
        edited = EditedLetter("dead", 0, 5, {"key": None}, {"key": {"text": "k"}}, "lines", None)
        return DryRun(1, 1, True, (edited,))

    def start_replay(self, wanted: WantedReplay, who: str) -> ReplayInfo:
        self.calls.append((wanted, who))
        return REPLAY

    def replays(self) -> Sequence[ReplayInfo]:
        return [REPLAY]

    def replay(self, replay_id: str) -> ReplayInfo:
        self.calls.append(replay_id)
        return REPLAY

    def stop_replay(self, replay_id: str) -> ReplayInfo:
        self.calls.append(("stop", replay_id))
        return REPLAY

    def resume_replay(self, replay_id: str) -> ReplayInfo:
        self.calls.append(("resume", replay_id))
        return REPLAY

    def delete(self, connector: str | None, topic: str | None) -> DeletedLetters:
        self.calls.append(("delete", connector, topic))
        return DeletedLetters("dead", 3, {"0": 3})
