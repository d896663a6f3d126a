"""Our answers to what Java was asked about plug-ins (tests/parity/plugin_scripts), put beside the recorded ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson
from starlette.types import ASGIApp

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.runtime.herder.dependencies import HerderSettings
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.parity.conversation import Ask
from tests.parity.record_plugins import without_documentation
from tests.unit.rest.conftest import ask

JAVA_VERSION = "4.1.1"
OWN_GROUPS = {"Execution", "Health"}
OWN_SETTINGS = ("connectrt.", "errors.restart.", "task.progress.", "tasks.max.auto")
WORKER = {
    "group.id": "golden",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}

Answer = dict[str, Any]


def javas_plugins() -> Plugins:
    """Return those bundled plug-ins that the recorded Java worker had, under Java's version; no MirrorMaker."""
    found = (
        plugin
        for plugin in BUNDLED
        if plugin.java_class.startswith("org.apache.") and ".mirror." not in plugin.java_class
    )
    return Plugins(replace(plugin, version=JAVA_VERSION) for plugin in found)


def worker_with(cluster: InProcessCluster, policy: str) -> ASGIApp:
    """Return the REST application of a worker with an override policy; its herder never starts."""
    any_worker = next(iter(cluster.workers.values())).herder
    raw = {**WORKER, "connector.client.config.override.policy": policy}
    settings = HerderSettings.of("h:8083", "http://h:8083/", worker_settings(raw))
    return create_app(DistributedHerder(replace(any_worker._deps, settings=settings, plugins=javas_plugins())))


def answer_of(app: ASGIApp, step: Ask) -> Answer:
    """Ask ours; what only ours has is left out: its own settings, fields of an error."""
    body = step.body if isinstance(step.body, bytes) or step.body is None else orjson.dumps(step.body)
    said = ask(app, step.method, quote(step.path, safe="/?=&%$"), body)
    tree = without_documentation(json.loads(said.content))
    return {"status": said.status_code, "body": _comparable(tree)}


def _comparable(tree: Any) -> Any:
    if isinstance(tree, dict) and "error_code" in tree:
        return {name: tree[name] for name in ("error_code", "message")}
    if isinstance(tree, list):
        return [entry for entry in tree if not entry.get("name", "").startswith(OWN_SETTINGS)]
    kept = [config for config in tree["configs"] if not _name(config).startswith(OWN_SETTINGS)]
    groups = [group for group in tree["groups"] if group not in OWN_GROUPS]
    return {**tree, "groups": groups, "configs": kept}


def _name(info: Mapping[str, Any]) -> str:
    return str((info["value"] or info["definition"])["name"])


def with_errors(java: Any, errors: Mapping[str, Iterable[str]]) -> Any:
    """Return Java's answer to a validation with other complaints about some settings."""
    changed = {name: list(found) for name, found in errors.items()}
    configs, more = [], 0
    for config in java["configs"]:
        value = config["value"]
        if value is not None and value["name"] in changed and config["definition"] is not None:
            found = changed.pop(value["name"])
            more += len(found) - len(value["errors"])
            config = {**config, "value": {**value, "errors": found}}
        configs.append(config)
    assert not changed, f"Java has no settings {sorted(changed)}"
    return {**java, "error_count": java["error_count"] + more, "configs": configs}


def errors_of(body: Any) -> dict[str, tuple[str, ...]]:
    """Return what a validation complains about: setting -> complaints."""
    values = [config["value"] for config in body["configs"] if config["value"] is not None]
    return {value["name"]: tuple(value["errors"]) for value in values if value["errors"]}


def differences(ours: Any, java: Any, where: str = "") -> list[str]:
    """Return what differs between two trees, one line each; empty when nothing does. Order counts."""
    if isinstance(ours, dict) and isinstance(java, dict):
        found = [f"{where}: fields {list(ours)}, Java {list(java)}"] if list(ours) != list(java) else []
        return found + [
            line for k in ours.keys() & java.keys() for line in differences(ours[k], java[k], f"{where}.{k}")
        ]
    if isinstance(ours, list) and isinstance(java, list) and len(ours) == len(java):
        pairs = zip(ours, java, strict=True)
        return [line for at, (a, b) in enumerate(pairs) for line in differences(a, b, f"{where}[{at}]")]
    if isinstance(ours, list) and isinstance(java, list) and ours and isinstance(ours[0], dict):
        return [f"{where}: {[_label(item) for item in ours]}, Java {[_label(item) for item in java]}"]
    return [] if ours == java else [f"{where}: {ours!r}, Java {java!r}"]


def _label(item: Any) -> Any:
    return _name(item) if isinstance(item, dict) and "value" in item else item
