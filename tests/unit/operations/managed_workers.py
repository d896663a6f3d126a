"""A group of workers in memory, each with its REST API and its own parts of the management API; no sockets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fastapi import FastAPI

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.rest.peers import HttpGroupReads, WorkerAnswer
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from tests.unit.rest.test_over_herders import AppPeers, Workers

PATIENCE_MS = 10_000

Parts = Callable[[InProcessWorker, HttpGroupReads], Management]


class PatientReads(HttpGroupReads):
    """Reads that give a worker ten seconds to answer: a machine that does other work may keep it for one."""

    def ask(
        self,
        what: str,
        arguments: Mapping[str, Any] | None = None,
        limit_ms: int = PATIENCE_MS,
        only: Collection[str] | None = None,
    ) -> Sequence[WorkerAnswer]:
        return super().ask(what, arguments, max(limit_ms, PATIENCE_MS), only)


def only_reads(worker: InProcessWorker, reads: HttpGroupReads) -> Management:
    return Management(group_reads=reads)


class ManagedWorkers(Workers):
    """As Workers; ``parts`` makes what stands behind the management API of one of them."""

    def __init__(self, cluster: InProcessCluster, *names: str, parts: Parts = only_reads) -> None:
        self.cluster = cluster
        self.peers = AppPeers()
        self.reads: dict[str, HttpGroupReads] = {}
        self.managements: dict[str, Management] = {}
        for name in names:
            cluster.add_worker(name)
        cluster.until_stable()
        for name in names:
            worker = cluster.workers[name]
            reads = self.reads[name] = PatientReads(worker.herder.views, self.peers)
            management = self.managements[name] = parts(worker, reads)
            self.peers.apps[f"{name}:8083"] = create_app(
                worker.herder, self.peers, management=management, with_admin=True
            )
            # FastAPI makes its routes with the first request that passes them, and turns warnings off for that, in all
            # threads: not while threads meet in it.
            assert self.ask(name, "GET", "/no/such/path").status_code == 404

    def app(self, name: str) -> FastAPI:
        return self.peers.apps[f"{name}:8083"]

    def stop(self) -> None:
        for reads in self.reads.values():
            reads.stop()
