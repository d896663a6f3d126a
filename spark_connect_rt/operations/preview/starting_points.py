"""Where a preview begins: stored source offsets, a consumer group's offsets, or what was given.

Reads only: no group is joined, no topic made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    sink_consumer_properties,
    sink_group_id,
)
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.previews.model import OFFSETS_MAX, From, PreviewRequest
from spark_connect_rt.errors import BadConfigError, BadRequestError, DataError
from spark_connect_rt.runtime.herder.api import HerderApi
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.requests_api import ReadOffsets
from spark_connect_rt.topics.offset_changes import check_source_offsets, sink_offsets

ListTopics = Callable[[Mapping[str, str]], Mapping[str, int]]
"""Admin properties, resolved -> partitions of each topic. Raises ConnectError. Never makes a topic."""
BEGINNING, END = -1, -2
READ_LIMIT_S = 30.0
Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


def topics_of(config: Mapping[str, str], there: Collection[str]) -> list[str]:
    """Return the topics of a sink's configuration, sorted; by a pattern those of it that are ``there``. Pure.

    Raises BadConfigError: the pattern cannot be understood.
    """
    named = [topic for topic in parse_value(Type.LIST, config.get("topics") or "") if topic]
    if named:
        return sorted(set(named))
    text = config.get("topics.regex") or ""
    try:
        pattern = java_pattern(text)
    except ValueError as error:
        raise BadConfigError({"topics.regex": [str(error)]}) from error
    return sorted(topic for topic in there if pattern.fullmatch(topic))


def positions_of(
    topics: Mapping[str, int], stored: Mapping[TopicPartition, int], default: int
) -> list[tuple[str, int, int]]:
    """Return where every partition of the topics (name -> partitions) is read from. Pure."""
    places = [TopicPartition(topic, number) for topic, count in sorted(topics.items()) for number in range(count)]
    return [(place.topic, place.partition, stored.get(place, default)) for place in places]


class StartingPoints:
    """Reads where connectors are."""

    def __init__(self, deps: HerderDependencies, herder: HerderApi, list_topics: ListTopics) -> None:
        """Take what knows offsets and topics."""
        self._deps, self._herder, self._list_topics = deps, herder, list_topics

    def of_source(self, request: PreviewRequest, name: str) -> Pairs:
        """Return (partition, offset) pairs. Raises ConnectError; BadRequestError: more than a preview takes along."""
        if request.begin is From.START:
            return ()
        if request.begin is From.GIVEN:
            try:
                check_source_offsets(request.offsets)
            except DataError as error:
                raise BadRequestError(str(error)) from error
        pairs = request.offsets if request.begin is From.GIVEN else self.stored(name)
        if len(pairs) > OFFSETS_MAX:
            raise BadRequestError(
                f"{len(pairs)} source partitions have offsets, but a preview takes at most {OFFSETS_MAX}. Send the "
                "offsets of some"
            )
        return pairs

    def stored(self, name: str) -> Pairs:
        """Return what is stored under a source connector's name, also one that is not there any more."""
        if not name:
            return ()
        if self._deps.config_store.snapshot().contains(name):
            found = self._herder.submit(ReadOffsets(name)).result(READ_LIMIT_S)
            return [(offset.partition or {}, offset.offset) for offset in found if offset.offset is not None]
        self._deps.offset_store.read(name, [])
        known = self._deps.offset_store.connector_offsets(name)
        return [(partition or {}, offset) for partition, offset in known if offset is not None]

    def of_sink(
        self, request: PreviewRequest, name: str, stored_config: StoredConfig, config: Mapping[str, str]
    ) -> list[tuple[str, int, int]]:
        """Return topic, partition and position of all that a sink reads. Raises ConnectError, BadRequestError.

        ``config``: the same as ``stored_config``, references resolved.
        """
        worker, texts = self._deps.settings.worker, stored_config.written()
        admin = self._deps.resolve(connector_admin_properties(worker, texts, name, 0))
        there = self._list_topics(admin)
        wanted = topics_of(config, there)
        missing = [topic for topic in wanted if topic not in there]
        if missing or not wanted:
            what = f"topics do not exist: {', '.join(missing)}" if missing else ("no topic matches topics.regex")
            raise BadRequestError(f"there is nothing to read: {what}")
        stored: Mapping[TopicPartition, int] = {}
        default = BEGINNING
        if request.begin is not From.START:
            consumer = self._deps.resolve(sink_consumer_properties(worker, texts, name, 0))
            reset = consumer.get("auto.offset.reset", "earliest")
            default = END if reset.strip().lower() == "latest" else BEGINNING
        if request.begin is From.GIVEN:
            given = sink_offsets(list(request.offsets))
            stored = {place: offset for place, offset in given.items() if offset is not None}
        elif request.begin is From.STORED:
            stored = self._deps.group_offsets.committed(admin, sink_group_id(config, name))
        return positions_of({topic: there[topic] for topic in wanted}, stored, default)
