"""How a host's JVM is started: heap, direct memory, what it does when memory is gone. Pure.

Java's direct memory may be as large as its heap unless the options say otherwise, so a JVM takes at most about twice
``connectrt.java.heap`` and 110 to 120 MB for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.config.connectrt_config import JAVA_HEAP, JAVA_OPTIONS
from spark_connect_rt.config.java_hosting import heap_bytes, heap_complaint, options_complaint
from spark_connect_rt.engine.startup.jvm_memory import ARCHIVES_IN_PLACE
from spark_connect_rt.errors import BadConfigError

# Java's own choice is the whole of -Xmx on most machines, whose young part is then filled before anything is collected:
# 64 instead of 129 MiB with one task that moved 1.5 M lines, 126 instead of 169 with 20, for the same CPU.
_FIRST_HEAP = "-Xms16m"
# The records of a poll or a put outlive Java's own young part of such a heap, 5 MB, and each collection copied them: up
# to a quarter of a cheap sink's CPU (0.2 to 0.8 us a record, now 0.2).
_YOUNG = ("-Xms24m", "-XX:NewSize=16m")
_YOUNG_FITS_BYTES = 128 << 20
# What waits to be durable outlives young collections: with Java's own 40 % free behind a full one, two Debezium
# snapshots of 50,000 rows made 14 to 19 of these, now 6, and collected for 1.0 instead of 1.4 CPU s (75 %: 0.9, and a
# heap of 200 instead of 110 MB). It grows with what lives, so that of light tasks stays small.
_FREE_RATIO = ("-XX:MinHeapFreeRatio=60", "-XX:MaxHeapFreeRatio=80")
# C2 waits for what stays hot: a method of each record gets there within a second of flow, what a start runs never does.
# 600,000 records in a new JVM: 3.0 instead of 4.2 CPU s of JSON with schema, 10 MiB less; the same speed afterwards.
_PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=30000",
    "-XX:Tier4MinInvocationThreshold=10000",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=200000",
)
_DIRECT = "-XX:MaxDirectMemorySize"


def jvm_options(heap: str, options: Sequence[str] = ()) -> list[str]:
    """Return the options of a host's JVM; the user's come last, so they win. Raises BadConfigError."""
    problems = {  # the name in the words, too: REST answers with these alone
        setting: [f"Invalid value for configuration {setting}: {complaint}"]
        for setting, complaint in (
            (JAVA_HEAP, heap_complaint(heap)),
            (JAVA_OPTIONS, options_complaint(options)),
        )
        if complaint
    }
    if problems:
        raise BadConfigError(problems)
    return [
        _FIRST_HEAP,
        f"-Xmx{heap.strip()}",
        f"{_DIRECT}={heap.strip()}",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        *ARCHIVES_IN_PLACE,
        "-Djdk.nio.maxCachedBufferSize=262144",
        *options,
    ]


def for_records(heap: str, options: Sequence[str] = ()) -> list[str]:
    """Return options of a JVM that moves records, to stand before the user's; a larger young part if it has room."""
    young = _YOUNG if (heap_bytes(heap) or 0) >= _YOUNG_FITS_BYTES else ()
    free = (
        () if any("HeapFreeRatio" in option for option in options) else _FREE_RATIO
    )  # a JVM refuses a pair that crosses
    return [*young, *free, *_PATIENT_COMPILER]
