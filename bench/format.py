"""A topic of two partitions as a DataFrame: ``format("connectrt")`` and KafkaSource beside Spark's ``format("kafka")``.

Read as a batch, then as a stream in micro-batches of a million; the same columns, all of them looked at, then the
values alone (option ``columns`` beside what Spark prunes); each side in a process of its own with two cores' worth of
tasks, warmed up on a small topic. Ours a second time with ``pyspark_connectrt.use_bytecode()``. All on Spark 4.2.0,
the last one that Spark's own source is published for, in an environment that the first run makes. A run is ``exact``
when count and checksum of the values are those of the topic.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from jgo.maven import MavenContext

from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.embedded.cache import cache_directory, exclusive
from spark_connect_rt.embedded.java import find_java
from spark_connect_rt.spark.driver.process_python import STARTER

TARGET = 1.0
SPARK = "4.2.0"
BATCH_ROWS = 1_000_000
BYTECODE = "ours, use_bytecode"
LOST_SOCKET = "failed to connect back"  # Spark gives a process beside the driver ten seconds to come up
ROOT = Path(__file__).resolve().parents[1]
# By name, not by what they depend on: Maven Central lacks the token provider of this version.
JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


@dataclass(frozen=True)
class Filled:
    """A topic and what is in it."""

    name: str
    records: int
    checksum: int  # the sum of the values' CRC-32


def run(lab: Lab, short: bool) -> Result:
    """Fill two topics, then have the sides read them in turn."""
    unit = "records/s of a batch read, and of a stream, of a topic"
    result = Result("format", unit, "batch_per_s", True, f">={TARGET}")
    small, large = fill(lab, 1_000 if short else 20_000), fill(lab, 2_000 if short else 3_000_000)
    python, jars = environment(), kafka_jars()
    sides = ("java",) if lab.java_only else ("java", "ours") if short else ("java", "ours", BYTECODE)
    for who in sides * (1 if short else 2):
        result.runs.append(_run(who, python, lab, small, large, jars))
    result.conclude()
    streams = result.ratio_of("stream_per_s")
    result.note_ratio("stream", streams)
    result.note_ratio("batch, records a CPU second", result.ratio_of("batch_per_cpu_s"))
    result.note_ratio("stream, records a CPU second", result.ratio_of("stream_per_cpu_s"))
    for way in ("batch", "stream", "value_batch", "value_stream"):
        quick, java = result.median(BYTECODE, f"{way}_per_cpu_s"), result.median("java", f"{way}_per_cpu_s")
        result.note_ratio(f"{way} with use_bytecode, records a CPU second", quick / java if quick and java else None)
    for way in ("batch", "stream"):
        result.note_ratio(f"{way} of values alone, records a CPU second", result.ratio_of(f"value_{way}_per_cpu_s"))
    result.notes += lab.complaints
    exact = all(one.figures["exact"] for one in result.runs)
    result.met = exact and all(ratio is not None and ratio >= TARGET for ratio in (result.ratio, streams))
    return result


def fill(lab: Lab, records: int) -> Filled:
    """Return a new topic of two partitions with keys and values of 100 bytes."""
    topic = lab.fresh("rows")
    lab.create_topic(topic, partitions=2)
    producer = Producer(
        {
            "bootstrap.servers": lab.bootstrap_servers,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    checksum, filler = 0, b"x" * 90
    for number in range(records):
        value = b"%010d%b" % (number, filler)
        checksum += zlib.crc32(value)
        while True:
            try:
                producer.produce(topic, value, b"%d" % number)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return Filled(topic, records, checksum)


def environment() -> Path:
    """Return the Python of an environment with that Spark and all else of this one; made once for each lock file."""
    folder = cache_directory() / f"bench-spark-{SPARK}"
    python, made = folder / "bin" / "python", folder / ".made"
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    wanted = "\n".join(f"pyspark=={SPARK}" if line.startswith("pyspark==") else line for line in lines)
    with exclusive(folder.with_suffix(".lock")):
        if not made.exists() or made.read_text(encoding="utf-8") != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            (folder / "requirements.txt").write_text(wanted, encoding="utf-8")
            install = [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "-r",
                str(folder / "requirements.txt"),
            ]
            subprocess.run(install, check=True)
            made.write_text(wanted, encoding="utf-8")
    return python


def kafka_jars() -> str:
    """Return the jars of Spark's own source, for ``spark.jars``."""
    maven = MavenContext(repo_cache=cache_directory() / "jars")
    found = (maven.project(group, name).at_version(version).artifact().resolve() for group, name, version in JARS)
    return ",".join(map(str, found))


def _run(who: str, python: Path, lab: Lab, small: Filled, large: Filled, jars: str) -> Run:
    words = [
        "java" if who == "java" else "ours",
        lab.bootstrap_servers,
        large.name,
        small.name,
        str(BATCH_ROWS),
        *([jars] if who == "java" else []),
    ]
    own = {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": str(python)}
    if who == BYTECODE:
        own |= {"PYSPARK_PYTHON": str(STARTER), "CONNECTRT_PYTHON": str(python)}
    done = _done(python, words, own)
    if done.returncode != 0 and LOST_SOCKET in done.stderr:
        lab.complaints.append(f"{who}: a Python process took Spark's ten seconds to start; run again")
        done = _done(python, words, own)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    ways = found.values()
    exact = all((way["records"], way["checksum"]) == (large.records, large.checksum) for way in ways)
    rates = {f"{name}_per_s": round(large.records / way["seconds"]) for name, way in found.items()}
    costs = {f"{name}_per_cpu_s": round(large.records / way["cpu_s"]) for name, way in found.items()}
    return Run(who, {**rates, **costs, "exact": exact})


def _done(python: Path, words: list[str], own: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "bench.format_side", *words]
    return subprocess.run(command, env=os.environ | own, cwd=ROOT, capture_output=True, text=True, check=False)
