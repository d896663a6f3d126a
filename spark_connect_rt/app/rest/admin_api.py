"""``/admin``: what this one worker does and has (ours, but for the loggers); served where ``admin.listeners`` says."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from spark_connect_rt.app.rest.routes import NOTHING, Management, add_routes
from spark_connect_rt.operations.plugin_install import routes as plugin_installs
from spark_connect_rt.operations.plugin_install.routes import InstallRights, ReadPlugins
from spark_connect_rt.rest import config_forms, loggers
from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import WorkerEvents


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
