"""The file of connect-mirror-maker.sh: its clusters and flows, and the settings of each flow's worker and connectors.

Owns which setting of the file goes where. Parses no connector setting, connects to nothing.
Source: Java ``MirrorMakerConfig``, ``MirrorClientConfig`` (4.1); KIP-382, KIP-710.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type, prefixed
from spark_connect_rt.config.connector_config import COMMON
from spark_connect_rt.config.override_policy import ALLOWED_URLS, endpoints_in
from spark_connect_rt.config.worker_settings import DISTRIBUTED
from spark_connect_rt.connectors.mirror.config import CLIENT_NAMES, MIRROR_CHECKPOINT, MIRROR_HEARTBEAT, MIRROR_SOURCE
from spark_connect_rt.connectors.mirror.filters import (
    GROUPS,
    GROUPS_EXCLUDE,
    PROPERTIES_EXCLUDE,
    TOPICS,
    TOPICS_EXCLUDE,
)
from spark_connect_rt.connectors.mirror.named_class import JAVA_PACKAGE
from spark_connect_rt.errors import BadConfigError

# Names that settings of MirrorMaker files had before Kafka 4, or never had but are written often. Pure.
#
# Java 4 ignores them: topics that a user has excluded are copied. Here such a file is refused.
# Source: Java ``DefaultTopicFilter``, ``DefaultGroupFilter``, ``DefaultConfigPropertyFilter`` of Kafka 3 (KIP-629).


NEW_NAMES = {
    "topic.blacklist": TOPICS_EXCLUDE,
    "topics.blacklist": TOPICS_EXCLUDE,
    "topic.exclude": TOPICS_EXCLUDE,
    "topic.whitelist": TOPICS,
    "topics.whitelist": TOPICS,
    "topics.include": TOPICS,
    "group.blacklist": GROUPS_EXCLUDE,
    "groups.blacklist": GROUPS_EXCLUDE,
    "group.exclude": GROUPS_EXCLUDE,
    "groups.whitelist": GROUPS,
    "groups.include": GROUPS,
    "config.properties.blacklist": PROPERTIES_EXCLUDE,
    "sync.topics.configs.enabled": "sync.topic.configs.enabled",
    "sync.topics.configs.interval.seconds": "sync.topic.configs.interval.seconds",
    "sync.topics.acls.enabled": "sync.topic.acls.enabled",
    "sync.topics.acls.interval.seconds": "sync.topic.acls.interval.seconds",
    "sync.groups.offsets.enabled": "sync.group.offsets.enabled",
    "refresh.topic.interval.seconds": "refresh.topics.interval.seconds",
    "refresh.group.interval.seconds": "refresh.groups.interval.seconds",
}


def old_name_problems(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the problems of the names of a file's settings, those below a flow (``A->B.``) included."""
    found: dict[str, list[str]] = {}
    for name in names:
        flow, arrow, rest = name.partition("->")
        target, _, setting = rest.partition(".") if arrow else ("", "", name)
        new = NEW_NAMES.get(setting)
        if new is not None:
            prefix = f"{flow}->{target}." if arrow else ""
            found[name] = [
                f"this setting has no effect, because its name is {prefix}{new} since Kafka 4. Rename it or remove it"
            ]
    return found


INTERNAL_REST = "dedicated.mode.enable.internal.rest"
EMIT_HEARTBEATS = "emit.heartbeats.enabled"
MAKER = ConfigDef(
    [
        ConfigKey(
            "clusters",
            Type.LIST,
            REQUIRED,
            Importance.HIGH,
            "Aliases of the clusters. Settings A.* are the client settings of cluster A.",
        ),
        ConfigKey(
            INTERNAL_REST,
            Type.BOOLEAN,
            False,
            Importance.HIGH,
            "Whether processes with this file pass task configurations to each other. More than one process, and "
            "exactly-once, need it. They listen on listeners.",
        ),
        ConfigKey(
            "config.providers",
            Type.LIST,
            "",
            Importance.LOW,
            "Aliases of the config providers for ${alias:path:key}. Configure each with config.providers.<alias>.",
        ),
    ]
)
CONNECTORS = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
"""The connectors of every flow, by the names of their classes; those are the connectors' names, too."""
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONNECTOR_SETTINGS = frozenset((COMMON + MIRROR_SOURCE + MIRROR_CHECKPOINT + MIRROR_HEARTBEAT).names())
_CLIENTS = ("producer", "consumer", "admin")
_POLICY_PREFIX = "replication.policy"
# Settings without a cluster's prefix that a flow's worker takes. Its other worker settings need the cluster's prefix
# (B.offset.flush.interval.ms).
_WORKER_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    _POLICY_PREFIX,
)
_OWN_PREFIXES = ("spark.", "connectrt.", "plugin.path")  # ours, not Java's: of the one process that runs all flows

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Settings -> the same with ``${provider:path:key}`` looked up."""


@dataclass(frozen=True, slots=True, order=True)
class SourceAndTarget:
    """A flow from one cluster to another, by their aliases."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class MirrorMakerConfig:
    """One file. Raises BadConfigError when it is made, naming every bad setting."""

    def __init__(self, raw: Mapping[str, str], resolve: Resolve = lambda settings: settings) -> None:
        """Take the file's settings, and its config providers."""
        if problems := old_name_problems(raw):
            raise BadConfigError(problems)
        values = MAKER.parse(raw)
        self.raw = dict(raw)
        self.clusters: tuple[str, ...] = tuple(dict.fromkeys(values["clusters"]))
        self.internal_rest: bool = values[INTERNAL_REST]
        self._resolve = resolve

    def flows(self, targets: Collection[str] = ()) -> list[SourceAndTarget]:
        """Return the flows that have a worker: those that replicate or emit heartbeats; to ``targets``, if any.

        Raises BadConfigError: there is none, or a target that the file does not know.
        """
        if unknown := sorted(set(targets) - set(self.clusters)):
            raise BadConfigError({"clusters": [f"{name} (--clusters) is not one of the clusters" for name in unknown]})
        pairs = [
            SourceAndTarget(source, target) for source in self.clusters for target in self.clusters if source != target
        ]
        found = [pair for pair in pairs if self._has_worker(pair) and (not targets or pair.target in targets)]
        if not found:
            raise BadConfigError({"clusters": ["no flow is enabled. Set A->B.enabled=true for two of the clusters"]})
        if silent := {
            name for pair in found for name in (pair.source, pair.target) if not self.bootstrap_servers(name)
        }:
            raise BadConfigError({f"{name}.bootstrap.servers": ["must be set"] for name in sorted(silent)})
        return found

    def replicating(self, targets: Collection[str] = ()) -> list[SourceAndTarget]:
        """Return the flows that copy topics. Raises as ``flows``."""
        return [flow for flow in self.flows(targets) if self.is_enabled(flow)]

    def is_enabled(self, flow: SourceAndTarget) -> bool:
        """Return whether the flow replicates; otherwise it only emits heartbeats, for the flow back."""
        return _is_true(self.raw.get(f"{flow}.enabled"))

    def bootstrap_servers(self, cluster: str) -> str:
        """Return where a cluster is; empty: the file does not name it."""
        return self.cluster_properties(cluster).get("bootstrap.servers", "")

    def cluster_properties(self, cluster: str) -> dict[str, str]:
        """Return a cluster's settings, references unresolved.

        Connection settings of the cluster apply to its producers, consumers and admins unless they have their own.
        Settings without a prefix replace those that the cluster lacks.
        """
        own: dict[str, str] = prefixed(self.raw, f"{cluster}.")
        for given in (dict(own), self.raw):
            for name in sorted(CLIENT_NAMES & given.keys()):
                for client in _CLIENTS:
                    own.setdefault(f"{client}.{name}", given[name])
                own.setdefault(name, given[name])
        return own

    def client_properties(self, cluster: str) -> dict[str, str]:
        """Return everything a client of a cluster may want to know, references resolved (Java ``clientConfig``)."""
        return dict(self._resolve({**self.raw, **self.cluster_properties(cluster)}))

    def worker_config(self, flow: SourceAndTarget) -> dict[str, str]:
        """Return the properties of the flow's worker, a member of a group at the target cluster."""
        given = self.cluster_properties(flow.target) | self._below(_WORKER_PREFIXES)
        own = self._below(_OWN_PREFIXES)
        # The worker looks up references in its connectors' settings, with the providers, but not in its own.
        resolved = {**own, **self._resolve(given), **self._below("config.providers")}
        return {**_worker_defaults(flow), **resolved, ALLOWED_URLS: self._token_endpoints(own.get(ALLOWED_URLS, ""))}

    def worker_settings(self, flow: SourceAndTarget) -> dict[str, str]:
        """Return the settings of ``worker_config`` that a worker reads, without those for connectors.

        Java's worker has these settings, too, and ignores them. Ours would report them as misspelled.
        """
        config = self.worker_config(flow)
        ours = self.raw.keys() & _CONNECTOR_SETTINGS - set(DISTRIBUTED.names())
        return {
            name: value for name, value in config.items() if name not in ours and not name.startswith(_POLICY_PREFIX)
        }

    def _token_endpoints(self, allowed: str) -> str:
        """Return where connectors may fetch tokens: all that is in the file, whichever cluster's, is the operator's."""
        return ",".join([allowed, *self._resolve(endpoints_in(self.raw)).values()]).strip(",")

    def connector_config(self, flow: SourceAndTarget, connector: str) -> dict[str, str]:
        """Return a connector's configuration in this flow, references unresolved; ``connector`` is of CONNECTORS."""
        chosen = {name: value for name, value in self.raw.items() if name in _CONNECTOR_SETTINGS}
        chosen |= self._below("config.providers") | self._below(_POLICY_PREFIX)
        for side, cluster in (("source", flow.source), ("target", flow.target)):
            for name, value in self.cluster_properties(cluster).items():
                prefix = side if name.startswith(_CLIENTS) else f"{side}.cluster"
                chosen[f"{prefix}.{name}"] = value
        defaults = {
            "name": connector,
            "connector.class": f"{JAVA_PACKAGE}.{connector}",
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
            "enabled": "false",
        }
        return {**defaults, **chosen, **prefixed(self.raw, f"{flow}.")}

    def connector_settings(self, flow: SourceAndTarget, connector: str) -> dict[str, str]:
        """Return the same with references resolved, as the connector itself sees it."""
        return dict(self._resolve(self.connector_config(flow, connector)))

    def _has_worker(self, flow: SourceAndTarget) -> bool:
        emits = self.raw.get(f"{flow}.{EMIT_HEARTBEATS}", self.raw.get(EMIT_HEARTBEATS, "true"))
        return self.is_enabled(flow) or _is_true(emits)

    def _below(self, prefix: str | tuple[str, ...]) -> dict[str, str]:
        """Return the settings that start with ``prefix``, names whole."""
        return {name: value for name, value in self.raw.items() if name.startswith(prefix)}


def _worker_defaults(flow: SourceAndTarget) -> dict[str, str]:
    return {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
        "status.storage.topic": f"mm2-status.{flow.source}.internal",
        "config.storage.topic": f"mm2-configs.{flow.source}.internal",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
    }


def _is_true(text: str | None) -> bool:
    return (text or "").lower() == "true"
