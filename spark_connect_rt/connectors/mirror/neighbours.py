"""Compares a flow's other mirror connectors of a group: their names of remote topics must be the same. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_connect_rt.connectors.mirror.config import MIRROR_CHECKPOINT, TARGET_ALIAS
from spark_connect_rt.connectors.mirror.policy import INTERNAL_SEPARATOR, POLICY_CLASS, SEPARATOR, SOURCE_ALIAS

_CLASSES = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
_NAMING = (POLICY_CLASS, SEPARATOR, INTERNAL_SEPARATOR)


def other_names(config: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield (setting, sentence) where another connector of the same flow gives topics other names.

    Args:
        config: a connector's configuration; nothing is yielded for one that mirrors nothing.
        others: the other connectors of the group, by name.

    A reference (``${...}``) is not compared.
    """
    if not _mirrors(config):
        return
    for name, other in sorted(others.items()):
        if not _mirrors(other) or _flow(other) != _flow(config):
            continue
        for setting in _NAMING:
            ours, theirs = _value(config, setting), _value(other, setting)
            if ours != theirs and "${" not in ours + theirs:
                source, target = _flow(config)
                yield (
                    setting,
                    f"connector {name} has {theirs} for the same flow, {source}->{target}, so each does not find "
                    "the topics that the other creates, and offsets of groups are translated to topics that do "
                    "not exist",
                )


def _mirrors(config: Mapping[str, str]) -> bool:
    return config.get("connector.class", "").rpartition(".")[2] in _CLASSES


def _flow(config: Mapping[str, str]) -> tuple[str, str]:
    return config.get(SOURCE_ALIAS, ""), _value(config, TARGET_ALIAS)


def _value(config: Mapping[str, str], setting: str) -> str:
    text = config.get(setting, str(MIRROR_CHECKPOINT[setting].default)).strip()
    return text.lower() if setting == INTERNAL_SEPARATOR else text
