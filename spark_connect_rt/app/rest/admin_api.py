"""``/admin``: state and actions of one worker (ours, but for the loggers); served where ``admin.listeners`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.operations.checks import routes as checks
from spark_connect_rt.operations.checks.model import Checks
from spark_connect_rt.operations.dead_letters import routes as dead_letters
from spark_connect_rt.operations.dead_letters.model import DeadLetterDesk, DeadLetterReplays
from spark_connect_rt.operations.events import routes as events
from spark_connect_rt.operations.events.model import EventReads
from spark_connect_rt.operations.history import routes as history
from spark_connect_rt.operations.logs import routes as logs
from spark_connect_rt.operations.logs.model import LogReads
from spark_connect_rt.operations.overview import routes as overview
from spark_connect_rt.operations.overview.model import Overview
from spark_connect_rt.operations.plugin_install import routes as plugin_installs
from spark_connect_rt.operations.plugin_install.routes import InstallRights, ReadPlugins
from spark_connect_rt.operations.preview import routes as previews
from spark_connect_rt.operations.preview.model import Previews
from spark_connect_rt.rest import connector_plugins as config_forms
from spark_connect_rt.rest import loggers
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.rest.event_streams import EventStreams
from spark_connect_rt.rest.peers import GroupReads
from spark_connect_rt.rest.requests import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import Operation, WorkerEvents

# Puts the resources of the management API together.
#
# Owns ``Management``, the parts behind them. A part that is None is not served by this worker: its paths answer 404.


@dataclass(frozen=True, slots=True)
class Management:
    """The parts that the management API asks, each by its port."""

    group_reads: GroupReads | None = None  # served to other workers, without a separate path
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


def router(
    context: RestContext,
    plugins: ReadPlugins | None,
    installs: InstallRights | None = None,
    management: Management = NOTHING,
) -> APIRouter:
    """Return the routes of ``/admin``; ``plugins`` None: none are reported; ``installs`` None: none are installed."""
    routes, herder = APIRouter(tags=["worker"]), context.herder

    @routes.get("/admin/story")
    async def events() -> Response:
        """Return the last things the herder did or waited for, and why."""
        return JsonResponse(WorkerEvents(herder.views.events()))

    @routes.get("/admin/progress")
    async def progress() -> Response:
        """Return the counters of this worker's tasks."""
        return JsonResponse(herder.views.progress())

    @routes.get("/admin/metrics", include_in_schema=False)
    async def metrics() -> Response:
        """Return Connect's metrics of this worker, for Prometheus."""
        from spark_connect_rt.rest.metrics import CONTENT_TYPE, metrics_text

        return Response(metrics_text(herder.views.metrics()), media_type=CONTENT_TYPE)

    plugin_installs.add_routes(routes, plugins, installs)
    config_forms.add_routes(routes, context)
    loggers.add_routes(routes, context)
    add_routes(routes, context, management)
    return routes


# The operations of all resources of the management API, for /openapi.json.


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    **dead_letters.OPERATIONS,
    **events.OPERATIONS,
    **logs.OPERATIONS,
    **overview.OPERATIONS,
    **history.OPERATIONS,
    **previews.OPERATIONS,
    **checks.OPERATIONS,
}
