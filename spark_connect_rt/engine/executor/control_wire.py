"""Messages of the control channel: length-prefixed JSON, and how launches and partitions look in it.

Owns the bytes; both ends use it. A message is a dict with ``op``. Nothing is unpickled from a socket.

driver -> both: levels log_level
driver -> reader: start stop pause resume assign revoke generation steer throttle durable claimed offsets end ping
reader -> driver: hello offsets measures lines ping, and of fused hosts what the writer says
writer -> driver: hello running paused durable released claimed failed lost ended steer throttle measures lines ping
commit -> driver: hello(totals); driver -> commit: totals(error)
driver -> preview: preview ping; preview -> driver: hello previewed doing over ping
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.worker_config import FlushSettings
from spark_connect_rt.engine.task_runner import Expect, JavaCode, TaskKind, TaskLaunch

Message = dict[str, Any]
_LENGTH = struct.Struct("!I")
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Return the bytes of one message, length first. Raises TypeError: JSON has no word for something in it."""
    body = orjson.dumps(message, option=orjson.OPT_NON_STR_KEYS)
    return _LENGTH.pack(len(body)) + body


class MessageSplitter:
    """Turns a stream of bytes into messages."""

    def __init__(self, limit_bytes: int = MESSAGE_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield every message complete so far. Raises ValueError: not our bytes (a stranger, or corruption)."""
        self._pending += chunk
        while len(self._pending) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pending)
            if length > self.limit_bytes:
                raise ValueError(f"control message of {length} bytes, at most {self.limit_bytes}")
            end = _LENGTH.size + length
            if len(self._pending) < end:
                return
            body = bytes(self._pending[_LENGTH.size : end])
            del self._pending[:end]
            message = orjson.loads(body)
            if not isinstance(message, dict) or "op" not in message:
                raise ValueError("control message without op")
            yield message


def encode_launch(launch: TaskLaunch) -> Message:
    """Return ``launch`` as JSON-able fields."""
    return {
        "connector": launch.task.connector,
        "task": launch.task.task,
        "run": launch.run,
        "generation": launch.generation,
        "kind": launch.kind.value,
        "task_class": launch.task_class,
        "config": dict(launch.config.written()),
        "connector_config": dict(launch.connector_config.written()),
        "worker_config": dict(launch.worker_config),
        "client_config": dict(launch.client_config),
        "paused": launch.paused,
        "flush": asdict(launch.flush),
        "dead_letter_producer": dict(launch.dead_letter_producer),
        "dead_letter_admin": dict(launch.dead_letter_admin),
        "topic_admin": dict(launch.topic_admin),
        "offsets_topic": launch.offsets_topic,
        "secret_settings": launch.secret_settings,
        "java": None if launch.java is None else asdict(launch.java),
        "isolation": launch.isolation,
        "fused": launch.fused,
    }


def decode_launch(fields: Mapping[str, Any]) -> TaskLaunch:
    """Return the value of ``encode_launch``'s fields."""
    own = ("connector", "task", "kind", "flush", "secret_settings", "java")
    rest = {name: fields[name] for name in fields if name not in own}
    return TaskLaunch(
        task=ConnectorTaskId(fields["connector"], fields["task"]),
        kind=TaskKind(fields["kind"]),
        flush=FlushSettings(**fields["flush"]),
        secret_settings=tuple(fields["secret_settings"]),
        java=None if fields.get("java") is None else decode_java(fields["java"]),
        **rest,
    )


def encode_expected(expected: Expect) -> Message:
    """Return the message that has a slot get ready for a task."""
    return {"op": "expect", "java": asdict(expected.java), "worker_config": dict(expected.worker_config)}


def decode_java(fields: Mapping[str, Any]) -> JavaCode:
    """Return a launch's Java code of its fields."""
    several = {name: tuple(fields[name]) for name in ("plugins", "options", "contents")}
    levels = tuple((logger, level) for logger, level in fields["levels"])
    return JavaCode(**{**fields, **several, "levels": levels})


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """Return [topic, partition, offset] triples."""
    return [(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]


def decode_offsets(triples: Iterable[tuple[str, int, int]]) -> dict[TopicPartition, int]:
    """Return the value of ``encode_offsets``'s triples."""
    return {TopicPartition(topic, partition): offset for topic, partition, offset in triples}
