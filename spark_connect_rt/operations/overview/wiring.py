"""The overview of the group, put together for one worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.operations.history.settings import DeclaredByPlugins
from spark_connect_rt.operations.overview.group_overview import GroupOverview, GroupRows, Hide
from spark_connect_rt.operations.overview.task_timeline import TaskCourses
from spark_connect_rt.operations.overview.worker_shares import WorkerShares
from spark_connect_rt.rest.peers import GroupReads
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.topics.config_diff import DeclaredSettings, hidden_settings, shown

ASK_AGAIN_S = 60.0  # for a plug-in that did not declare everything
DECLARED_LIMIT_S = 3.0

Declared = Callable[[Mapping[str, str]], DeclaredSettings]


class ShownConfigs:
    """Returns configurations as they may be shown. Secrets are hidden, and so are settings that no plug-in declares.

    Plug-ins are asked what they declare; one that hangs or is not here is not asked again for a minute.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._incomplete: dict[str, tuple[float, DeclaredSettings]] = {}  # class -> when to ask again, what it said

    def __call__(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return the configuration to be shown. May block for the time limit of asking plug-ins."""
        named = config.get("connector.class", "")
        again_s, found = self._incomplete.get(named, (0.0, DeclaredSettings()))
        if time.monotonic() >= again_s:
            found = self._declared(config)
            self._incomplete.pop(named, None)
            if not found.complete:
                self._incomplete[named] = (time.monotonic() + ASK_AGAIN_S, found)
        hidden = shown(config, hidden_settings(config, found))
        return {name: without_secrets(value) for name, value in hidden.items()}


def shown_configs(deps: HerderDependencies) -> ShownConfigs:
    """Return what hides the secrets of a worker's connectors."""
    return ShownConfigs(DeclaredByPlugins(deps, DECLARED_LIMIT_S))


class OverviewParts:
    """The parts behind ``/admin/overview`` of one worker: a service, and ``overview``."""

    def __init__(
        self, views: HerderViews, reads: GroupReads, clock: Clock, peers: PeerClient | None, hide: Hide
    ) -> None:
        self.courses = TaskCourses(views.task_paces, clock)
        self.rows = GroupRows(views, reads, clock)
        self.courses.beside = self.rows.look_beside
        WorkerShares(views, self.courses, clock).serve(reads)
        self.overview = GroupOverview(views, reads, self.rows, clock, hide, peers)

    def start(self) -> None:
        """Take down the tasks' courses from now on."""
        self.courses.rounds.start()

    def trouble(self) -> str:
        """Return why courses are not taken down; empty: they are."""
        return self.courses.rounds.trouble()

    def stop(self) -> None:
        """End every thread of it."""
        self.courses.rounds.stop()
        self.rows.stop()
