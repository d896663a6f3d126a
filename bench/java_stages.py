"""What Java transformations and converters cost a Python connector: CPU microseconds a record, both processes.

``python -m bench.java_stages [records]``: a source pipeline (five fields, JsonConverter without schema) with nothing,
with our own transformations, with Java's of the same names, and with Java's converter; in polls of 1,000.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.engine.java_host.stages.converters import JavaConverter
from spark_connect_rt.engine.java_host.stages.transformations import JavaTransformation
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

KAFKA = "org.apache.kafka.connect.transforms"
JSON = "org.apache.kafka.connect.json.JsonConverter"
ROW = struct_of(
    {
        "id": Schema(Type.INT64),
        "name": Schema(Type.STRING),
        "share": Schema(Type.FLOAT64),
        "good": Schema(Type.BOOLEAN),
        "note": Schema(Type.STRING, optional=True),
    }
)
POLL = 1_000
STEPS = {
    "a": ("ReplaceField$Value", {"renames": "name:title"}),
    "b": ("InsertField$Value", {"static.field": "s", "static.value": "v"}),
    "c": ("Cast$Value", {"spec": "share:float32"}),
}


def find(name: str) -> type[Any]:
    """Return Java's plug-in where the name begins with ``java:``, else ours."""
    kind, _, java = name.partition(":")
    if not java:
        return bundled_plugins().class_of(name)
    base = JavaConverter if java == JSON else JavaTransformation
    assert kind == "java"
    return type("Java", (base,), {"java_class": java, "java_code": JavaCode(())})


def config(steps: str, origin: str, converter: str = "") -> dict[str, str]:
    """Return a connector's settings with these steps of ours (origin empty) or Java's (``java:``)."""
    settings = {
        "key.converter": "StringConverter",
        "value.converter": f"{converter}{JSON}",
        "value.converter.schemas.enable": "false",
        "header.converter": "StringConverter",
        "transforms": ",".join(steps),
    }
    for alias in steps:
        name, own = STEPS[alias]
        settings |= {f"transforms.{alias}.type": f"{origin}{KAFKA}.{name}"}
        settings |= {f"transforms.{alias}.{key}": value for key, value in own.items()}
    return settings


def children_cpu_s() -> dict[int, float]:
    """Return the CPU seconds of each of this process's JVMs so far."""
    spent = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            spent[int(stat.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def measure(settings: Mapping[str, str], records: int) -> tuple[float, float]:
    """Return (Python's, the JVM's) CPU microseconds a record, the second half of the records alone."""
    pipeline = SourcePipeline.from_config(settings, {}, find)
    rows = [
        SourceRecord(
            {"p": 1},
            {"o": at},
            "t",
            value=Struct(ROW, {"id": at, "name": f"name {at}", "share": at / 7, "good": at % 2 == 0, "note": None}),
            value_schema=ROW,
        )
        for at in range(POLL)
    ]
    began_s, of_jvms = 0.0, children_cpu_s()
    for poll in range(2 * records // POLL):
        if poll == records // POLL:
            began_s, of_jvms = time.process_time(), children_cpu_s()
        pipeline.convert(rows)
    python_s = time.process_time() - began_s
    java_s = sum(now - of_jvms.get(pid, 0) for pid, now in children_cpu_s().items())
    pipeline.close()
    return python_s / records * 1e6, java_s / records * 1e6


def main() -> None:
    """Print a table."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("| chain | Python µs | JVM µs |\n|---|---|---|")
    for label, settings in {
        "none": config("", ""),
        "one of ours": config("a", ""),
        "one of Java's": config("a", "java:"),
        "three of ours": config("abc", ""),
        "three of Java's": config("abc", "java:"),
        "Java's JsonConverter": config("", "", "java:"),
    }.items():
        python_us, java_us = measure(settings, records)
        print(f"| {label} | {python_us:.1f} | {java_us:.1f} |", flush=True)


if __name__ == "__main__":
    main()
