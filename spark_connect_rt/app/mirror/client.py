"""What ``connectrt mirror client`` does: KIP-382's MirrorClient as a command."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.app.mirror.mirror_client import MirroredTopics, checkpoints
from spark_connect_rt.app.mirror.mirror_cluster import MirroredCluster
from spark_connect_rt.app.mirror.mirror_maker import maker_config
from spark_connect_rt.app.offline.store_actions import print_table
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.connectors.mirror.config import CLIENT_NAMES
from spark_connect_rt.connectors.mirror.policy import SOURCE_ALIAS, replication_policy
from spark_connect_rt.errors import BadConfigError


def cluster_settings(raw: Mapping[str, str], alias: str | None, bootstrap: str | None) -> dict[str, str]:
    """Return the client settings of one cluster: of ``alias`` in a MirrorMaker's file, else of ``bootstrap`` alone.

    Raises BadConfigError: neither is said.
    """
    if bootstrap:
        return {**raw, "bootstrap.servers": bootstrap}
    if not alias:
        raise BadConfigError(
            {"--cluster": ["no cluster given. Use --cluster with one of the file, or --bootstrap host:port"]}
        )
    config = maker_config(raw)
    if alias not in config.clusters:
        raise BadConfigError({"--cluster": [f"{alias} is not one of {', '.join(config.clusters)}"]})
    return config.client_properties(alias)


def client_kind(settings: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the properties of an ``admin`` or ``consumer`` of a cluster with these settings."""
    shared = {name: value for name, value in settings.items() if name in CLIENT_NAMES}
    return {**shared, **prefixed(settings, f"{kind}.")}


def show_cluster(settings: Mapping[str, str], source: str | None, group: str | None, as_json: bool) -> int:
    """Print what the cluster's topics tell; with ``source`` and ``group`` the group's offsets in this cluster too."""
    if group and not source:
        raise BadConfigError({"--source": ["whose group it is"]})
    cluster = MirroredCluster(client_kind(settings, "admin"), client_kind(settings, "consumer"))
    policy = replication_policy({SOURCE_ALIAS: source, **settings} if source else settings)
    topics = MirroredTopics(policy, frozenset(cluster.partition_counts()))
    upstream = sorted(topics.upstream_clusters())
    report: dict[str, Any] = {
        "upstream_clusters": {alias: topics.replication_hops(alias) for alias in upstream},
        "heartbeat_topics": sorted(topics.heartbeat_topics()),
        "checkpoint_topics": sorted(topics.checkpoint_topics()),
        "remote_topics": sorted(topics.remote_topics(source)),
    }
    if group and source:
        records = cluster.records(policy.checkpoints_topic(source))
        found = checkpoints((record.key, record.value) for record in records).get(group, {})
        report["remote_consumer_offsets"] = {
            str(partition): found[partition].downstream_offset for partition in sorted(found)
        }
    if as_json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        print_table(("what", "name", "hops or offset"), _rows(report))
    return 0


def _rows(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for what, found in report.items():
        for name in found:
            rows.append((what.replace("_", " "), name, str(found[name]) if isinstance(found, dict) else ""))
    return rows
