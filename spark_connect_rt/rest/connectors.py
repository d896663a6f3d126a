"""``/connectors`` (Java ``ConnectorsResource``): reads from snapshots, writes through the herder's queue.

Owns: the routes. Reads wait for the start, never for the tick; writes wait for it at most the request limit, and are
forwarded when another worker must serve them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.java_hash_order import NamesInHashOrder, in_java_hash_order
from spark_connect_rt.base.json_text import encode_finite_json
from spark_connect_rt.errors import NotFoundError, as_error
from spark_connect_rt.rest.config_versions import etag, expected_version
from spark_connect_rt.rest.json_bodies import read_offsets
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.rest.paths import ConnectorName, TaskNumber, connector_path, decoded
from spark_connect_rt.rest.requests import (
    JsonResponse,
    RestContext,
    flag,
    read_config,
    read_create,
    read_json,
    read_patch,
    with_initial_offsets,
)
from spark_connect_rt.rest.shapes import ConnectorOffsets, ExpandedConnector, Message, Topics
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.herder.herder_requests import (
    DeleteConnector,
    ModifyOffsets,
    PatchConfig,
    PutConfig,
    ReadOffsets,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorInfo, ConnectorOffset, TaskInfo
from spark_connect_rt.topics.config_records import TargetState


class SharedAnswers:
    """Answers that many clients ask for at the same time, by key. For one event loop.

    A request that arrives while an answer is being made waits for the next one: it must see what was written before it.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[bytes]] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="rest-lists")

    async def answer(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what ``make`` returns on a thread, or raise what it raises; begun after this was called."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.ensure_future(self._made(key, make))
        return await asyncio.shield(task)  # one client that hangs up takes nothing from the others

    async def _made(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        async with self._locks.setdefault(key, asyncio.Lock()):
            del self._next[key]
            try:
                return await asyncio.get_running_loop().run_in_executor(self._maker, make)
            except SystemExit as raised:  # a plug-in's, as its class is imported; the end of a task by it ends the loop
                raise as_error(raised) from raised


# Configurations and offsets in the order in which Java prints those that it read back: that of its HashMap.


def read_back(found: ConnectorInfo) -> ConnectorInfo:
    """Return a connector with its configuration in that order; the answer to a write keeps the writer's."""
    return replace(found, config=in_java_hash_order(found.config))


def read_back_task(found: TaskInfo) -> TaskInfo:
    """Return a task with its configuration in that order."""
    return TaskInfo(found.id, in_java_hash_order(found.config))


def read_back_offset(found: ConnectorOffset) -> ConnectorOffset:
    """Return partition and offset with their fields in that order."""
    return ConnectorOffset(_ordered(found.partition), _ordered(found.offset))


def _ordered(values: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if values is None else in_java_hash_order(values)


# ``GET /connectors?expand=...``: every connector's status and info in one body.
#
# Owns: the bytes made last for each connector, used again while nothing about it has changed. A list of 2,000
# connectors is asked for by every dashboard every few seconds, and hardly any of them has changed.


EXPANSIONS = ("status", "info")


def expansions(words: Collection[str]) -> tuple[str, ...]:
    """Return those of ``words`` that can be expanded, each once."""
    return tuple(expansion for expansion in EXPANSIONS if expansion in words)


class ExpandedList:
    """The list of one worker. Any thread: two at once may make the same bytes twice."""

    def __init__(self, views: HerderViews) -> None:
        self._views = views
        self._made: dict[tuple[str, ...], dict[str, tuple[object, bytes]]] = {}

    def body(self, names: Iterable[str], wanted: Collection[str]) -> bytes:
        """Return the JSON object name -> what ``wanted`` names, in this order of names; unknown words count nothing."""
        known = expansions(wanted)
        before = self._made.get(known, {})
        after: dict[str, tuple[object, bytes]] = {}
        for name in names:
            try:
                mark = self._views.connector_mark(name)  # first: a change in the meantime is noticed the next time
                kept = before.get(name)
                after[name] = kept if kept is not None and kept[0] == mark else (mark, self._member(name, known))
            except NotFoundError:
                continue  # deleted since the list was taken
        self._made[known] = after
        return b"{%b}" % b",".join(member for _, member in after.values())

    def _member(self, name: str, wanted: Collection[str]) -> bytes:
        found = ExpandedConnector(
            self._views.connector_status(name) if "status" in wanted else None,
            read_back(self._views.connector_info(name)) if "info" in wanted else None,
        )
        return encode_finite_json({name: as_json(found)})[1:-1]


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
    views, expanded = context.herder.views, ExpandedList(context.herder.views)
    order, shared = NamesInHashOrder(), SharedAnswers()

    @routes.get("/connectors")
    async def connectors(request: Request) -> Response:
        """Return the names, or with ``expand=status`` / ``expand=info`` what is known of each."""
        if "expand" not in request.query_params:
            return JsonResponse(order.of(views.list_connectors()))
        wanted = expansions(request.query_params.getlist("expand"))
        body = await shared.answer(wanted, lambda: expanded.body(order.of(views.list_connectors()), wanted))
        return Response(body, media_type=JsonResponse.media_type)

    @routes.get("/connectors/{connector}")
    async def info(connector: ConnectorName) -> Response:
        """Return configuration and task ids."""
        found = await context.known(lambda: views.connector_info(decoded(connector)))
        return JsonResponse(read_back(found))

    @routes.get("/connectors/{connector}/config")
    async def config(connector: ConnectorName) -> Response:
        """Return the connector's raw configuration."""
        name = decoded(connector)
        version = views.config_version(name)  # before the configuration: a write between the two is found out
        found = await context.known(lambda: views.connector_config(name))
        return JsonResponse(in_java_hash_order(found.written()), headers=etag(version))

    @routes.get("/connectors/{connector}/status")
    async def status(connector: ConnectorName) -> Response:
        """Return the states of the connector and its tasks."""
        name = decoded(connector)
        found = await context.settled(
            "status", lambda: views.connector_status(name), lambda it: bool(it.connector.worker_id)
        )
        return JsonResponse(found)

    @routes.get("/connectors/{connector}/topics")
    async def topics(connector: ConnectorName) -> Response:
        """Return the topics used since creation or reset."""
        name = decoded(connector)
        return JsonResponse({name: Topics(views.topics(name))})

    @routes.put("/connectors/{connector}/topics/reset")
    async def reset_topics(connector: ConnectorName) -> Response:
        """Forget the topics used so far."""
        await context.answered(ResetTopics(decoded(connector)))
        return Response(status_code=202)


def _add_offsets(routes: APIRouter, context: RestContext) -> None:
    @routes.get("/connectors/{connector}/offsets")
    async def offsets(request: Request, connector: ConnectorName) -> Response:
        """Return where the connector is."""
        found = await context.completed(request, ReadOffsets(decoded(connector)))
        return JsonResponse(ConnectorOffsets([read_back_offset(offset) for offset in found]))

    @routes.patch("/connectors/{connector}/offsets")
    async def alter_offsets(request: Request, connector: ConnectorName) -> Response:
        """Write offsets of a stopped connector; an offset of null forgets its partition."""
        name, wanted = decoded(connector), await read_json(request, read_offsets)
        words = await context.completed(request, ModifyOffsets(name, wanted))
        return JsonResponse(Message(words))

    @routes.delete("/connectors/{connector}/offsets")
    async def reset_offsets(request: Request, connector: ConnectorName) -> Response:
        """Forget all offsets of a stopped connector."""
        words = await context.completed(request, ModifyOffsets(decoded(connector), None))
        return JsonResponse(Message(words))


def _add_configuration(routes: APIRouter, context: RestContext) -> None:
    @routes.post("/connectors", status_code=201)
    async def create(request: Request) -> Response:
        """Create a connector: ``name``, ``config``, and if given ``initial_state`` and ``initial_offsets``."""
        wanted = await read_json(request, lambda body: with_initial_offsets(read_create(body), body))
        return _written(request, await context.completed(request, wanted))

    @routes.put("/connectors/{connector}/config")
    async def put_config(request: Request, connector: ConnectorName) -> Response:
        """Create a connector or replace its configuration."""
        name = decoded(connector)
        wanted = await read_json(request, lambda body: read_config(name, body))
        async with expected_version(context, request, name) as expected:
            return _written(request, await context.completed(request, PutConfig(name, wanted, expected)))

    @routes.patch("/connectors/{connector}/config")
    async def patch_config(request: Request, connector: ConnectorName) -> Response:
        """Change some settings; a null value removes one."""
        name, patch = decoded(connector), await read_json(request, read_patch)
        async with expected_version(context, request, name) as expected:
            return _written(request, await context.completed(request, PatchConfig(name, patch, expected)))

    @routes.delete("/connectors/{connector}", status_code=204)
    async def delete(request: Request, connector: ConnectorName) -> Response:
        """Delete a connector; its offsets stay."""
        await context.completed(request, DeleteConnector(decoded(connector)))
        return Response(status_code=204)


def _add_steering(routes: APIRouter, context: RestContext) -> None:
    @routes.put("/connectors/{connector}/pause", status_code=202)
    async def pause(request: Request, connector: ConnectorName) -> Response:
        """Pause the connector and its tasks; they stay assigned."""
        await context.completed(request, SetTargetState(decoded(connector), TargetState.PAUSED))
        return Response(status_code=202)

    @routes.put("/connectors/{connector}/resume", status_code=202)
    async def resume(request: Request, connector: ConnectorName) -> Response:
        """Resume a connector after a pause or a stop."""
        await context.completed(request, SetTargetState(decoded(connector), TargetState.STARTED))
        return Response(status_code=202)

    @routes.put("/connectors/{connector}/stop", status_code=204)
    async def stop(request: Request, connector: ConnectorName) -> Response:
        """Drop the tasks, keep the configuration."""
        await context.completed(request, SetTargetState(decoded(connector), TargetState.STOPPED))
        return Response(status_code=204)

    @routes.post("/connectors/{connector}/restart")
    async def restart(request: Request, connector: ConnectorName) -> Response:
        """Restart the connector (204), or with ``includeTasks`` / ``onlyFailed`` what the plan names (202)."""
        include_tasks, only_failed = bool(flag(request, "includeTasks")), bool(flag(request, "onlyFailed"))
        wanted = RestartConnector(decoded(connector), include_tasks, only_failed)
        plan = await context.completed(request, wanted)
        return Response(status_code=204) if plan is None else JsonResponse(plan, 202)


def _add_tasks(routes: APIRouter, context: RestContext) -> None:
    views = context.herder.views

    async def tasks_written(connector: str) -> None:
        """Wait a moment for the task set of a connector that was just created or resumed."""
        with contextlib.suppress(NotFoundError):
            await context.settled("tasks", lambda: views.connector_info(decoded(connector)), lambda it: bool(it.tasks))

    @routes.get("/connectors/{connector}/tasks")
    async def tasks(connector: ConnectorName) -> Response:
        """Return the tasks with their raw configurations."""
        found = await context.known(lambda: views.task_infos(decoded(connector)))
        return JsonResponse([read_back_task(task) for task in found])

    @routes.get("/connectors/{connector}/tasks/{task}/status")
    async def task_status(connector: ConnectorName, task: TaskNumber) -> Response:
        """Return the state of one task."""
        await tasks_written(connector)
        found = await context.known(lambda: views.task_status(ConnectorTaskId(decoded(connector), task)))
        return JsonResponse(found)

    @routes.post("/connectors/{connector}/tasks/{task}/restart", status_code=204)
    async def restart_task(request: Request, connector: ConnectorName, task: TaskNumber) -> Response:
        """Restart one task, on the worker that owns it."""
        await tasks_written(connector)
        await context.completed(request, RestartTask(ConnectorTaskId(decoded(connector), task)))
        return Response(status_code=204)


def _written(request: Request, written: ConfigWritten) -> Response:
    if not written.created:
        return JsonResponse(written.info, 200)
    origin = f"{request.url.scheme}://{request.url.netloc}"
    return JsonResponse(written.info, 201, headers={"Location": origin + connector_path(written.info.name)})
