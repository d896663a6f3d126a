"""Consumer groups' offsets, read and changed from outside (port ``ports.group_offsets``; Java ``Admin``).

Forgetting single partitions is OffsetDelete, which no client here has: it goes to the coordinator over a connection
of its own (``group_link``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.error_mapping import connect_error, is_code
from spark_connect_rt.kafka.group_link import (
    NETWORK_ERRORS,
    CoordinatorRefusesError,
    CoordinatorSearch,
    CoordinatorUnknownError,
    LinkSettings,
)
from spark_connect_rt.kafka.group_settings import member_settings
from spark_connect_rt.kafka.group_wire import OffsetDeleteRequest, forgotten
from spark_connect_rt.ports.group_offsets import GroupInUseError
from spark_connect_rt.protocol.ids import TopicPartition

TIMEOUT_MS = 30_000
PAUSE_S = 0.2  # between two questions to a coordinator that is not ready
_IN_USE = ("UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC")
_GONE = 69  # GROUP_ID_NOT_FOUND: nothing is left to forget
_USED = {25: "UNKNOWN_MEMBER_ID", 68: "NON_EMPTY_GROUP", 86: "GROUP_SUBSCRIBED_TO_TOPIC"}
_AGAIN = {14: "COORDINATOR_LOAD_IN_PROGRESS", 15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR"}
_NAMES = {3: "UNKNOWN_TOPIC_OR_PARTITION", 29: "TOPIC_AUTHORIZATION_FAILED", 30: "GROUP_AUTHORIZATION_FAILED"}


class KafkaGroupOffsets:
    """Implements ports.group_offsets.GroupOffsets; a client is made for each call, as in Java."""

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms

    def committed(self, properties: Mapping[str, str], group: str) -> dict[TopicPartition, int]:
        """See the port."""
        return dict(KafkaAdmin(properties).group_offsets(group, self._timeout_ms))

    def is_in_use(self, properties: Mapping[str, str], group: str) -> bool:
        """See the port."""
        return KafkaAdmin(properties).group_is_active(group, self._timeout_ms)

    def alter(self, properties: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See the port."""
        listed = [_ClientPartition(one.topic, one.partition, offset) for one, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, listed)]
        doing = f"altering the offsets of group {group}"
        with KafkaAdmin(properties).client() as client:
            answers = client.alter_consumer_group_offsets(request, request_timeout=self._timeout_ms / 1000)
            result = _result(answers[group], doing, self._timeout_ms)
        for one in result.topic_partitions:
            if one.error is not None:
                raise _explained(one.error, f"{doing}, {one.topic}-{one.partition}")

    def forget(self, properties: Mapping[str, str], group: str, partitions: Collection[TopicPartition]) -> None:
        """See the port."""
        asyncio.run(asyncio.wait_for(_forget(_link(properties, group), partitions), self._timeout_ms / 1000))

    def delete(self, properties: Mapping[str, str], group: str) -> None:
        """See the port."""
        with KafkaAdmin(properties).client() as client:
            answers = client.delete_consumer_groups([group], request_timeout=self._timeout_ms / 1000)
            try:
                answers[group].result(self._timeout_ms / 1000 + 5)
            except KafkaException as error:
                if not is_code(error, "GROUP_ID_NOT_FOUND"):
                    raise _explained(error, f"deleting group {group}") from error


def _result(future: Any, doing: str, timeout_ms: int) -> Any:
    try:
        return future.result(timeout_ms / 1000 + 5)
    except KafkaException as error:
        raise _explained(error, doing) from error


def _explained(error: Any, doing: str) -> ConnectError:
    explained = connect_error(error, doing)
    return GroupInUseError(str(explained)) if is_code(error, *_IN_USE) else explained


def _link(properties: Mapping[str, str], group: str) -> LinkSettings:
    link = member_settings({**properties, "group.id": group}).link
    return replace(link, answer_limit_ms=10_000)


async def _forget(settings: LinkSettings, partitions: Collection[TopicPartition]) -> None:
    """Ask until the coordinator is known and ready. Raises ConnectError, GroupInUseError."""
    request = OffsetDeleteRequest(settings.group_id, partitions)
    search = CoordinatorSearch(settings)
    while True:
        try:
            link = await search.find()
        except CoordinatorRefusesError as error:
            raise ConnectError(f"group {settings.group_id}: {error}") from error
        except CoordinatorUnknownError:
            await asyncio.sleep(PAUSE_S)
            continue
        try:
            answer = await link.ask(request)
        except NETWORK_ERRORS as error:
            raise RetriableError(f"group {settings.group_id}: forgetting offsets: {error}") from error
        finally:
            await link.wait_closed(1.0)
        if answer.error_code not in _AGAIN:
            _check(settings.group_id, answer)
            return
        await asyncio.sleep(PAUSE_S)


def _check(group: str, answer: Any) -> None:
    for where, code in forgotten(answer):
        if code in (0, _GONE):
            continue
        name = _USED.get(code) or _NAMES.get(code, f"error {code}")
        kind = GroupInUseError if code in _USED else ConnectError
        raise kind(f"forgetting offsets of group {group}{where}: {name}")
