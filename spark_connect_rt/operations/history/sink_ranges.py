"""Whether a sink can go on at an offset: that records are there, of the connector's own cluster. Blocks."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import connector_admin_properties
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.topics.offset_changes import OffsetPair
from spark_connect_rt.topics.offset_moves import as_sink_offsets

LIMIT_MS = 10_000


class SinkRanges:
    """Asks the cluster of a connector."""

    def __init__(self, deps: HerderDependencies) -> None:
        self._deps = deps

    def __call__(self, connector: str, pairs: Sequence[OffsetPair]) -> Sequence[str]:
        """Return why a sink cannot go on at these offsets; nothing for a source: only it knows."""
        wanted = as_sink_offsets([pair for pair in pairs if pair[1] is not None])
        config = self._deps.config_store.snapshot().connector_config(connector)
        if not wanted or config is None:
            return ()
        properties = connector_admin_properties(self._deps.settings.worker, config.written(), connector, 0)
        admin = KafkaAdmin(self._deps.resolve(properties))
        places = {TopicPartition(topic, partition): offset for topic, partition, offset in wanted}
        try:
            first, end = admin.earliest_offsets(places, LIMIT_MS), admin.end_offsets(places, LIMIT_MS)
        except ConnectError as error:
            return (f"the range of available records is unknown: {error}",)
        finally:
            admin.close()
        problems = []
        for place, offset in sorted(places.items()):
            if offset < first[place]:
                problems.append(
                    f"{place.topic}-{place.partition}: records before {first[place]} are deleted, so it cannot "
                    f"start at {offset}"
                )
            elif offset > end[place]:
                problems.append(f"{place.topic}-{place.partition}: it ends at {end[place]}, before {offset}")
        return problems
