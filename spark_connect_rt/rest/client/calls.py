"""Requests of Kafka Connect's own REST API as values: any worker, ours or Java's, serves them.

``Call[X]``: sent, it gives X. Names are percent-encoded here and nowhere else. Source: Java ``ConnectorsResource``,
``ConnectorPluginsResource``, ``LoggingResource``, ``RootResource``, ``HealthCheckResource``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from spark_connect_rt.rest.client.shapes import (
        ConnectorInfoJson,
        ConnectorStatusJson,
        LoggerLevelJson,
        OffsetJson,
        PluginJson,
        RootJson,
        TaskInfoJson,
    )


T_co = TypeVar("T_co", covariant=True)
Settings = Mapping[str, Any]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request. ``path`` is encoded; ``body`` None: none is sent; ``field``: the part of the answer that counts."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    field: str | None = None
    headers: tuple[tuple[str, str], ...] = dataclass_field(default=(), repr=False)

    @property
    def reads(self) -> bool:
        """Return whether asking twice does no harm."""
        return self.method == "GET"


def segment(name: str) -> str:
    """Return a name as one segment of a path; ``.`` and ``..`` would otherwise be taken for folders."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def query_of(**parameters: Any) -> tuple[tuple[str, str], ...]:
    """Return query parameters: None and empty ones left out, lists joined by commas, ``x_`` for a reserved ``x``."""
    pairs = []
    for name, value in parameters.items():
        if value is None or value in ("", (), []):
            continue
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, (list, tuple, set, frozenset)):
            text = ",".join(str(item) for item in value)
        else:
            text = str(value)
        pairs.append((name.rstrip("_"), text))
    return tuple(pairs)


def root() -> Call[RootJson]:
    """Ask for version, commit and Kafka cluster."""
    return Call("GET", "/")


def health() -> Call[Json]:
    """Ask whether the worker can be used (KIP-1017)."""
    return Call("GET", "/health")


def connector_names() -> Call[list[str]]:
    """Ask for the names of all connectors."""
    return Call("GET", "/connectors")


def connectors() -> Call[dict[str, Json]]:
    """Ask for name -> {"info": ConnectorInfoJson, "status": ConnectorStatusJson} of all connectors, in one request."""
    return Call("GET", "/connectors", (("expand", "status"), ("expand", "info")))


def connector(name: str) -> Call[ConnectorInfoJson]:
    """Ask for configuration, type and task ids."""
    return Call("GET", _of(name))


def config(name: str) -> Call[dict[str, str]]:
    """Ask for the configuration of a connector."""
    return Call("GET", _of(name, "/config"))


def status(name: str) -> Call[ConnectorStatusJson]:
    """Ask for the states of a connector and its tasks."""
    return Call("GET", _of(name, "/status"))


def tasks(name: str) -> Call[list[TaskInfoJson]]:
    """Ask for the tasks with their configurations."""
    return Call("GET", _of(name, "/tasks"))


def create(
    name: str,
    settings: Settings,
    initial_state: str | None = None,
    initial_offsets: Sequence[Mapping[str, Any]] | None = None,
) -> Call[ConnectorInfoJson]:
    """Create a connector (KIP-980, KIP-995). Refused with a ConflictError when it is there."""
    body: Json = {"name": name, "config": dict(settings)}
    if initial_state:
        body["initial_state"] = initial_state.upper()
    if initial_offsets is not None:
        body["initial_offsets"] = list(initial_offsets)
    return Call("POST", "/connectors", body=body)


def put_config(name: str, settings: Settings) -> Call[ConnectorInfoJson]:
    """Create a connector or replace its whole configuration."""
    return Call("PUT", _of(name, "/config"), body=dict(settings))


def patch_config(name: str, changes: Settings) -> Call[ConnectorInfoJson]:
    """Change some settings; None removes one (KIP-477)."""
    return Call("PATCH", _of(name, "/config"), body=dict(changes))


def delete(name: str) -> Call[None]:
    """Delete a connector; its offsets stay."""
    return Call("DELETE", _of(name))


def pause(name: str) -> Call[None]:
    """Ask for PAUSED: tasks stay where they are."""
    return Call("PUT", _of(name, "/pause"))


def resume(name: str) -> Call[None]:
    """Ask for the target state RUNNING of a connector."""
    return Call("PUT", _of(name, "/resume"))


def stop(name: str) -> Call[None]:
    """Ask for STOPPED: tasks are gone, offsets may be altered (KIP-875)."""
    return Call("PUT", _of(name, "/stop"))


def restart(name: str, include_tasks: bool = False, only_failed: bool = False) -> Call[ConnectorStatusJson | None]:
    """Restart a connector, and its tasks (KIP-745)."""
    return Call("POST", _of(name, "/restart"), query_of(includeTasks=include_tasks, onlyFailed=only_failed))


def restart_task(name: str, task: int) -> Call[None]:
    """Restart one task of a connector."""
    return Call("POST", _of(name, f"/tasks/{task}/restart"))


def topics(name: str) -> Call[dict[str, dict[str, list[str]]]]:
    """Ask for the topics it has used (KIP-558)."""
    return Call("GET", _of(name, "/topics"))


def reset_topics(name: str) -> Call[None]:
    """Forget the topics it has used."""
    return Call("PUT", _of(name, "/topics/reset"))


def offsets(name: str) -> Call[list[OffsetJson]]:
    """Ask for its committed offsets (KIP-875)."""
    return Call("GET", _of(name, "/offsets"), field="offsets")


def alter_offsets(name: str, wanted: Sequence[Mapping[str, Any]]) -> Call[Json]:
    """Write offsets of a stopped connector; an offset of None forgets its partition."""
    return Call("PATCH", _of(name, "/offsets"), body={"offsets": list(wanted)})


def reset_offsets(name: str) -> Call[Json]:
    """Forget all offsets of a stopped connector."""
    return Call("DELETE", _of(name, "/offsets"))


def plugins(connectors_only: bool = True) -> Call[list[PluginJson]]:
    """Ask for the classes that can be used."""
    return Call("GET", "/connector-plugins", query_of(connectorsOnly=connectors_only))


def plugin_settings(name: str, version: str = "") -> Call[list[Json]]:
    """Ask for the settings of a plug-in (KIP-769)."""
    return Call("GET", f"/connector-plugins/{segment(name)}/config", query_of(version=version))


def validate(plugin: str, settings: Settings) -> Call[Json]:
    """Have a configuration checked without creating anything."""
    return Call("PUT", f"/connector-plugins/{segment(plugin)}/config/validate", body=dict(settings))


def loggers() -> Call[dict[str, LoggerLevelJson]]:
    """Ask for the loggers of the worker that answers."""
    return Call("GET", "/admin/loggers")


def logger(name: str) -> Call[LoggerLevelJson]:
    """Ask for one logger of the worker that answers."""
    return Call("GET", f"/admin/loggers/{segment(name)}")


def set_logger(name: str, level: str, cluster: bool = True) -> Call[list[str] | None]:
    """Set a logger and all below it: on the whole group (KIP-976), or on the worker that answers."""
    scope = query_of(scope="cluster" if cluster else "worker")
    return Call("PUT", f"/admin/loggers/{segment(name)}", scope, body={"level": level})


def _of(name: str, rest: str = "") -> str:
    return f"/connectors/{segment(name)}{rest}"
