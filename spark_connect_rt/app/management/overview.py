"""The overview of the group, put together for one worker."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_connect_rt.config.indirection import references
from spark_connect_rt.config.secret_settings import secrets_in
from spark_connect_rt.management.overview.group_overview import GroupOverview, Hide
from spark_connect_rt.management.overview.group_rows import GroupRows
from spark_connect_rt.management.overview.task_courses import TaskCourses
from spark_connect_rt.management.overview.worker_shares import WorkerShares
from spark_connect_rt.ports.clock import Clock
from spark_connect_rt.ports.herder import HerderViews
from spark_connect_rt.ports.hidden_values import HIDDEN, without_secrets
from spark_connect_rt.ports.management.group_reads import GroupReads
from spark_connect_rt.ports.peer_client import PeerClient
from spark_connect_rt.rest.json_values import as_json

_LIKE_A_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|(api|access|private|account|encryption|sas)[._-]?key",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_CARRIED = re.compile(r"://[^/@\s]*:[^/@\s]+@|(password|passwd|pwd|secret|token)\s*=\s*[^&;\s]", re.IGNORECASE)


def shown_config(config: Mapping[str, str]) -> Mapping[str, str]:
    """Return a connector's configuration with what is, holds or is named like a secret hidden."""
    return {name: HIDDEN if _is_hidden(name, value) else without_secrets(value) for name, value in config.items()}


def _is_hidden(name: str, value: str) -> bool:
    if references(value) and not _REFERENCE.sub("", value).strip():
        return False
    if not value:
        return False
    return bool(_LIKE_A_SECRET.search(name) or _CARRIED.search(value)) or any(True for _ in secrets_in([{name: value}]))


class OverviewParts:
    """What stands behind ``/admin/overview`` of one worker: a service of it, and ``overview``."""

    def __init__(
        self, views: HerderViews, reads: GroupReads, clock: Clock, peers: PeerClient | None, hide: Hide
    ) -> None:
        self.courses = TaskCourses(views.task_paces, clock)
        self.rows = GroupRows(views, reads, clock, as_json)
        self.courses.beside = self.rows.look_beside
        WorkerShares(views, self.courses, clock).serve(reads)
        self.overview = GroupOverview(views, reads, self.rows, clock, hide, peers)

    def start(self) -> None:
        """Take down the tasks' courses from now on."""
        self.courses.start()

    def stop(self) -> None:
        """End every thread of it."""
        self.courses.stop()
        self.rows.stop()
