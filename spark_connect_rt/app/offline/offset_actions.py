"""Implements ``connectrt offsets alter|reset`` (KIP-875 from the command line).

While workers of the group run, one of them is asked over REST: only it knows that the connector's tasks are stopped.
While none runs, the same change is carried out here, with the worker's own code, plug-ins and properties.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from spark_connect_rt.app.deferred_runner import DeferredRunner
from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.app.offline.store_actions import change_rows, keep_backup, print_table, say
from spark_connect_rt.app.wiring import ClusterId, herder_dependencies, spark_runner
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import exactly_once_producer_properties, log_client_properties
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.config.worker_config import advertised
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.errors import BadRequestError, ConnectError, NotFoundError
from spark_connect_rt.group.peers import PeerAnswer, PeerClient
from spark_connect_rt.kafka.internal_topics import admin_of, internal_topics
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.operations.history.command_history import record_offsets
from spark_connect_rt.rest.json_bodies import read_offsets
from spark_connect_rt.rest.peers import HttpPeerClient
from spark_connect_rt.rest.tls import client_tls
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, source_offset_stores
from spark_connect_rt.runtime.herder.requests.offset_change import OffsetChange
from spark_connect_rt.runtime.herder.requests.zombie_fencing import FENCE_LIMIT_MS
from spark_connect_rt.runtime.herder.views import ConnectorViews
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.topics.offset_changes import OffsetNotes, OffsetPair, OffsetsChanged
from spark_connect_rt.topics.offset_store import OffsetStore

OWN = "no worker of the group runs, so this command writes"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """How a change is to be made."""

    apply: bool = False
    safety: Path | None = None  # where everything is kept before the topics are written here
    url: str | None = None  # of a worker to ask, instead of one that the group names


class OffsetTarget(Protocol):
    """Where a connector's offsets are changed."""

    where: str

    def offsets(self) -> list[OffsetPair]:
        """Return what the connector has now. Raises ConnectError."""

    def change(self, wanted: Sequence[OffsetPair] | None) -> str:
        """Alter these, None: reset all; return the answer's words. Raises ConnectError."""


class AskedWorker:
    """A running worker, over REST."""

    def __init__(self, url: str, name: str, peers: PeerClient) -> None:
        self.where = f"worker {url} writes"
        self._url = f"{url.rstrip('/')}/connectors/{quote(name, safe='')}/offsets"
        self._peers = peers

    def offsets(self) -> list[OffsetPair]:
        """Return the connector's offsets, as a worker answers them."""
        found = json.loads(self._ask("GET").body)["offsets"]
        return [(entry["partition"], entry["offset"]) for entry in found]

    def change(self, wanted: Sequence[OffsetPair] | None) -> str:
        """Have a worker alter the offsets, or reset them (None); return its message."""
        if wanted is None:
            return str(json.loads(self._ask("DELETE").body)["message"])
        listed = [{"partition": partition, "offset": offset} for partition, offset in wanted]
        return str(json.loads(self._ask("PATCH", json.dumps({"offsets": listed}).encode()).body)["message"])

    def _ask(self, method: str, body: bytes | None = None) -> PeerAnswer:
        headers = {"Content-Type": "application/json"} if body else {}
        answer = self._peers.request(method, self._url, body, headers)
        if answer.status != 200:
            raise ConnectError(f"{method} {self._url} was answered {answer.status}: {_message(answer.body)}")
        return answer


class OwnStores:
    """The topics and groups themselves; the config and offset stores of ``deps`` are started."""

    where = OWN

    def __init__(self, deps: HerderDependencies, offsets: SourceOffsetStores, name: str) -> None:
        self._deps = deps
        self._offsets = offsets
        self._name = name

    @property
    def notes(self) -> OffsetNotes:
        """Return the notes that record the changes made here."""
        return self._deps.offset_notes

    def offsets(self) -> list[OffsetPair]:
        """Return the connector's offsets, as this process's stores hold them."""
        return [
            (offset.partition, offset.offset)
            for offset in ConnectorViews(self._deps, self._offsets).offsets(self._name)
        ]

    def change(self, wanted: Sequence[OffsetPair] | None) -> str:
        """Alter the offsets, or reset them (None); return the message."""
        return OffsetChange(self._deps, self._offsets, self._name, self._fence).carry_out(wanted)

    def _fence(self, name: str) -> None:
        """Fence what a worker that was killed may have left; the next start of the connector records its round."""
        snapshot, worker = self._deps.config_store.snapshot(), self._deps.settings.worker
        config, tasks = snapshot.connector_config(name) or NO_SETTINGS, snapshot.task_count_record(name) or 0
        producers = [
            exactly_once_producer_properties(worker, config.written(), name, number) for number in range(tasks)
        ]
        assert self._deps.transactions is not None
        self._deps.transactions.fence([self._deps.resolve(producer) for producer in producers], FENCE_LIMIT_MS)


class NoTables:
    """Refuses every read of a table, because only Spark can read it (port TableMemory)."""

    def held(self, connector: str, config: Mapping[str, str]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Raise BadRequestError: only a worker's Spark can read the table."""
        raise BadRequestError(
            f"{connector} writes a table that stores its last batch. Start a worker, then repeat the command"
        )

    def forget(self, connector: str, config: Mapping[str, str]) -> None:
        """Refuse; never reached, since ``held`` is asked first."""
        self.held(connector, config)


def alter(settings: Mapping[str, str], name: str, source: Path, options: ChangeOptions) -> int:
    """Write the offsets that a file lists: the body of ``PATCH /connectors/NAME/offsets``, as GET answers it."""
    try:
        body = source.read_bytes()
    except OSError as error:
        raise BadRequestError(f"{source} cannot be read: {error.strerror}") from error
    return _modify(settings, name, read_offsets(body), options)


def reset(settings: Mapping[str, str], name: str, options: ChangeOptions) -> int:
    """Forget all offsets of a connector."""
    return _modify(settings, name, None, options)


def _modify(settings: Mapping[str, str], name: str, wanted: Sequence[OffsetPair] | None, options: ChangeOptions) -> int:
    with InternalTopics(settings) as topics, _place(topics, name, options.url) as place:
        print_table(("partition", "now", "then"), change_rows(place.offsets(), wanted))
        if not options.apply:
            say(f"nothing was written. Use --apply to write ({place.where})")
            return 0
        if isinstance(place, OwnStores):
            if options.safety is None:
                raise BadRequestError(f"{OWN}, but only with a backup. Name a new file with --backup")
            keep_backup(topics, options.safety)
            if topics.group_runs():
                raise BadRequestError(
                    "a worker of the group started in the meantime. Nothing was written; repeat the command"
                )
        made: list[OffsetsChanged] = []
        if isinstance(place, OwnStores):
            place.notes.listen(made.append)
        say(place.change(wanted))
        record_offsets(topics.config, made, say)
    return 0


@contextmanager
def _place(topics: InternalTopics, name: str, url: str | None) -> Iterator[OffsetTarget]:
    urls = [url] if url else topics.worker_urls()
    if not urls:
        with _own_stores(topics.config, name) as own:
            yield own
        return
    peers = HttpPeerClient(lambda: client_tls(topics.config.resolved))
    try:
        yield AskedWorker(urls[0], name, peers)
    finally:
        peers.close()


@contextmanager
def _own_stores(config: WorkerConfig, name: str) -> Iterator[OwnStores]:
    deps = _own_dependencies(config)
    offsets = source_offset_stores(deps)
    try:
        deps.config_store.start(lambda _: None)
        if not deps.config_store.snapshot().contains(name):
            raise NotFoundError(f"Connector {name} not found")
        deps.offset_store.start()
        yield OwnStores(deps, offsets, name)
    finally:
        offsets.stop()
        deps.offset_store.stop()
        deps.config_store.stop()


def _own_dependencies(config: WorkerConfig) -> HerderDependencies:
    """Return what a worker with this file would have; it joins no group, leaves no snapshot and has no Spark."""
    address = advertised(config.rest, socket.getfqdn())
    admin = admin_of(config)
    runner = DeferredRunner(lambda: spark_runner(config))
    deps = herder_dependencies(config, address, admin, runner, ClusterId())
    clients = log_client_properties(config, "offsets")
    log = KafkaCompactedLog(internal_topics(config)["offsets"], admin, clients, load=LatestLoad())
    return replace(deps, offset_store=OffsetStore(log), table_memory=NoTables())


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", errors="replace")[:500]
