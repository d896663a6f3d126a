"""Settings of a connector that nothing reads: misspelled, of another plug-in, or of an alias that is not listed.

Pure. Java Connect passes over such a setting in silence. ``POST /admin/check`` and the dry runs of the command line
warn about it, and name the setting that was probably meant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.connector_config import DEAD_LETTERS
from spark_connect_rt.config.nearest_name import nearest_name

FREE_PREFIXES = (
    "topic.creation.",
    "spark.",
    "dlt.config.",
    "lakeflow.option.",
    "lakeflow.table.",
    "delta.storage.",
    "iceberg.catalog.",
    "iceberg.hadoop.",
    "iceberg.kafka.",
    "iceberg.table.",
    "iceberg.tables.auto-create-props.",
    "iceberg.tables.write-props.",
)
"""Names below these belong to groups or options that the user names."""
CLIENT_PREFIXES = (
    *(f"{client}.override." for client in ("producer", "consumer", "admin")),
    *(f"{side}.{client}." for side in ("source", "target") for client in ("cluster", "producer", "consumer", "admin")),
)
"""Names with these prefixes belong to Kafka clients: a task's, and those of connectors that copy between clusters."""
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_CHAINS = ("transforms", "predicates")


@dataclass(frozen=True, slots=True)
class UnreadSetting:
    """One setting without effect; ``nearest`` is the name that was probably meant, empty if none is near."""

    name: str
    why: str
    nearest: str = ""

    def sentence(self) -> str:
        """Return the warning for a person."""
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name} has no effect: {self.why}.{hint}"


def unread_settings(
    config: Mapping[str, str], declared: Collection[str], *, declares_all: bool
) -> Sequence[UnreadSetting]:
    """Return the settings of ``config`` that nothing reads, in their order.

    Args:
        config: the connector's configuration.
        declared: every setting that the connector, its clients, converters, transformations and predicates declare.
        declares_all: whether the connector declares every setting that it reads, as Python connectors do. Java
            connectors pass settings on to libraries; of these only a likely misspelling is reported.
    """
    # Sources have a dead letter queue, too: declared for them nowhere, as validation's answer stays Java's.
    read = {*declared, *DEAD_LETTERS.names()}
    found = (_judged(name, config, read, declares_all) for name in config if name not in read)
    return [setting for setting in found if setting is not None]


def _judged(
    name: str, config: Mapping[str, str], declared: Collection[str], declares_all: bool
) -> UnreadSetting | None:
    if name == "name" or name.startswith(FREE_PREFIXES):
        return None
    nearest = nearest_name(name, declared)
    chain = next((prefix for prefix in _CHAINS if name.startswith(f"{prefix}.")), None)
    if chain is not None:
        alias = name.split(".")[1]
        if alias not in parse_value(Type.LIST, config.get(chain) or ""):
            return UnreadSetting(name, f"{chain} does not list {alias}", nearest)
    converter = next((prefix for prefix in _CONVERTERS if name.startswith(f"{prefix}.")), None)
    if converter is not None and not config.get(converter):
        return UnreadSetting(
            name, f"settings of a converter have an effect only together with {converter}, which is not set", nearest
        )
    if nearest or (declares_all and not name.startswith(CLIENT_PREFIXES)):
        return UnreadSetting(name, "neither the connector nor its plug-ins read it", nearest)
    return None
