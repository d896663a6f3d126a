"""Kafka records as consume-form Arrow batches.

Owns: one consumer with the partitions it was given, no group. Must not: decode, commit, start threads.
"Beginning" and "end" are asked for (1 ms, all partitions at once) and assigned as numbers, since librdkafka itself
takes up to 1 s to look them up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.error_mapping import connect_error, gone
from spark_connect_rt.kafka.lost_brokers import CallWatch, warn_replaced
from spark_connect_rt.kafka.reading.log_moves import LogMove, LogWatch
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT, look_up_offsets, partition_counts
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC

LOOKUP_TIMEOUT_S = 30.0
CHUNK_COUNT = 2_000
SILENT_S = 15.0  # without a record or an end, after which the client's brokers are asked whether they answer
_END_OF = {-1: FIRST, -2: NEXT}  # the port's words for the beginning and the end

_SECOND = itemgetter(1)

_DEFAULTS = {
    "allow.auto.create.topics": "false",  # a subscriber may; reading on must not bring back what was deleted
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "5",  # the default second would starve a fast reader
    "fetch.message.max.bytes": "4194304",
    "queued.max.messages.kbytes": "32768",
    "max.poll.interval.ms": "86400000",  # no group, so the number of polls does not matter
}


class KafkaBatchConsumer:
    """A BatchConsumer on confluent-kafka. One thread."""

    def __init__(self, config: Mapping[str, str], watch: LogWatch | None = None) -> None:
        """Take Java's properties, and who decides about records that were deleted before they were read.

        Raises BadConfigError. This client does not notice topics that were deleted and created again.
        """
        self._watch = watch or LogWatch()
        self._reset = config.get("auto.offset.reset", "latest").lower()
        if self._reset != "none":
            config = {**config, "auto.offset.reset": "none"}  # so that it says what it lacks, in place of moving on
        own = {name: value for name, value in _DEFAULTS.items() if name not in config}
        if "max.partition.fetch.bytes" in config:
            own.pop("fetch.message.max.bytes", None)  # the same setting under its other name
        properties = {"group.id": "unused", **config}
        properties.pop("group.instance.id", None)
        self._make: Callable[[], Any] = lambda: make_consumer(properties, own)
        self._consumer: Any = self._make()
        self._silence = CallWatch()
        self._silent_since_s = self._silence.now()
        self._assigned: dict[TopicPartition, int] = {}  # -> where it was assigned, or its end was met since
        self._problems: dict[TopicPartition, ConnectError] = {}  # not raised yet, since rows were read before them
        self._out_of_range: list[TopicPartition] = []

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Assign partitions, as the port says. A partition already read continues from the new offset."""
        self.unassign([offset for offset in offsets if offset in self._assigned])
        found = self._found(offsets)
        try:
            self._consumer.incremental_assign(
                [_ClientPartition(offset.topic, offset.partition, found[offset]) for offset in offsets]
            )
        except KafkaException as error:
            raise connect_error(error, "assigning " + ", ".join(map(str, offsets))) from error
        self._assigned.update({offset: found[offset] for offset in offsets})

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions; others in the list are ignored."""
        known = [partition for partition in partitions if partition in self._assigned]
        if known:
            self._consumer.incremental_unassign(
                [_ClientPartition(partition.topic, partition.partition) for partition in known]
            )
            for partition in known:
                del self._assigned[partition]
                self._problems.pop(partition, None)

    def poll(self, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
        """See the port. Returns as soon as there is one record, with what else is there.

        An error is raised by the call after the one that returned what was read before it: the client's position is
        behind those rows already, so they would never be read again.
        """
        self._raise_problem()
        first = self._consumer.poll(timeout_ms / 1000)
        if first is None:
            self._note_silence()
            return None
        self._silent_since_s = self._silence.now()
        rows = _Rows()
        messages = [first]
        while messages:  # by the chunk: a client's message dies young, its bytes stay
            rows.add(self._good(messages))
            room = 0 if self._problems else max_records - rows.count
            messages = self._consumer.consume(min(room, CHUNK_COUNT), 0) if room > 0 else []
        if not rows.count:
            self._raise_problem()
            return None
        return rows.batch()

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset that this consumer will read, past markers and compacted records."""
        (found,) = self._consumer.position([_ClientPartition(partition.topic, partition.partition)])
        return max(int(found.offset), self._assigned[partition])

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end of each partition (the last stable offset under read_committed)."""
        return look_up_offsets(self._consumer, dict.fromkeys(partitions, NEXT), LOOKUP_TIMEOUT_S)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return no topic ids, because librdkafka's consumer does not have them."""
        return {}

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return how many partitions topics have now. Raises RetriableError if no broker answers."""
        return partition_counts(self._consumer, topics, LOOKUP_TIMEOUT_S)

    def close(self) -> None:
        """Close the consumer and its connections."""
        self._consumer.close()

    def _found(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offsets with the two ends replaced by numbers."""
        ends = {partition: _END_OF[offset] for partition, offset in offsets.items() if offset in _END_OF}
        return {**offsets, **look_up_offsets(self._consumer, ends, LOOKUP_TIMEOUT_S)}

    def _note_silence(self) -> None:
        """Replace a client that has had nothing to give for some time and that no broker answers."""
        now_s = self._silence.now()
        if now_s - self._silent_since_s < SILENT_S:
            return
        self._silent_since_s = now_s
        if not self._assigned:
            return
        if not self._silence.is_lost(self._consumer, now_s - SILENT_S, next(iter(self._assigned)).topic):
            return
        warn_replaced(f"the consumer of {', '.join(map(str, self._assigned))}")
        positions = {place: self.position(place) for place in self._assigned}
        lost, self._consumer = self._consumer, self._make()
        lost.close()
        self._consumer.incremental_assign(
            [_ClientPartition(place.topic, place.partition, at) for place, at in positions.items()]
        )
        self._assigned = positions

    def _raise_problem(self) -> None:
        for partition in self._problems:
            raise self._problems.pop(partition)

    def _good(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Return the messages that are records; take note of the others."""
        errors = list(map(Message.error, messages))
        if not any(errors):  # never compare them: KafkaError == None breaks the interpreter
            return messages
        for message in messages:
            self._take_event(message)
        self._go_on_behind_gaps()
        return [message for message, error in zip(messages, errors, strict=True) if error is None]

    def _go_on_behind_gaps(self) -> None:
        """Read on where auto.offset.reset says. A refusal of the watch is raised by a later poll, then repeatedly."""
        while self._out_of_range:
            where = self._out_of_range.pop()
            wanted = self.position(where)
            end = FIRST if self._reset == "earliest" else NEXT
            found = look_up_offsets(self._consumer, {where: end}, LOOKUP_TIMEOUT_S)[where]
            try:
                self._watch.decide(LogMove(where, wanted, found, recreated=False))
            except ConnectError as error:
                self.assign({where: wanted})
                self._problems[where] = error
            else:
                self.assign({where: found})

    def _take_event(self, message: Any) -> None:
        """Note the end of a partition, or an error that waiting does not resolve."""
        error = message.error()
        if error is None:
            return
        where = TopicPartition(message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            if where in self._assigned:  # lies behind markers and compacted records, which are never delivered
                self._assigned[where] = max(self._assigned[where], message.offset())
            return
        if error.code() == KafkaError._AUTO_OFFSET_RESET and self._reset != "none" and where in self._assigned:
            self._out_of_range.append(where)
            return
        problem = connect_error(error, f"reading {where}")
        waits = isinstance(problem, RetriableError) and not error.fatal()  # the client itself does
        # As Java's consumer it stops at a corrupt batch; that a topic is gone must be known.
        if not waits or isinstance(problem, UnknownTopicError) or error.code() == KafkaError.INVALID_MSG:
            self._problems[where] = gone(problem)


class _Rows:
    """The rows of one poll, by column and chunk.

    C loops only: half of what a loop over records takes. Each chunk goes to Arrow at once, while
    its bytes are in the processor's cache.
    """

    def __init__(self) -> None:
        self.count = 0
        self._topics: set[str] = set()
        self._partitions: set[int] = set()
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in CONSUME_FIELDS}

    def add(self, messages: Sequence[Any]) -> None:
        """Append messages that are records."""
        if not messages:
            return  # all of them were errors
        self.count += len(messages)
        self._places("topic", set(map(Message.topic, messages)), self._topics, Message.topic, messages)
        self._places("partition", set(map(Message.partition, messages)), self._partitions, Message.partition, messages)
        self._chunk("offset", list(map(Message.offset, messages)))
        self._chunk("timestamp", list(map(_SECOND, map(Message.timestamp, messages))))
        self._chunk("key", list(map(Message.key, messages)))
        self._chunk("value", list(map(Message.value, messages)))
        headers: list[Any] = list(map(Message.headers, messages))
        if any(headers):
            headers = [header and [{"key": key, "value": value} for key, value in header] for header in headers]
        self._chunk("headers", headers)

    def batch(self) -> pa.RecordBatch:
        """Return the consume form; topic and partition are in the metadata once when all rows share them."""
        metadata: dict[bytes, bytes] = {}
        columns = {name: _joined(chunks) for name, chunks in self._chunks.items()}
        if len(self._topics) == 1:
            metadata[TOPIC] = next(iter(self._topics)).encode()
            del columns["topic"]
        if len(self._partitions) == 1:
            metadata[PARTITION] = str(next(iter(self._partitions))).encode()
            del columns["partition"]
        for name in ("key", "headers"):
            if columns[name].null_count == self.count:
                del columns[name]
        schema = pa.schema([pa.field(name, column.type) for name, column in columns.items()], metadata=metadata)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)

    def _places(self, name: str, here: set[Any], seen: set[Any], read: Any, messages: Sequence[Any]) -> None:
        """Append a column that nearly always holds one value."""
        seen.update(here)
        if len(here) == 1:
            self._chunks[name].append(pa.repeat(pa.scalar(next(iter(here)), CONSUME_FIELDS[name]), len(messages)))
        else:
            self._chunk(name, list(map(read, messages)))

    def _chunk(self, name: str, values: list[Any]) -> None:
        kind = CONSUME_FIELDS[name]
        absent = values[0] is None and values.count(None) == len(values)
        self._chunks[name].append(pa.nulls(len(values), kind) if absent else pa.array(values, kind))


def _joined(chunks: list[pa.Array]) -> pa.Array:
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
