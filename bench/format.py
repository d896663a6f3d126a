"""A topic of two partitions as a DataFrame: ``format("connectrt")`` and KafkaSource beside Spark's ``format("kafka")``.

Read as a batch, then as a stream in micro-batches of a million; the same columns, all of them looked at; then with
these columns named (option ``columns``, which Spark's own source has no need of), then the values alone. Streams once
more from a topic four times as long: what a query costs before its first record weighs less there. Each side in a
process of its own with two cores' worth of tasks, warmed up on a small topic, the sides in turns and in both orders.
Ours as pip installs it, beside the Spark it runs on, and once only on ``PYTHONPATH``. All on Spark 4.2.0, the last one
that Spark's own source is published for, in an environment that the first run makes. A run is ``exact`` when count and
checksum of the values are those of the topic.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from jgo.maven import MavenContext

from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.base.cache import cache_directory, exclusive
from spark_connect_rt.engine.startup import pyspark_folder
from spark_connect_rt.engine.startup.java_home import find_java

TARGET = 1.0
SPARK = "4.2.0"
BATCH_ROWS = 1_000_000
ON_PATH = "ours, on PYTHONPATH"  # pyspark comes from Spark's zip, which holds no bytecode
WAYS = (
    "batch",
    "stream",
    "named_batch",
    "named_stream",
    "value_batch",
    "value_stream",
    "long_stream",
    "long_value_stream",
)
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
    """Fill three topics, then have the sides read them in turn."""
    unit = "records/s of a batch read, and of a stream, of a topic"
    result = Result("format", unit, "batch_per_s", True, f">={TARGET}")
    sizes = (1_000, 2_000, 3_000) if short else (20_000, 3_000_000, 12_000_000)
    topics, jars = [fill(lab, records) for records in sizes], kafka_jars()
    python = environment()
    beside = installed(python, lab.folder / "installed")
    pythons = {"java": python, "ours": beside} if short else {"java": python, "ours": beside, ON_PATH: python}
    sides = ["java"] if lab.java_only else list(pythons)
    for who in sides if short else [*sides, *reversed(sides)]:
        result.runs.append(_run(who, pythons[who], lab, topics, jars))
    result.conclude()
    _note(result)
    result.notes += lab.complaints
    exact, streams = all(turn.figures["exact"] for turn in result.runs), result.ratio_of("stream_per_s")
    result.met = exact and all(ratio is not None and ratio >= TARGET for ratio in (result.ratio, streams))
    return result


def _note(result: Result) -> None:
    """Note what the rate of a batch alone does not say."""
    result.note_ratio("stream", result.ratio_of("stream_per_s"))
    for way in WAYS:
        result.note_ratio(f"{way}, records a CPU second", result.ratio_of(f"{way}_per_cpu_s"))
    for way in ("stream", "value_stream"):
        figure = f"{way}_per_cpu_s"
        zipped, java = result.median(ON_PATH, figure), result.values("java", figure)
        result.note_ratio(
            f"{way}, only on PYTHONPATH", zipped / result.median("java", figure) if zipped and java else None
        )
        result.note_ratio(f"{way}, Spark's own beside itself", max(java) / min(java) if java else None)


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


def installed(python: Path, folder: Path) -> Path:
    """Return a Python that finds the packages of another one, and this checkout as if it was installed with them."""
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    others = python.parents[1] / packages.relative_to(folder)
    (packages / "a_folders.pth").write_text(f"{others}\n{ROOT}\n", encoding="utf-8")
    of_wheel = Path(pyspark_folder.__file__).with_suffix(".pth").read_text(encoding="utf-8")
    (packages / "spark_connect_rt_pyspark.pth").write_text(of_wheel, encoding="utf-8")
    return folder / "bin" / "python"


def kafka_jars() -> str:
    """Return the jars of Spark's own source, for ``spark.jars``."""
    maven = MavenContext(repo_cache=cache_directory() / "jars")
    found = (maven.project(group, name).at_version(version).artifact().resolve() for group, name, version in JARS)
    return ",".join(map(str, found))


def _run(who: str, python: Path, lab: Lab, topics: Sequence[Filled], jars: str) -> Run:
    large, long = topics[1:]
    words = [
        "java" if who == "java" else "ours",
        lab.bootstrap_servers,
        *(topic.name for topic in topics),
        str(BATCH_ROWS),
        *([jars] if who == "java" else []),
    ]
    own = {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": str(python)}
    done = _done(python, words, own)
    if done.returncode != 0 and LOST_SOCKET in done.stderr:
        lab.complaints.append(f"{who}: a Python process took Spark's ten seconds to start; run again")
        done = _done(python, words, own)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    read = {name: long if name.startswith("long_") else large for name in found}
    exact = all(
        (way["records"], way["checksum"]) == (read[name].records, read[name].checksum) for name, way in found.items()
    )
    rates = {f"{name}_per_s": round(read[name].records / way["seconds"]) for name, way in found.items()}
    costs = {f"{name}_per_cpu_s": round(read[name].records / way["cpu_s"]) for name, way in found.items()}
    return Run(who, {**rates, **costs, "exact": exact})


def _done(python: Path, words: list[str], own: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "bench.format_side", *words]
    return subprocess.run(command, env=os.environ | own, cwd=ROOT, capture_output=True, text=True, check=False)
