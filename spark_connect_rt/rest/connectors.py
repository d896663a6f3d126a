"""``/connectors`` (Java ``ConnectorsResource``): reads from snapshots, writes through the herder's queue.

Owns: the routes. Reads wait for the start, never for the tick; writes wait for it at most the request limit, and are
forwarded when another worker must serve them.
"""

from __future__ import annotations

import contextlib

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.ports.herder import ConfigWritten
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.protocol.java_hash_order import hash_order_of_copy
from spark_connect_rt.rest import entities
from spark_connect_rt.rest.context import JsonResponse, RestContext, flag
from spark_connect_rt.rest.expanded_list import ExpandedList
from spark_connect_rt.rest.negotiation import json_body
from spark_connect_rt.rest.paths import ConnectorName, TaskNumber, connector_path, decoded
from spark_connect_rt.rest.request_body import read_config, read_create, read_patch
from spark_connect_rt.rest.request_offsets import read_offsets


def router(context: RestContext) -> APIRouter:
    """Return all routes of connectors and their tasks."""
    routes = APIRouter(tags=["connectors"], dependencies=[Depends(context.started)])
    _add_reads(routes, context)
    _add_offsets(routes, context)
    _add_configuration(routes, context)
    _add_steering(routes, context)
    _add_tasks(routes, context)
    return routes


def _add_reads(routes: APIRouter, context: RestContext) -> None:
    herder, expanded = context.herder, ExpandedList(context.herder)

    @routes.get("/connectors")
    async def connectors(request: Request) -> Response:
        """Return the names, or with ``expand=status`` / ``expand=info`` what is known of each."""
        names = herder.list_connectors()
        names = hash_order_of_copy(names, names)
        if "expand" not in request.query_params:
            return JsonResponse(names)
        body = expanded.body(names, request.query_params.getlist("expand"))
        return Response(body, media_type=JsonResponse.media_type)

    @routes.get("/connectors/{connector}")
    async def info(connector: ConnectorName) -> Response:
        """Return configuration and task ids."""
        found = await context.known(lambda: herder.connector_info(decoded(connector)))
        return JsonResponse(entities.info_entity(found))

    @routes.get("/connectors/{connector}/config")
    async def config(connector: ConnectorName) -> Response:
        """Return the configuration."""
        found = await context.known(lambda: herder.connector_config(decoded(connector)))
        return JsonResponse(entities.config_entity(found))

    @routes.get("/connectors/{connector}/status")
    async def status(connector: ConnectorName) -> Response:
        """Return the states of the connector and its tasks."""
        name = decoded(connector)
        found = await context.settled(lambda: herder.connector_status(name), lambda it: bool(it.connector.worker_id))
        return JsonResponse(entities.state_entity(found))

    @routes.get("/connectors/{connector}/topics")
    async def topics(connector: ConnectorName) -> Response:
        """Return the topics used since creation or reset."""
        name = decoded(connector)
        return JsonResponse(entities.topics_entity(name, herder.topics(name)))

    @routes.put("/connectors/{connector}/topics/reset")
    async def reset_topics(connector: ConnectorName) -> Response:
        """Forget the topics used so far."""
        herder.reset_topics(decoded(connector))
        return Response(status_code=202)


def _add_offsets(routes: APIRouter, context: RestContext) -> None:
    herder = context.herder

    @routes.get("/connectors/{connector}/offsets")
    async def offsets(request: Request, connector: ConnectorName) -> Response:
        """Return where the connector is."""
        found = await context.completed(request, lambda: herder.offsets(decoded(connector)))
        return JsonResponse(entities.offsets_entity(found))

    @routes.patch("/connectors/{connector}/offsets")
    async def alter_offsets(request: Request, connector: ConnectorName) -> Response:
        """Write offsets of a stopped connector; an offset of null forgets its partition."""
        name, wanted = decoded(connector), read_offsets(await json_body(request))
        words = await context.completed(request, lambda: herder.alter_offsets(name, wanted))
        return JsonResponse({"message": words})

    @routes.delete("/connectors/{connector}/offsets")
    async def reset_offsets(request: Request, connector: ConnectorName) -> Response:
        """Forget all offsets of a stopped connector."""
        words = await context.completed(request, lambda: herder.reset_offsets(decoded(connector)))
        return JsonResponse({"message": words})


def _add_configuration(routes: APIRouter, context: RestContext) -> None:
    herder = context.herder

    @routes.post("/connectors", status_code=201)
    async def create(request: Request) -> Response:
        """Create a connector: ``{"name": ..., "config": {...}, "initial_state": ...}``."""
        wanted = read_create(await json_body(request))
        written = await context.completed(
            request, lambda: herder.create(wanted.name, wanted.config, wanted.initial_state)
        )
        return _written(request, written)

    @routes.put("/connectors/{connector}/config")
    async def put_config(request: Request, connector: ConnectorName) -> Response:
        """Create a connector or replace its configuration."""
        name = decoded(connector)
        wanted = read_config(name, await json_body(request))
        return _written(request, await context.completed(request, lambda: herder.put_config(name, wanted)))

    @routes.patch("/connectors/{connector}/config")
    async def patch_config(request: Request, connector: ConnectorName) -> Response:
        """Change some settings; a null value removes one."""
        name, patch = decoded(connector), read_patch(await json_body(request))
        return _written(request, await context.completed(request, lambda: herder.patch_config(name, patch)))

    @routes.delete("/connectors/{connector}", status_code=204)
    async def delete(request: Request, connector: ConnectorName) -> Response:
        """Delete a connector; its offsets stay."""
        await context.completed(request, lambda: herder.delete(decoded(connector)))
        return Response(status_code=204)


def _add_steering(routes: APIRouter, context: RestContext) -> None:
    herder = context.herder

    @routes.put("/connectors/{connector}/pause", status_code=202)
    async def pause(request: Request, connector: ConnectorName) -> Response:
        """Let the tasks idle."""
        await context.completed(request, lambda: herder.pause(decoded(connector)))
        return Response(status_code=202)

    @routes.put("/connectors/{connector}/resume", status_code=202)
    async def resume(request: Request, connector: ConnectorName) -> Response:
        """Go on after a pause or a stop."""
        await context.completed(request, lambda: herder.resume(decoded(connector)))
        return Response(status_code=202)

    @routes.put("/connectors/{connector}/stop", status_code=204)
    async def stop(request: Request, connector: ConnectorName) -> Response:
        """Drop the tasks, keep the configuration."""
        await context.completed(request, lambda: herder.stop_connector(decoded(connector)))
        return Response(status_code=204)

    @routes.post("/connectors/{connector}/restart")
    async def restart(request: Request, connector: ConnectorName) -> Response:
        """Restart the connector (204), or with ``includeTasks`` / ``onlyFailed`` what the plan names (202)."""
        include_tasks, only_failed = bool(flag(request, "includeTasks")), bool(flag(request, "onlyFailed"))
        plan = await context.completed(request, lambda: herder.restart(decoded(connector), include_tasks, only_failed))
        return Response(status_code=204) if plan is None else JsonResponse(entities.state_entity(plan), 202)


def _add_tasks(routes: APIRouter, context: RestContext) -> None:
    herder = context.herder

    async def tasks_written(connector: str) -> None:
        """Wait a moment for the task set of a connector that was just created or resumed."""
        with contextlib.suppress(NotFoundError):
            await context.settled(lambda: herder.connector_info(decoded(connector)), lambda it: bool(it.tasks))

    @routes.get("/connectors/{connector}/tasks")
    async def tasks(connector: ConnectorName) -> Response:
        """Return the tasks with their raw configurations."""
        found = await context.known(lambda: herder.task_infos(decoded(connector)))
        return JsonResponse(entities.task_infos_entity(found))

    @routes.get("/connectors/{connector}/tasks/{task}/status")
    async def task_status(connector: ConnectorName, task: TaskNumber) -> Response:
        """Return the state of one task."""
        await tasks_written(connector)
        found = await context.known(lambda: herder.task_status(ConnectorTaskId(decoded(connector), task)))
        return JsonResponse(entities.task_state_entity(task, found))

    @routes.post("/connectors/{connector}/tasks/{task}/restart", status_code=204)
    async def restart_task(request: Request, connector: ConnectorName, task: TaskNumber) -> Response:
        """Restart one task, on the worker that owns it."""
        await tasks_written(connector)
        await context.completed(request, lambda: herder.restart_task(ConnectorTaskId(decoded(connector), task)))
        return Response(status_code=204)


def _written(request: Request, written: ConfigWritten) -> Response:
    body = entities.info_entity(written.info, read_back=False)
    if not written.created:
        return JsonResponse(body, 200)
    origin = f"{request.url.scheme}://{request.url.netloc}"
    return JsonResponse(body, 201, headers={"Location": origin + connector_path(written.info.name)})
