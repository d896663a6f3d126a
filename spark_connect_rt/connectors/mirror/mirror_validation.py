"""What of a mirror connector's configuration no single setting shows to be wrong, in Java's words where it has some."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.connectors.mirror.config import BASE, EMIT_CHECKPOINTS, EMIT_OFFSET_SYNCS
from spark_connect_rt.connectors.mirror.filters import group_filter, property_filter, topic_filter
from spark_connect_rt.connectors.mirror.flow import reads_committed
from spark_connect_rt.connectors.mirror.policy import replication_policy
from spark_connect_rt.errors import BadConfigError

WRITES_BESIDE = "MirrorMaker's connectors create topics and write offset syncs, checkpoints or heartbeats themselves"
FORWARDING_ADMIN = "forwarding.admin.class"
_NOT_COMMITTED = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
    "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions will be "
    "replicated from the source cluster to the target cluster."
)


def base_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is wrong for all three: classes that are not there."""
    found: dict[str, list[str]] = {}
    for made in (replication_policy, topic_filter, group_filter, property_filter):
        try:
            made(config)
        except BadConfigError as error:
            found.update({name: list(why) for name, why in error.problems.items()})
    ours = BASE[FORWARDING_ADMIN].default
    if config.get(FORWARDING_ADMIN, ours) != ours:
        found[FORWARDING_ADMIN] = [f"Java classes cannot be used here. Only {ours} is available"]
    return found


def source_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is wrong for a MirrorSourceConnector."""
    found = base_problems(config)
    if config.get("exactly.once.support") == "required" and not reads_committed(config):
        found["exactly.once.support"] = [_NOT_COMMITTED]
    about_syncs = any(name.startswith(("offset-syncs-", "offset-syncs.topic.")) for name in config)
    if config.get(EMIT_OFFSET_SYNCS) == "false" and about_syncs:
        why = f"MirrorSourceConnector can't setup offset-syncs feature while {EMIT_OFFSET_SYNCS} set to false"
        found[EMIT_OFFSET_SYNCS] = [why]
    return found


def checkpoint_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is wrong for a MirrorCheckpointConnector; nothing while it is disabled."""
    found = base_problems(config)
    if config.get("enabled") == "false":
        return found
    if config.get(EMIT_CHECKPOINTS) == "false":
        found[EMIT_CHECKPOINTS] = [f"MirrorCheckpointConnector can't run with {EMIT_CHECKPOINTS} set to false"]
    if config.get(EMIT_OFFSET_SYNCS) == "false":
        found[EMIT_OFFSET_SYNCS] = ["MirrorCheckpointConnector can't run without offset syncs"]
    return found
