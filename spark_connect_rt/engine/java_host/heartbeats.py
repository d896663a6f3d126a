"""The heartbeat of a JVM about one of its tasks, once a second, put on the task's meter.

Owns the names. ``java-host-metrics`` are of the JVM, which tasks may share: each of them shows it. MBeans keep domain,
keys and attribute: ``debezium.postgres:type=connector-metrics,server=s`` is the group ``jmx:debezium.postgres`` with
the tags ``type`` and ``server``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from spark_connect_rt.engine.executor.task_meter import LONG_CALL_S, TaskMeter
from spark_connect_rt.engine.task_runner import JMX, VALUE, PluginMetricKey, part_of

GROUP = "java-host-metrics"
_OF_JVM = {
    "heap_bytes": "heap-bytes",
    "heap_max_bytes": "heap-max-bytes",
    "non_heap_bytes": "non-heap-bytes",
    "direct_bytes": "direct-bytes",
    "threads": "threads",
    "gc_ms": "gc-time-ms",
}
_OF_TASK = ("connector", "task")  # tags of every metric of a task


class OnMeter:
    """A number of a JVM whose heartbeats go to its task's meter (jvm_pool.HeartbeatListener)."""

    meter: TaskMeter | None = None

    def on_heartbeat(self, head: Mapping[str, Any], pid: int) -> None:
        """Put a heartbeat and the JVM's process id on the meter, once there is a meter."""
        if self.meter is not None:
            take_heartbeat(self.meter, head, time.monotonic(), pid)


def take_heartbeat(meter: TaskMeter, head: Mapping[str, Any], now_s: float, pid: int) -> None:
    """Note a heartbeat's numbers, and the call the task is in."""
    if "jvm" in head:
        for name, shown in _OF_JVM.items():
            meter.gauge(_key(GROUP, shown, {}), head["jvm"][name])
        resident = resident_bytes(pid)
        if resident is not None:
            meter.gauge(_key(GROUP, "resident-bytes", {}), resident)
    for bean in head.get("beans", ()):
        meter.gauge(bean_key(bean), bean["value"])
    call_s = head.get("call_ms", 0) / 1000
    meter.elsewhere(head["call"] if call_s >= LONG_CALL_S else "", now_s - call_s)


def bean_key(bean: Mapping[str, Any]) -> str:
    """Return the name of a number of an MBean, of a task or a connector: {"domain", "keys", "attribute"}."""
    tags = dict(bean["keys"])
    if bean["domain"] == "kafka.connect":  # own metrics (KIP-877): connector and task are tags of every metric
        return _key(tags.pop("type"), bean["attribute"], {key: tags[key] for key in tags if key not in _OF_TASK})
    tags = {f"bean_{key}" if key in _OF_TASK else key: value for key, value in tags.items()}
    return _key(f"{JMX}{bean['domain']}", bean["attribute"], tags)


def _key(group: str, name: str, tags: Mapping[str, str]) -> str:
    return part_of(PluginMetricKey(group, name, tags).encode(), VALUE)


def resident_bytes(pid: int) -> int | None:
    """Return what a process takes of the machine's memory; None: this system does not say."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * 4096
    return None
