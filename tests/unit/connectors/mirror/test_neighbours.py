"""Connectors of one flow that name its topics differently are named to each other."""

from __future__ import annotations

from spark_connect_rt.connectors.mirror.neighbours import other_names

PACKAGE = "org.apache.kafka.connect.mirror"
IDENTITY = f"{PACKAGE}.IdentityReplicationPolicy"


def mirror(kind: str, **settings: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return {"connector.class": f"{PACKAGE}.Mirror{kind}Connector", "source.cluster.alias": "A", **given}


def test_another_policy_or_separator_of_the_same_flow_is_reported() -> None:
    others = {
        "other-flow": mirror("Source", source_cluster_alias="C", replication_policy_class=IDENTITY),
        "same": mirror("Source", replication_policy_class=f"{PACKAGE}.DefaultReplicationPolicy"),
        "source": mirror("Source", replication_policy_class=IDENTITY, replication_policy_separator="_"),
        "referring": mirror("Source", replication_policy_separator="${file:f:s}"),
        "sink": {"connector.class": "SqlSink"},
    }
    found = list(other_names(mirror("Checkpoint"), others))
    assert [setting for setting, _ in found] == ["replication.policy.class", "replication.policy.separator"]
    assert found[0][1].startswith(
        f"connector source has {IDENTITY} for the same flow, A->target, so each does not find"
    )
    assert not list(other_names({"connector.class": "SqlSink"}, others))
    assert not list(other_names(mirror("Checkpoint", target_cluster_alias="B"), others))
