"""A worker group's connectors for ``format("connectrt")``: a deployed one's configuration, anyone's stored offsets.

Asked at a worker (``connect.url``) or read from the internal topics, by the options as worker properties. Offsets are
read and written in the offset topic; a group that runs a connector of this name would write them, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from urllib.parse import quote

from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.engine.datasource.named_connector import OffsetBook
from spark_connect_rt.engine.datasource.read_options import SourceOffset
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.kafka.internal_topics import admin_of, internal_topics
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.rest.peers import HttpPeerClient
from spark_connect_rt.rest.tls import client_tls
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.store_check import fold_configs

LIMIT_MS = 60_000
_JSON = "org.apache.kafka.connect.json.JsonConverter"
DEFAULTS = {"key.converter": _JSON, "value.converter": _JSON}
"""Worker settings that nothing here depends on and a worker must have."""


class Deployed:
    """A group's connectors, asked at a worker or read from the topics. Implements DeployedConnectors."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = DEFAULTS | dict(settings)

    def config(self, name: str) -> Mapping[str, str]:
        """Return a connector's configuration, references unresolved. Raises NotFoundError, ConnectError."""
        url = self._settings.get("connect.url")
        if url:
            return self._asked(url, name)
        with InternalTopics(self._settings) as topics:
            configs, _ = fold_configs(topics.read("configs"))
        config = configs.connector_config(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found in topic {topics.specs['configs'].name}")
        return config.written()

    def offsets(self, name: str) -> OffsetBook:
        """Return the stored offsets of a connector, deployed or not. Raises ConnectError."""
        return _Book(self._settings, name)

    def _asked(self, url: str, name: str) -> Mapping[str, str]:
        with closing(HttpPeerClient(lambda: client_tls(self._settings))) as peers:
            answer = peers.request("GET", f"{url.rstrip('/')}/connectors/{quote(name, safe='')}/config", None)
        if answer.status == 404:
            raise NotFoundError(f"Connector {name} not found at {url}")
        if answer.status != 200:
            raise ConnectError(f"{url} answered {answer.status}: {answer.body[:300]!r}")
        config: dict[str, str] = json.loads(answer.body)
        return config


class _Book:
    def __init__(self, settings: Mapping[str, str], name: str) -> None:
        config = distributed_config(settings)
        self._name = name
        self._admin = admin_of(config)
        clients = log_client_properties(config, "offsets")
        log = KafkaCompactedLog(internal_topics(config)["offsets"], self._admin, clients, load=LatestLoad())
        self._store = OffsetStore(log)
        try:
            self._store.start()
        except BaseException:
            self._admin.close()
            raise

    def read(self) -> Sequence[SourceOffset]:
        """Return the stored (partition, offset) pairs of the connector."""
        self._store.flush(LIMIT_MS)
        return [
            (partition, offset)
            for partition, offset in self._store.connector_offsets(self._name)
            if partition is not None and offset is not None
        ]

    def write(self, offsets: Sequence[SourceOffset]) -> None:
        """Store these offsets and wait until they are durable."""
        self._store.put(self._name, list(offsets))
        self._store.flush(LIMIT_MS)

    def close(self) -> None:
        """Close the store and the admin client."""
        self._store.stop()
        self._admin.close()
