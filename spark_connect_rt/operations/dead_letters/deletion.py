"""Letters that were replayed deleted from their queue: up to the first one that was not, never beyond."""

from __future__ import annotations

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.operations.dead_letters.letter import Letter
from spark_connect_rt.operations.dead_letters.letter_topics import Span
from spark_connect_rt.operations.dead_letters.model import DeletedLetters
from spark_connect_rt.operations.dead_letters.queues import Queue
from spark_connect_rt.operations.dead_letters.replay_log import no_topic
from spark_connect_rt.operations.dead_letters.replay_run import RunParts


def delete_replayed(parts: RunParts, connector: str | None, topic: str | None) -> DeletedLetters:
    """Delete what lies before the first letter that was not replayed, whichever connector wrote it.

    Raises NotFoundError, BadRequestError, ForbiddenError, ConnectError: the worker may not delete records.
    """
    queue = parts.queues.find(connector, topic)
    if queue is None:
        raise BadRequestError(f"connector {connector} has no dead letter queue")
    found = parts.topics.describe(queue.topic)
    if found is None:
        raise no_topic(queue.topic)
    span = parts.topics.span(queue.topic, range(len(found.replicas)))
    up_to = _replayed_to(parts, queue, found.topic_id, span)
    wanted = {number: at for number, at in up_to.items() if at > span.begins[number]}
    parts.topics.admin.delete_records(queue.topic, wanted)
    old = parts.log.read(lambda records: list(records.marks.before(found.topic_id, up_to)))
    if old:
        parts.log.append([(key, None) for key in old])
    deleted = sum(at - span.begins[number] for number, at in wanted.items())
    return DeletedLetters(queue.topic, deleted, {str(number): at for number, at in sorted(up_to.items())})


def _replayed_to(parts: RunParts, queue: Queue, topic_id: str, span: Span) -> dict[int, int]:
    """Return by partition the offset of the first record that is no replayed letter, else the end."""
    up_to: dict[int, int] = {}
    with parts.topics.reading(queue.topic, span.begins, span.ends) as reading:
        for letter in reading:
            if letter is not None and letter.partition not in up_to and not _is_replayed(parts, topic_id, letter):
                up_to[letter.partition] = letter.offset
            if len(up_to) == len(span.ends):
                break
        reached = dict(reading.positions)
    return {number: up_to.get(number, min(reached[number], end)) for number, end in span.ends.items()}


def _is_replayed(parts: RunParts, topic_id: str, letter: Letter) -> bool:
    return parts.log.read(lambda records: records.marks.of(topic_id, letter.partition, letter.offset)) is not None
