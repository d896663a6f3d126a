"""What each operation of the REST API takes and answers, as data: the source of /openapi.json.

Owns: parameters, bodies, every status that an operation may answer with. Paths are written as the routes have them; a
test holds the two against each other, and another one asks every operation for what is not declared here.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.app.rest import operations
from spark_connect_rt.base.loggers import LEVELS, LoggerLevel
from spark_connect_rt.plugins.plugin_installs import InstalledInfo, WantedPlugin
from spark_connect_rt.rest import shapes
from spark_connect_rt.rest.config_shapes import CheckedConfig, CheckedForm, ConfigKeyInfo
from spark_connect_rt.rest.operation import Operation, QueryParameter
from spark_connect_rt.runtime.values import (
    ConnectorInfo,
    ConnectorStateInfo,
    PluginInfo,
    TaskInfo,
    TaskState,
    WorkerProgress,
)

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
"""What any operation may be refused with."""

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
