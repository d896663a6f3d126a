"""The verdict of `IcebergSink` on each setting of Apache Iceberg's official Kafka Connect sink. Pure.

The verdict on each setting is that of `sink_settings.py` and `catalog_settings.py`, asked through the connector. The
names of topics and groups are those of the official sink's `IcebergSinkConfig` and `Coordinator`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.connectors.lakehouse import catalog_settings, sink_settings
from spark_connect_rt.connectors.lakehouse.iceberg_sink import CONFIG, IcebergSinkConnector

_OURS = "iceberg."
_KEYED = ("iceberg.tables.upsert-mode-enabled", "iceberg.tables.cdc-field")
_REFERENCE = "${"


class SettingFate(Enum):
    """The verdict on a setting of the official sink."""

    HONOURED = "honoured"
    DIFFERS = "differs"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class TakenSetting:
    """A setting of the official sink and the verdict of `IcebergSink`. The reason is a sentence or a clause."""

    name: str
    fate: SettingFate
    reason: str


def taken_settings(config: Mapping[str, str]) -> Sequence[TakenSetting]:
    """Return the verdict on each `iceberg.*` setting, in the order of the configuration.

    Settings that are missing, and that it refuses to start without, come last. A value that refers to a config provider
    is not known here, so it is not checked.
    """
    refused = _refused(config)
    ignored = {**CONFIG.doubts(config), **_without_effect(config)}
    found = []
    for name in (name for name in config if name.startswith(_OURS)):
        if name in refused and _REFERENCE not in (config[name] or ""):
            found.append(TakenSetting(name, SettingFate.REFUSED, f"IcebergSink refuses it: {refused[name]}"))
        elif name in ignored:
            found.append(TakenSetting(name, SettingFate.IGNORED, ignored[name]))
        elif name in _KEYED and (config[name] or "").strip().lower() not in ("", "false"):
            why = "IcebergSink replaces and deletes rows by key. The official sink accepts the setting and only appends"
            found.append(TakenSetting(name, SettingFate.DIFFERS, why))
        else:
            found.append(TakenSetting(name, SettingFate.HONOURED, "IcebergSink honours it"))
    missing = [name for name in refused if name not in config and name.startswith(_OURS)]
    return [*found, *(TakenSetting(name, SettingFate.REFUSED, refused[name]) for name in missing)]


def _refused(config: Mapping[str, str]) -> dict[str, str]:
    problems = {value.name: value.errors for value in CONFIG.validate(config) if value.errors}
    found: Mapping[str, Sequence[str]] = problems or IcebergSinkConnector().validate(config)
    return {name: " ".join(reasons) for name, reasons in found.items()}


def _without_effect(config: Mapping[str, str]) -> dict[str, str]:
    found = catalog_settings.without_effect(config) | sink_settings.without_effect(config)
    for name in CONFIG.unknown(config, sink_settings.PREFIXES):
        found.setdefault(name, "IcebergSink has no such setting")
    return found


def data_group(config: Mapping[str, str]) -> str:
    """Return the consumer group whose offsets say which records the official sink has read."""
    return (
        config.get("iceberg.connect.group-id")
        or config.get("consumer.override.group.id")
        or f"connect-{config.get('name', '')}"
    )


def differences(config: Mapping[str, str]) -> Mapping[str, str]:
    """Return what differs in guarantees, and how the offsets pass from the official sink: subject -> sentences."""
    group, own = data_group(config), f"connect-{config.get('name', '')}"
    control = config.get("iceberg.control.topic") or "control-iceberg"
    rename = "" if own == group else f" (set consumer.override.group.id={group})"
    return {
        "exactly once": (
            "IcebergSink stores the offsets in the table, in the commit of the rows. The official sink stores them in "
            "the consumer group and commits the rows later, in one of its tasks, so a failure between the two may lose "
            "or repeat rows"
        ),
        "control topic and control group": (
            f"not needed: no task waits for another. You can delete topic {control} and group {group}-coord after "
            "the move"
        ),
        "offsets": (
            f"keep the connector's name: the first start reads from the offsets of group {group}{rename}, because the "
            "table stores none of this connector yet. The official sink moves that group before the rows are in the "
            f"table, and group {group}-coord shows how far the files that topic {control} names are committed. So "
            "pause the connector and wait for two commit intervals before you replace it, else rows that are not "
            "committed by then are lost"
        ),
    }
