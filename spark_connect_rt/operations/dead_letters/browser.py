"""Pages of dead letters (operations.dead_letters.model.DeadLetterDesk).

Owns: how long and how far one page may look for letters that a filter wants.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.dead_letters.letter import (
    Letter,
    LetterFilter,
    LetterForm,
    LetterForms,
    decode_cursor,
    encode_cursor,
)
from spark_connect_rt.operations.dead_letters.letter_topics import DeadLetterTopics, LetterTopics
from spark_connect_rt.operations.dead_letters.model import (
    LetterHeader,
    LetterInfo,
    LetterOrigin,
    LetterPage,
    LetterQuery,
    ReplayedMark,
)
from spark_connect_rt.operations.dead_letters.replay_ledger import ReplayLog

PAGE_S = 5.0
PAGE_BYTES = 16 * 2**20  # shown; a page is full then
_TRACE_MAX = 65_536  # characters
Marks = Callable[[int, int], ReplayedMark | None]
"""From partition and offset to the mark of a letter that was replayed."""


def no_marks(_partition: int, _offset: int) -> ReplayedMark | None:
    """Return None: no letter was replayed."""
    return None


class DeadLetterBrowser:
    """The DeadLetterDesk of one worker."""

    def __init__(
        self,
        queues: DeadLetterTopics,
        topics: LetterTopics,
        forms: LetterForms,
        marks: Callable[[str, str], Marks] = lambda topic, topic_id: no_marks,
    ) -> None:
        """``marks``: of a topic (name, id), read to the end of now."""
        self._queues = queues
        self._topics = topics
        self._forms = forms
        self._marks = marks

    def page(self, query: LetterQuery) -> LetterPage:
        """Return a page of letters that the filter accepts. Stops early after ``PAGE_S`` seconds or a full page."""
        wanted = LetterFilter.of(query.filter)
        queue = self._queues.find(query.connector, query.topic)
        found = self._topics.describe(queue.topic) if queue else None
        if queue is None or found is None:
            return LetterPage(queue.topic if queue else None, query.connector, (), None, 0)
        numbers = [partition for partition in range(len(found.replicas)) if wanted.partition in (None, partition)]
        span = self._topics.span(queue.topic, numbers, wanted.from_ms)
        before = decode_cursor(query.after, found.topic_id) if query.after else {}
        positions = {number: max(offset, before.get(number, 0)) for number, offset in span.begins.items()}
        marks = self._marks(queue.topic, found.topic_id)
        letters, scanned, end_s, size = [], 0, time.monotonic() + PAGE_S, 0
        with self._topics.reading(queue.topic, positions, span.ends) as reading:
            for letter in reading:
                if letter is not None:
                    scanned += 1
                    mark = marks(letter.partition, letter.offset)
                    if queue.holds(letter) and wanted.lets(letter, mark is not None):
                        letters.append(letter_info(letter, self._forms.of(letter, queue.connector), mark))
                        size += min(letter.size, _TRACE_MAX)
                if len(letters) >= query.limit or size >= PAGE_BYTES or time.monotonic() >= end_s:
                    break
            reached: Mapping[int, int] = dict(reading.positions)
        is_over = all(reached[number] >= end for number, end in span.ends.items())
        following = None if is_over else encode_cursor(found.topic_id, {**before, **reached})
        return LetterPage(queue.topic, query.connector, letters, following, scanned)


def letter_info(letter: Letter, form: LetterForm, mark: ReplayedMark | None) -> LetterInfo:
    """Return a letter as REST shows it."""
    errors = letter.errors
    task = errors.get("task.id") or ""
    return LetterInfo(
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        at_ms=letter.at_ms,
        origin=LetterOrigin(letter.origin_topic, letter.origin_partition, letter.origin_offset),
        stage=errors.get("stage"),
        class_name=errors.get("class.name"),
        exception=errors.get("exception.class.name"),
        message=_shown_text(errors.get("exception.message")),
        stacktrace=_shown_text(errors.get("exception.stacktrace")),
        connector_name=errors.get("connector.name"),
        task=int(task) if task.isascii() and task.isdigit() and len(task) < 10 else None,
        key=form.part(letter, "key").shown(letter.key),
        value=form.part(letter, "value").shown(letter.value),
        headers=[LetterHeader(_name(name), form.header(letter, name).shown(data)) for name, data in letter.headers],
        replayed=mark,
    )


def _shown_text(text: str | None) -> str | None:
    if text is None:
        return None
    hidden = without_secrets(text)
    return hidden if len(hidden) <= _TRACE_MAX else f"{hidden[:_TRACE_MAX]} ... [{len(hidden)} characters]"


def _name(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()


# Marks of replayed letters for pages: as of now, or as they are known where the topic of replays does not answer.


CATCH_UP_MS = 5_000
log = logging.getLogger(__name__)


def marks_of(replay_log: ReplayLog, topic_id: str) -> Marks:
    """Return the marks of a topic; pages leave out what cannot be read."""
    try:
        replay_log.catch_up(CATCH_UP_MS)
    except ConnectError as error:
        log.warning("the list of replayed dead letters is incomplete: %s", error)

    def mark(partition: int, offset: int) -> ReplayedMark | None:
        found = replay_log.read(lambda records: records.marks.of(topic_id, partition, offset))
        return None if found is None else ReplayedMark(found.replay, found.at_ms)

    return mark
