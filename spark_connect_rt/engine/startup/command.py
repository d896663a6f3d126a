"""Starts Spark's JVM by the command that ``spark-submit`` made last time: without its shells, Python and launcher.

Owns when that is the same and where the command is kept. ``spark-submit`` runs two shells, a Python and a JVM to write
the JVM's command line, and the class ``SparkSubmit`` reads it again: 0.7 CPU s that a start waits for. What comes out
is the same each time as long as nobody configured anything for it, so it is kept beside the archive of classes, with
the same key. Where anything was configured, ``spark-submit`` runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from spark_connect_rt.engine.startup.archive_place import JAVA_OPTIONS, archive_path

STARTER = Path(__file__).with_name("from_record.sh")
RECORD, HOME = "CONNECTRT_JVM_COMMAND", "CONNECTRT_SPARK_HOME"  # for the starter
MAIN = "org.apache.spark.deploy.SparkSubmit"
_FILES = ("spark-defaults.conf", "spark-env.sh", "java-opts")
_ENVIRONMENT = ("SPARK_", "PYSPARK_SUBMIT", "HADOOP_", "YARN_")
_SESSION = ("spark.sql.", "spark.ui.", "spark.executorEnv.", "spark.app.name", "spark.master")


def is_plain(
    conf: Mapping[str, str], known: Mapping[str, str], environment: Mapping[str, str], spark_home: Path
) -> bool:
    """Tell whether ``spark-submit`` has nothing to look at but this installation.

    Args:
        conf: what the JVM is to be started with.
        known: settings that are ours, with our values; JAVA_OPTIONS may have more words.
        environment: of this process.
        spark_home: pyspark's folder.
    """
    if any((spark_home / "conf" / name).exists() for name in _FILES) or "'" in conf[JAVA_OPTIONS]:
        return False
    for name, value in environment.items():
        if name == "SPARK_HOME":
            if Path(value).resolve() != spark_home.resolve():
                return False
        elif name.startswith(_ENVIRONMENT):
            return False
    if '"' in conf[JAVA_OPTIONS] or not conf[JAVA_OPTIONS].startswith(known[JAVA_OPTIONS]):
        return False
    return all(name in known or name.startswith(_SESSION) for name in conf)


def record_path(environment: Mapping[str, str]) -> Path | None:
    """Return where the command of this environment, Spark and Java is kept; None: no Java was chosen."""
    home = environment.get("JAVA_HOME")
    return archive_path(Path(home)).with_suffix(".args") if home else None


def options_of(command: Sequence[str], conf: Mapping[str, str]) -> list[str] | None:
    """Return the JVM's options in its command line, less those of ``conf``; None: it is another program's."""
    if MAIN not in command:
        return None
    ours = set(conf[JAVA_OPTIONS].split())
    return [word for word in command[1 : command.index(MAIN)] if word not in ours]


def as_argument_file(words: Sequence[str]) -> str:
    """Return words as a file that ``java @FILE`` reads."""
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for word in words)
    return "".join(f'"{word}"\n' for word in quoted)


def keep_command(pid: int, conf: Mapping[str, str], record: Path) -> None:
    """Keep the command of a JVM that ``spark-submit`` started, for the next start. Never raises."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        options = options_of(words, conf)
        if options is not None:
            record.parent.mkdir(parents=True, exist_ok=True)
            half = record.with_suffix(f".{pid}")
            half.write_text(as_argument_file(options), encoding="utf-8", errors="surrogateescape")
            half.replace(record)


def use_record(environment: MutableMapping[str, str], record: Path, spark_home: Path) -> bool:
    """Make ``STARTER`` run the kept command, in this environment; False: there is none of this Spark's folder."""
    try:
        kept = record.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    if f"{spark_home}/jars" not in kept or not os.access(STARTER, os.X_OK):
        return False
    environment[RECORD], environment[HOME] = str(record), str(spark_home)
    return True
