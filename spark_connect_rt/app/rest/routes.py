"""Puts the resources of the management API together.

Owns ``Management``: what stands behind them. A part that is None is not served by this worker: its paths answer 404.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import APIRouter

from spark_connect_rt.engine.log_lines import LogReads
from spark_connect_rt.engine.previews.model import Previews
from spark_connect_rt.operations.checks import routes as checks
from spark_connect_rt.operations.checks.model import Checks
from spark_connect_rt.operations.dead_letters import routes as dead_letters
from spark_connect_rt.operations.dead_letters.model import DeadLetterDesk, DeadLetterReplays
from spark_connect_rt.operations.events import routes as events
from spark_connect_rt.operations.history import routes as history
from spark_connect_rt.operations.logs import routes as logs
from spark_connect_rt.operations.overview import routes as overview
from spark_connect_rt.operations.overview.model import Overview
from spark_connect_rt.operations.preview import routes as previews
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.rest.context import RestContext
from spark_connect_rt.rest.event_streams import EventStreams
from spark_connect_rt.rest.group_reads import GroupReads
from spark_connect_rt.runtime.group_events import EventReads


@dataclass(frozen=True, slots=True)
class Management:
    """What the management API asks (ports/management)."""

    group_reads: GroupReads | None = None  # served to other workers; it has no path of its own
    streams: EventStreams = field(default_factory=EventStreams)  # those of every part: they end with the worker
    events: EventReads | None = None
    logs: LogReads | None = None
    letters: DeadLetterDesk | None = None
    replays: DeadLetterReplays | None = None
    overview: Overview | None = None
    history: History | None = None
    previews: Previews | None = None
    checks: Checks | None = None


NOTHING = Management()


def add_routes(routes: APIRouter, context: RestContext, management: Management) -> None:
    """Add the routes of every part that is there."""
    events.add_routes(routes, management.events, management.streams)
    logs.add_routes(routes, management.logs, management.streams)
    overview.add_routes(routes, context, management.overview, management.streams)
    dead_letters.add_routes(routes, context, management.letters, management.replays)
    history.add_routes(routes, context, management.history)
    previews.add_routes(routes, context, management.previews)
    checks.add_routes(routes, context, management.checks)
