"""Settings of a distributed worker, typed (Java ``DistributedConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config import worker_config
from spark_connect_rt.config.connection_config import CLIENTS
from spark_connect_rt.config.connectrt_config import ENGINE, QUICKSTART
from spark_connect_rt.config.group_config import GROUP, SESSION_KEYS
from spark_connect_rt.config.health_config import HEALTH
from spark_connect_rt.config.listeners import listener_problems
from spark_connect_rt.config.management_config import MANAGEMENT
from spark_connect_rt.config.placement import PLACEMENT
from spark_connect_rt.config.plugin_install import PLUGIN_INSTALL
from spark_connect_rt.config.storage_config import STORAGE, TOPIC_KINDS, storage_topics
from spark_connect_rt.config.worker_config import WORKER, unknown_setting_warnings
from spark_connect_rt.config.worker_settings import Resolve, WorkerConfig, typed_settings
from spark_connect_rt.errors import BadConfigError

DISTRIBUTED = (
    GROUP
    + STORAGE
    + SESSION_KEYS
    + CLIENTS
    + WORKER
    + ENGINE
    + PLUGIN_INSTALL
    + MANAGEMENT
    + PLACEMENT
    + HEALTH
    + QUICKSTART
)

PASSED_ON = (*worker_config.PASSED_ON, *(f"{kind}.storage." for kind in TOPIC_KINDS))
"""Names with these prefixes go on to whom they belong, a topic's to its creation."""


def parse_distributed(raw: Mapping[str, str], resolve: Resolve = dict) -> WorkerConfig:
    """Return the typed settings; ``resolve`` looks up ``${provider:...}``.

    Raises BadConfigError with every problem of every setting.
    """
    resolved = resolve(raw)
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for key in DISTRIBUTED:
        values[key.name], complaints = key.parse(resolved)
        if complaints:
            problems[key.name] = complaints
    for name, complaint in _problems_between(values):
        problems.setdefault(name, []).append(complaint)
    if problems:
        raise BadConfigError(problems)
    return WorkerConfig(
        **typed_settings(values),
        storage=storage_topics(values, resolved),
        raw=dict(raw),
        resolved=resolved,
        warnings=tuple(unknown_settings(raw)),
    )


def unknown_settings(raw: Mapping[str, str]) -> list[str]:
    """Return one sentence for each setting that nothing reads: probably a misspelling."""
    return unknown_setting_warnings(DISTRIBUTED, raw, PASSED_ON)


def _problems_between(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (setting, complaint) for settings that are wrong together."""
    found = listener_problems("listeners", values["listeners"] or ["http://:8083"])  # empty: complained about already
    found += listener_problems("admin.listeners", values["admin.listeners"] or ["http://:8083"])
    signature = values["inter.worker.signature.algorithm"]
    accepted = values["inter.worker.verification.algorithms"]
    if accepted is not None and not accepted:
        found.append(("inter.worker.verification.algorithms", "must contain at least one algorithm"))
    elif signature and accepted and signature.lower() not in {name.lower() for name in accepted}:
        found.append(
            ("inter.worker.signature.algorithm", f"{signature} is not among inter.worker.verification.algorithms")
        )
    found += _timing_problems(values)
    topics = [(f"{kind}.storage.topic", values[f"{kind}.storage.topic"]) for kind in TOPIC_KINDS]
    for index, (name, topic) in enumerate(topics):
        clash = next((other for other, same in topics[:index] if same == topic and topic), None)
        if clash:
            found.append((name, f"must not be the same as the topic of {clash}"))
    return found


def _timing_problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong between the times of the group and of the executors."""
    session, heartbeat = values["session.timeout.ms"], values["heartbeat.interval.ms"]
    if session is None or heartbeat is None:
        return []  # complained about already
    if heartbeat >= session:
        return [
            ("heartbeat.interval.ms", f"must be less than session.timeout.ms ({session} ms), but is {heartbeat} ms")
        ]
    silence, most = values["connectrt.channel.timeout.ms"], session - heartbeat
    if silence is None or silence < most:
        return []
    why = (
        f"must be less than session.timeout.ms minus heartbeat.interval.ms ({most} ms), but is {silence} ms. "
        "Otherwise executors of a hanging worker still run tasks that the group has already moved to others"
    )
    return [("connectrt.channel.timeout.ms", why)]
