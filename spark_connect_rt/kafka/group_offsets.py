"""Consumer groups' offsets, read and changed from outside (port ``kafka.interfaces``; Java ``Admin``).

Every request goes to the group's coordinator over its own connection (``group_link``). librdkafka's admin client
cannot forget single partitions (OffsetDelete). Its version 2.16 ends the process when it asks a broker without offsets
topic for a group's offsets, and a sink that reads another cluster may be the first to ask there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.group_config import GroupSettings
from spark_connect_rt.config.worker_config import ConnectionSettings
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.aiokafka_parts import DeleteGroupsRequest, OffsetCommitRequest, OffsetFetchRequest
from spark_connect_rt.kafka.error_mapping import COORDINATOR_UNSETTLED, connect_error, is_code
from spark_connect_rt.kafka.interfaces import GroupInUseError
from spark_connect_rt.kafka.membership.group_link import (
    NETWORK_ERRORS,
    CoordinatorRefusesError,
    CoordinatorSearch,
    CoordinatorUnknownError,
    LinkSettings,
)
from spark_connect_rt.kafka.membership.group_settings import member_settings
from spark_connect_rt.kafka.membership.group_wire import OffsetDeleteRequest, forgotten

TIMEOUT_MS = 30_000
PAUSE_S = 0.2  # between two questions to a coordinator that is not ready
_NO_MEMBER = ("", -1)  # member id and generation of a commit from outside
_NO_LIMIT_MS = -1  # offsets stay as long as the broker keeps any
_GONE = ("GROUP_ID_NOT_FOUND",)  # nothing is left to forget
_IN_USE = ("UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC")

Errors = Iterator[tuple[str, int]]
"""The errors in an answer: the place (empty: the whole request) and the broker's error code, 0 for none."""


class KafkaGroupOffsets:
    """Implements kafka.interfaces.GroupOffsets; a client is made for each call, as in Java."""

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self._timeout_ms = timeout_ms

    def committed(self, properties: Mapping[str, str], group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of the group; empty when there is no such group."""
        return {place: offset for place, (offset, _) in self.committed_with_metadata(properties, group).items()}

    def committed_with_metadata(
        self, properties: Mapping[str, str], group: str
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Return what ``committed`` returns, each with the text that was committed with it."""
        every: Any = None
        request = OffsetFetchRequest(group, every)
        answer = self._ask(properties, group, request, f"listing the offsets of group {group}", _fetch_errors)
        return {
            TopicPartition(topic, number): (offset, metadata or "")
            for topic, partitions in answer.topics
            for number, offset, metadata, _ in partitions
            if offset >= 0
        }

    def is_in_use(self, properties: Mapping[str, str], group: str) -> bool:
        """Return whether the group has members."""
        with closing(KafkaAdmin(properties)) as admin:
            return admin.group_is_active(group, self._timeout_ms)

    def alter(self, properties: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See the port. Raises ValueError: an offset below zero, which a broker would take as it stands."""
        if min(offsets.values(), default=0) < 0:
            raise ValueError(f"altering the offsets of group {group}: an offset is below zero")
        topics = groupby(sorted(offsets), lambda offset: offset.topic)
        listed = [(topic, [(p.partition, offsets[p], "") for p in found]) for topic, found in topics]
        member_id, generation = _NO_MEMBER
        request = OffsetCommitRequest(group, generation, member_id, _NO_LIMIT_MS, listed)
        self._ask(properties, group, request, f"altering the offsets of group {group}", _partition_errors)

    def forget(self, properties: Mapping[str, str], group: str, partitions: Collection[TopicPartition]) -> None:
        """Forget the offsets of some partitions. Raises GroupInUseError if the group subscribes to them."""
        request = OffsetDeleteRequest(group, partitions)
        self._ask(properties, group, request, f"deleting offsets of group {group}", forgotten, _GONE)

    def delete(self, properties: Mapping[str, str], group: str) -> None:
        """Delete the whole group; it may be gone already. Raises GroupInUseError."""
        self._ask(properties, group, DeleteGroupsRequest([group]), f"deleting group {group}", _group_errors, _GONE)

    def _ask(
        self,
        properties: Mapping[str, str],
        group: str,
        request: Any,
        doing: str,
        errors: Callable[[Any], Errors],
        fine: Collection[str] = (),
    ) -> Any:
        """Return the coordinator's answer. Raises GroupInUseError, RetriableError, ConnectError."""
        asked = _Question(_link(properties, group), request, doing, errors)
        answer = asyncio.run(asked.answered(self._timeout_ms))
        for where, code in errors(answer):
            error = KafkaError(code)
            if code and not is_code(error, *fine):
                kind = connect_error(error, f"{doing}{where}")
                raise GroupInUseError(str(kind)) if is_code(error, *_IN_USE) else kind
        return answer


class _Question:
    """One request, asked until the coordinator is known and ready."""

    def __init__(self, settings: LinkSettings, request: Any, doing: str, errors: Callable[[Any], Errors]) -> None:
        self._search = CoordinatorSearch(settings)
        self._request, self._doing, self._errors = request, doing, errors
        self._not_yet = "no answer"

    async def answered(self, timeout_ms: int) -> Any:
        """Return the answer. Raises TimedOutError saying what was in the way, RetriableError, ConnectError."""
        try:
            return await asyncio.wait_for(self._asked_again(), timeout_ms / 1000)
        except TimeoutError as error:
            raise TimedOutError(f"{self._doing}: not within {timeout_ms} ms: {self._not_yet}") from error

    async def _asked_again(self) -> Any:
        while True:
            answer = await self._asked()
            if answer is not None:
                return answer
            await asyncio.sleep(PAUSE_S)

    async def _asked(self) -> Any:
        try:
            link = await self._search.find()
        except CoordinatorRefusesError as error:
            raise ConnectError(f"{self._doing}: {error}") from error
        except CoordinatorUnknownError as error:
            self._not_yet = str(error)
            return None
        try:
            answer = await link.ask(self._request)
        except NETWORK_ERRORS as error:
            raise RetriableError(f"{self._doing}: {error}") from error
        finally:
            await link.wait_closed(1.0)
        for _, code in self._errors(answer):
            if code and is_code(KafkaError(code), *COORDINATOR_UNSETTLED):
                self._not_yet = KafkaError(code).name()
                return None
        return answer


def _link(properties: Mapping[str, str], group: str) -> LinkSettings:
    named = GroupSettings.of({"group.id": group, "client.id": properties.get("client.id", "")})
    link = member_settings(named, ConnectionSettings.of(properties), properties).link
    return replace(link, answer_limit_ms=10_000)


def _fetch_errors(answer: Any) -> Errors:
    yield "", answer.error_code
    for topic, partitions in answer.topics:
        for number, _, _, code in partitions:
            yield f", {topic}-{number}", code


def _partition_errors(answer: Any) -> Errors:
    for topic, partitions in answer.topics:
        for number, code in partitions:
            yield f", {topic}-{number}", code


def _group_errors(answer: Any) -> Errors:
    for _, code in answer.results:
        yield "", code
