"""What a replay would do, without doing it; and whether it can be at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from spark_connect_rt.errors import BadRequestError, DataError
from spark_connect_rt.operations.dead_letters.letter import Letter, LetterFilter
from spark_connect_rt.operations.dead_letters.letter_edit import check_edit, shown_letter, shown_record
from spark_connect_rt.operations.dead_letters.letter_forms import LetterForms, Plugin
from spark_connect_rt.operations.dead_letters.model import SINK, TOPIC, DryRun, EditedLetter, WantedReplay
from spark_connect_rt.operations.dead_letters.replay_ledger import Replay
from spark_connect_rt.operations.dead_letters.replay_log import no_topic
from spark_connect_rt.operations.dead_letters.replay_run import Edit, ReplayRun, RunParts
from spark_connect_rt.operations.dead_letters.sink_feed import check_brokers
from spark_connect_rt.operations.dead_letters.sink_replay import SinkRun

LETTERS_MAX = 10_000
RATE_MAX = 1e6
SAMPLE_COUNT, SAMPLE_BYTES = 10, 16_384
LOOK_S = 5.0


def wanted_replay(wanted: WantedReplay, parts: RunParts, plugin: Plugin) -> Replay:
    """Return a replay that can be, still without an id.

    Raises BadRequestError, BadConfigError, NotFoundError, ForbiddenError.
    """
    if wanted.target not in (TOPIC, SINK):
        raise BadRequestError(f"target: must be {TOPIC} or {SINK}")
    if wanted.rate is not None and not 0 < wanted.rate <= RATE_MAX:
        raise BadRequestError(f"rate: must be a number of letters per second above 0 and at most {RATE_MAX:.0f}")
    if wanted.target == SINK:
        _check_sink(wanted.connector, parts)
    if wanted.letters is not None and not 0 < len(wanted.letters) <= LETTERS_MAX:
        raise BadRequestError(
            f"letters: must be 1 to {LETTERS_MAX} pairs of partition and offset. Use a filter for more"
        )
    wanted_filter = LetterFilter.of(wanted.filter)
    check_edit(wanted.edit, plugin)
    queue = parts.queues.find(wanted.connector, wanted.topic)
    if queue is None:
        raise BadRequestError(f"connector {wanted.connector} has no dead letter queue")
    if parts.topics.describe(queue.topic) is None:
        raise no_topic(queue.topic)
    return Replay(
        id="",
        connector=wanted.connector,
        topic=queue.topic,
        target=wanted.target,
        filter=wanted_filter.as_fields(),
        letters=None if wanted.letters is None else tuple(sorted(set(wanted.letters))),
        edit={name: value for name, value in wanted.edit.items() if value is not None},
        rate=wanted.rate,
        again=wanted.again,
        who="",
        worker="",
        created_ms=parts.now_ms(),
    )


def _check_sink(connector: str | None, parts: RunParts) -> None:
    if parts.feed is None:
        raise BadRequestError("this worker replays dead letters to topics only")
    config = parts.feed.config_of(connector) if connector else {}
    if not config.get("topics") and not config.get("topics.regex"):
        raise BadRequestError(
            f"target {SINK} needs a sink connector. Dead letters of a topic without a connector "
            f"can only be replayed to {TOPIC}"
        )
    check_brokers(config)


def new_run(parts: RunParts, replay: Replay, must_end: Callable[[], bool]) -> ReplayRun:
    """Return what carries a replay out."""
    return (SinkRun if replay.target == SINK else ReplayRun)(parts, replay, must_end)


def dry_run(parts: RunParts, forms: LetterForms, replay: Replay) -> DryRun:
    """Return what a replay would do with the first letters, and how many there are. Raises ConnectError."""
    run = new_run(parts, replay, lambda: False)
    edit = parts.try_edit(replay)
    matched, scanned, complete, sample = 0, 0, False, list[EditedLetter]()
    try:
        with run.looking() as (queue, reading):
            end_s = time.monotonic() + LOOK_S
            for letter in reading:
                scanned += letter is not None
                if letter is not None and run.wants(queue, letter):
                    matched += 1
                    if len(sample) < SAMPLE_COUNT:
                        sample.append(_edited(run, forms, replay, letter, edit))
                if time.monotonic() >= end_s:
                    break
            else:
                complete = True
    finally:
        edit.close()
    return DryRun(matched=matched, scanned=scanned, complete=complete, sample=sample)


def _edited(run: ReplayRun, forms: LetterForms, replay: Replay, letter: Letter, edit: Edit) -> EditedLetter:
    form = forms.of(letter, replay.connector)
    before = shown_letter(letter, form, SAMPLE_BYTES)
    made: dict[str, Any] = {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset}
    made["before"] = before
    try:
        record = edit.apply(letter, replay.connector)
        if record is None:
            return EditedLetter(**made, after=None, to=None, error=None)
        run.row(letter, record)
    except DataError as error:
        return EditedLetter(**made, after=None, to=None, error=str(error))
    return EditedLetter(**made, after=shown_record(letter, form, record, SAMPLE_BYTES), to=record.topic, error=None)
