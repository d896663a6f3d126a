"""Where a connector would resume, and whether its name collides with existing ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.config.client_properties import connector_admin_properties, sink_group_id
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.operations.checks.model import NAME, OFFSETS
from spark_connect_rt.operations.preview.service import StartingPoints
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

_SHOWN = 3  # partitions by name
_RESET = "or reset the offsets: create it STOPPED, DELETE /connectors/{name}/offsets, resume it. Or choose another name"


class OffsetChecks:
    """The checks of one name."""

    def __init__(
        self,
        deps: HerderDependencies,
        starting: StartingPoints,
        name: str,
        stored: StoredConfig,
        config: Mapping[str, str],
        *,
        sink: bool,
    ) -> None:
        """Take a name and the configuration that it would have, as it is written and resolved."""
        self._stored = stored
        self._deps, self._starting, self._name, self._config, self._sink = deps, starting, name, config, sink
        self._there = deps.config_store.snapshot().contains(name)

    def of_name(self) -> Sequence[Finding]:
        """Return whether the name is taken."""
        if not self._name:
            return [Finding(NAME, "name", Level.OK, "no name is set")]
        if self._there:
            what = f"connector {self._name} exists, and this configuration would replace its own"
            return [Finding(NAME, "name", Level.WARNING, what, "choose another name for a new connector")]
        lines = [Finding(NAME, "name", Level.OK, f"no connector has the name {self._name}")]
        if self._sink and self._deps.group_offsets.is_in_use(self._admin(), self._group):
            what = (
                f"consumer group {self._group} has members, although no connector of this cluster has that "
                f"name: {_OTHERS}"
            )
            change = "choose another name, or consumer.override.group.id"
            return [Finding(NAME, "name", Level.PROBLEM, what, change)]
        return lines

    def of_offsets(self) -> Sequence[Finding]:
        """Return where the connector would resume."""
        if not self._name:
            return []
        found = self._of_group() if self._sink else self._of_source()
        return [offset_line(self._name, found, there=self._there, sink=self._sink)]

    @property
    def _group(self) -> str:
        return sink_group_id(self._config, self._name)

    def _admin(self) -> Mapping[str, str]:
        texts = self._stored.written()
        return self._deps.resolve(connector_admin_properties(self._deps.settings.worker, texts, self._name, 0))

    def _of_group(self) -> list[str]:
        committed = self._deps.group_offsets.committed(self._admin(), self._group)
        return [f"{place} at {committed[place]}" for place in sorted(committed, key=_order)]

    def _of_source(self) -> list[str]:
        pairs = self._starting.stored(self._name)
        return [f"{encode_json(partition).decode()} at {encode_json(offset).decode()}" for partition, offset in pairs]


_OTHERS = "they belong to another Connect cluster or to other consumers"


def _order(place: TopicPartition) -> tuple[str, int]:
    return place.topic, place.partition


def offset_line(name: str, found: Sequence[str], *, there: bool, sink: bool) -> Finding:
    """Return the line of what is stored under a name. Pure.

    Args:
        name: of the connector.
        found: "partition at offset", of each that has one.
        there: whether a connector is called so.
        sink: whether it reads topics.
    """
    setting = "name"
    if not found:
        where = "at auto.offset.reset (earliest, unless overridden)" if sink else "at the beginning"
        return Finding(OFFSETS, setting, Level.OK, f"no offset is stored, so it starts {where}")
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    shown = f"{'; '.join(text[:200] for text in found[:_SHOWN])}{more}"
    if there:
        return Finding(OFFSETS, setting, Level.OK, f"it resumes from its stored offsets: {shown}")
    what = f"this name has old offsets, so it would resume at {shown}"
    return Finding(OFFSETS, setting, Level.WARNING, what, _RESET.format(name=name))
