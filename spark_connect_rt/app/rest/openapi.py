"""The API's own description, ``GET /openapi.json``: made from the routes and openapi_operations when first asked for.

Owns: putting the two together. Nothing here has a say in what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import make_dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, get_type_hints

from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spark_connect_rt.app.rest import admin_api as operations
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import JsonShape
from spark_connect_rt.base.loggers import LEVELS, LoggerLevel
from spark_connect_rt.base.optional_package import package_folder
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.plugins.interfaces import InstalledInfo, WantedPlugin
from spark_connect_rt.rest import shapes
from spark_connect_rt.rest.connector_plugins import CheckedConfig, CheckedForm, ConfigKeyInfo
from spark_connect_rt.rest.shapes import Error, Operation, QueryParameter, Shape
from spark_connect_rt.runtime.values import (
    ConnectorInfo,
    ConnectorStateInfo,
    PluginInfo,
    TaskInfo,
    TaskState,
    WorkerProgress,
)

TITLE = "Kafka Connect REST API"
_ABOUT = (
    "Kafka Connect's REST API as this worker serves it. Percent-encode names in paths (a slash is %2F). The "
    "fields code, hint and problems of an error are additions to Kafka Connect's two fields."
)
_LOCATION = {"Location": {"description": "Path of the new connector.", "schema": {"type": "string"}}}


def describe(app: FastAPI, version: str) -> None:
    """Make ``app.openapi`` describe the routes as they are, in place of what FastAPI guesses."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(_document(app, version))
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI, version: str) -> dict[str, Any]:
    from fastapi.openapi.utils import get_openapi

    document = get_openapi(title=TITLE, version=version, description=_ABOUT, routes=app.routes)
    known = {(method, _pattern(path)): operation for (method, path), operation in OPERATIONS.items()}
    shown = {
        (method, path): known[method.upper(), _pattern(path)]
        for path, methods in document.get("paths", {}).items()
        for method in methods
    }
    schemas = Schemas(shown.values())
    for (method, path), operation in shown.items():
        methods = document["paths"][path]
        methods[method] = _described(methods[method], operation, schemas)
    document["components"] = {"schemas": schemas.components}
    return document


def _pattern(path: str) -> str:
    """Return a path without the names of its parameters."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def _described(guessed: Mapping[str, Any], operation: Operation, schemas: Schemas) -> dict[str, Any]:

    refusals = {**ALWAYS, **operation.refusals}
    if operation.body is not None:
        refusals[500] = f"{UNREADABLE} Or: {refusals[500]}"
    responses = {
        str(status): _refusal(why, schemas) for status, why in refusals.items() if status not in operation.answers
    }
    responses |= {str(status): _answer(status, shape, schemas) for status, shape in operation.answers.items()}
    parameters = [parameter for parameter in guessed.get("parameters", ()) if parameter["in"] == "path"]
    parameters += [_parameter(parameter) for parameter in operation.parameters]
    own = {parameter["name"] for parameter in parameters}
    parameters += [parameter for parameter in guessed.get("parameters", ()) if parameter["name"] not in own]
    described = {
        "tags": guessed.get("tags", []),
        "summary": guessed.get("description", "").partition("\n")[0],
        "operationId": operation.id,
        "parameters": parameters,
        "responses": dict(sorted(responses.items())),
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": schemas.content_of_request(operation.body)}
    return described


def _answer(status: int, shape: Shape | None, schemas: Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if shape is not None:
        answer["content"] = schemas.content(shape)
    if status == HTTPStatus.CREATED:
        answer["headers"] = _LOCATION
    return answer


def _refusal(why: str, schemas: Schemas) -> dict[str, Any]:
    return {"description": why, "content": schemas.content(Error)}


def _parameter(parameter: QueryParameter) -> dict[str, Any]:
    schema = {"type": "array", "items": parameter.schema} if parameter.repeats else parameter.schema
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.description,
        "schema": schema,
    }


# Parameters and answers of each operation of the REST API, as data: the source of /openapi.json.
#
# Owns: parameters, bodies, every status that an operation may answer with. Paths are written as the routes have them; a
# test holds the two against each other, and another one asks every operation for what is not declared here.


UNREADABLE = "The body does not have the expected JSON shape (500, as in Java Connect; code CRT-1032)."
_LATE = "The request timed out, the responsible worker is unreachable, or an unexpected error occurred."
_NOT_FOUND = {404: "The connector or task does not exist."}
_INVALID = {400: "The configuration is invalid. Every problem is listed."}
_REBALANCING = {409: "A rebalance did not complete in time, or the group has no leader."}
_LEADER = _NOT_FOUND | _REBALANCING
_NOT_YOURS = {403: "This client may not install or remove plug-ins, or this source is not allowed."}
_TRACKING = {403: "Topic tracking or its reset is disabled."}

ALWAYS = {
    406: "The client does not accept JSON.",
    415: "The content type of the body is not JSON.",
    500: _LATE,
}
"""The refusals that any operation may answer with."""

_FLAG = {"type": "boolean", "default": False}
_FORWARD = QueryParameter(
    "forward", "Set by workers that forward a request: true on the first hop, false on the second.", {"type": "boolean"}
)
_EXPAND = QueryParameter(
    "expand", "Return each connector's status, its info, or both.", {"enum": ["status", "info"]}, repeats=True
)
_INCLUDE_TASKS = QueryParameter("includeTasks", "Also restart the tasks.", _FLAG)
_ONLY_FAILED = QueryParameter("onlyFailed", "Restart only failed connectors and tasks.", _FLAG)
_SCOPE = QueryParameter(
    "scope", "This worker, or every worker of the group.", {"enum": ["worker", "cluster"], "default": "worker"}
)
_EVERY_KIND = QueryParameter("connectorsOnly", "Return only connectors.", {"type": "boolean", "default": True})
_VERSION = QueryParameter("version", "Version of the plug-in. Default: the newest.", {"type": "string"})
_LEVEL_NAMES = ", ".join(LEVELS)

_CONNECTOR = "/connectors/{connector}"
_TASK = f"{_CONNECTOR}/tasks/{{task}}"

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/"): Operation("getWorkerVersion", {200: shapes.WorkerVersion}),
    ("GET", "/health"): Operation(
        "getHealth",
        {200: shapes.WorkerHealth, 503: shapes.WorkerHealth, 500: shapes.WorkerHealth},
    ),
    ("GET", "/health/live"): Operation("getLiveness", {200: shapes.WorkerHealth, 500: shapes.WorkerHealth}),
    ("GET", "/health/ready"): Operation("getReadiness", {200: shapes.WorkerHealth, 503: shapes.WorkerHealth}),
    ("GET", "/connectors"): Operation(
        "listConnectors", {200: list[str] | dict[str, shapes.ExpandedConnector]}, parameters=(_EXPAND,)
    ),
    ("POST", "/connectors"): Operation(
        "createConnector",
        {201: ConnectorInfo},
        _INVALID | {409: "The name is in use, a rebalance did not complete in time, or the group has no leader."},
        shapes.NewConnector,
        (_FORWARD,),
    ),
    ("GET", _CONNECTOR): Operation("getConnector", {200: ConnectorInfo}, _NOT_FOUND),
    ("DELETE", _CONNECTOR): Operation("deleteConnector", {204: None}, _LEADER, parameters=(_FORWARD,)),
    ("GET", f"{_CONNECTOR}/config"): Operation("getConnectorConfig", {200: dict[str, str]}, _NOT_FOUND),
    ("PUT", f"{_CONNECTOR}/config"): Operation(
        "putConnectorConfig",
        {200: ConnectorInfo, 201: ConnectorInfo},
        _INVALID | _REBALANCING | {404: "The name in the path is empty."},
        dict[str, shapes.Setting],
        (_FORWARD,),
    ),
    ("PATCH", f"{_CONNECTOR}/config"): Operation(
        "patchConnectorConfig", {200: ConnectorInfo}, _INVALID | _LEADER, dict[str, shapes.Setting | None], (_FORWARD,)
    ),
    ("GET", f"{_CONNECTOR}/status"): Operation("getConnectorStatus", {200: ConnectorStateInfo}, _NOT_FOUND),
    ("GET", f"{_CONNECTOR}/topics"): Operation("getConnectorTopics", {200: dict[str, shapes.Topics]}, _TRACKING),
    ("PUT", f"{_CONNECTOR}/topics/reset"): Operation("resetConnectorTopics", {202: None}, _TRACKING),
    ("GET", f"{_CONNECTOR}/offsets"): Operation("getConnectorOffsets", {200: shapes.ConnectorOffsets}, _LEADER),
    ("PATCH", f"{_CONNECTOR}/offsets"): Operation(
        "alterConnectorOffsets",
        {200: shapes.Message},
        {400: "The connector is not STOPPED, or an offset is invalid."} | _LEADER,
        shapes.WantedOffsets,
        (_FORWARD,),
    ),
    ("DELETE", f"{_CONNECTOR}/offsets"): Operation(
        "resetConnectorOffsets",
        {200: shapes.Message},
        {400: "The connector is not STOPPED."} | _LEADER,
        parameters=(_FORWARD,),
    ),
    ("PUT", f"{_CONNECTOR}/pause"): Operation("pauseConnector", {202: None}, _LEADER),
    ("PUT", f"{_CONNECTOR}/resume"): Operation("resumeConnector", {202: None}, _LEADER),
    ("PUT", f"{_CONNECTOR}/stop"): Operation("stopConnector", {204: None}, _LEADER, parameters=(_FORWARD,)),
    ("POST", f"{_CONNECTOR}/restart"): Operation(
        "restartConnector",
        {202: ConnectorStateInfo, 204: None},
        _LEADER,
        parameters=(_INCLUDE_TASKS, _ONLY_FAILED, _FORWARD),
    ),
    ("GET", f"{_CONNECTOR}/tasks"): Operation("listTasks", {200: list[TaskInfo]}, _NOT_FOUND),
    ("GET", f"{_TASK}/status"): Operation("getTaskStatus", {200: TaskState}, _NOT_FOUND),
    ("POST", f"{_TASK}/restart"): Operation("restartTask", {204: None}, _LEADER, parameters=(_FORWARD,)),
    ("GET", "/connector-plugins"): Operation("listPlugins", {200: list[PluginInfo]}, parameters=(_EVERY_KIND,)),
    ("GET", "/connector-plugins/{plugin}/config"): Operation(
        "getPluginConfig",
        {200: list[ConfigKeyInfo]},
        {400: "The version is invalid, or plug-ins of this kind have no settings.", 404: "The plug-in does not exist."},
        parameters=(_VERSION,),
    ),
    ("PUT", "/connector-plugins/{plugin}/config/validate"): Operation(
        "validateConfig",
        {200: CheckedConfig},
        {400: "The connector class is missing, unknown, or not the one in the path.", 404: "The path does not exist."},
        dict[str, shapes.Setting | None],
    ),
    ("PUT", "/admin/connector-plugins/{plugin}/config/validate"): Operation(
        "validateConfigForForm",
        {200: CheckedForm},
        {400: "The connector class is missing, unknown, or not the one in the path.", 404: "The path does not exist."},
        dict[str, shapes.Setting | None],
    ),
    ("GET", "/admin/loggers"): Operation("listLoggers", {200: dict[str, LoggerLevel]}),
    ("GET", "/admin/loggers/{logger}"): Operation(
        "getLogger", {200: LoggerLevel}, {404: "No level is set for this logger."}
    ),
    ("PUT", "/admin/loggers/{logger}"): Operation(
        "setLogger",
        {200: list[str], 204: None},
        {400: "The level is missing.", 404: f"The level is not one of {_LEVEL_NAMES}."},
        shapes.WantedLevel,
        (_SCOPE,),
    ),
    ("GET", "/admin/story"): Operation("getStory", {200: shapes.WorkerEvents}),
    ("GET", "/admin/progress"): Operation("getProgress", {200: WorkerProgress}),
    ("GET", "/admin/plugins"): Operation("getPluginReport", {200: shapes.PluginReport}),
    ("POST", "/admin/plugins"): Operation(
        "installPlugin",
        {201: InstalledInfo},
        {
            400: "The source is invalid, unreachable, contains no plug-in, is unsafe, or exceeds the size limit.",
            409: "The plug-in is already installed.",
        }
        | _NOT_YOURS,
        WantedPlugin,
    ),
    ("GET", "/admin/plugins/{plugin}"): Operation(
        "getInstalledVersions", {200: list[InstalledInfo]}, {404: "The plug-in is not installed."}
    ),
    ("DELETE", "/admin/plugins/{plugin}/{version}"): Operation(
        "removePlugin",
        {204: None},
        {404: "The plug-in is not installed.", 409: "A connector uses it."} | _NOT_YOURS,
    ),
    **operations.OPERATIONS,
}


# JSON Schema of the bodies, made by pydantic from the dataclasses that are served.
#
# Owns which parts of pydantic's schema are shown. Imported when the description is first asked for, so that a worker's
# start does not pay for it.


_REFERENCE = "#/components/schemas/{model}"
Mode = Literal["validation", "serialization"]


class Schemas:
    """The bodies that some operations name, and ``components`` that these refer to."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        wanted: dict[tuple[str, Mode], Shape] = {_answer_key(Error): Error}
        for operation in operations:
            wanted |= {_answer_key(shape): shape for shape in operation.answers.values() if shape is not None}
            if operation.body is not None:
                wanted[_request_key(operation.body)] = operation.body
        inputs = [(name, mode, TypeAdapter(shape)) for (name, mode), shape in wanted.items()]
        schemas, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REFERENCE)
        found = definitions["$defs"]
        if ConnectorTaskId.__name__ in found:
            found[ConnectorTaskId.__name__] = _task_id()
        self.components: dict[str, Any] = _without_noise(found)
        self._schemas = {key: _without_noise(schema) for key, schema in schemas.items()}

    def content(self, shape: Shape) -> dict[str, Any]:
        """Return the content of an answer."""
        return {"application/json": {"schema": self._schemas[_answer_key(shape)]}}

    def content_of_request(self, shape: Shape) -> dict[str, Any]:
        """Return the content of a request, whose fields with a default may be left out."""
        return {"application/json": {"schema": self._schemas[_request_key(shape)]}}


def _answer_key(shape: Shape) -> tuple[str, Mode]:
    return str(shape), "serialization"


def _request_key(shape: Shape) -> tuple[str, Mode]:
    return str(shape), "validation"


def _task_id() -> dict[str, Any]:
    """Return the schema of a task's id; for pydantic a named tuple is an array, here it is written as an object."""
    fields = list(get_type_hints(ConnectorTaskId).items())
    shape = make_dataclass(ConnectorTaskId.__name__, fields, bases=(JsonShape,), namespace={"__doc__": "A task's id."})
    return TypeAdapter(shape).json_schema()


def _without_noise(schema: Any) -> Any:
    """Drop titles that repeat a field's name, and defaults: of answers every field that has one is there."""
    if isinstance(schema, list):
        return [_without_noise(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_noise(value) for key, value in schema.items() if not _is_noise(key, value)}


def _is_noise(key: str, value: Any) -> bool:
    # A field of that name has a schema there, never a text, a number or nothing.
    if key == "default":
        return value == {} or not isinstance(value, dict)
    return key == "title" and isinstance(value, str)


# ``GET /docs``: the API's description to read and to try, from files of this machine.
#
# Owns: the page and its files. FastAPI's own page would load them from the internet, which workers seldom reach; the
# package fastapi-offline of the extra ``quickstart`` brings the same files (Swagger UI, Apache License 2.0).


_FILES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon.png": "image/png",
}
_CACHED = {"Cache-Control": "public, max-age=86400"}


def routes() -> list[Route]:
    """Return the page and its files. They are not JSON, so the API's rules for content types do not apply."""
    return [Route("/docs", _page, name="docs"), Route("/docs/{file}", _file, name="docs-file")]


def _static() -> Path:
    try:
        return package_folder("fastapi_offline", "quickstart", "the pages at /docs") / "static"
    except ConnectError as error:
        raise NotFoundError(str(error), code=error.code) from error


async def _page(request: Request) -> Response:
    _static()
    from fastapi.openapi.docs import get_swagger_ui_html

    root = str(request.scope.get("root_path", "")).rstrip("/")
    return get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title=TITLE,
        swagger_js_url=f"{root}/docs/swagger-ui-bundle.js",
        swagger_css_url=f"{root}/docs/swagger-ui.css",
        swagger_favicon_url=f"{root}/docs/favicon.png",
    )


async def _file(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _FILES:
        raise HTTPException(404)
    content = (_static() / name).read_bytes()
    return Response(content, media_type=_FILES[name], headers=_CACHED)
