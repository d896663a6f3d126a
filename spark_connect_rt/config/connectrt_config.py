"""Settings that only this product has: ``connectrt.*``, ``quickstart.*``. Java workers ignore them.

``spark.*`` worker properties are not declared: they are Spark's own and go to the session as they are.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.override_policy import ALLOWED_FILES, ALLOWED_URLS
from spark_connect_rt.config.programs import PROGRAMS_KEY
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of
from spark_connect_rt.config.worker_config import RUNTIME

# Checks of the heap and options of a JVM that hosts Java plug-ins, without starting it. Pure.


LEAST_HEAP_BYTES = 32 << 20  # Connect's own classes do not start with less
MOST_HEAP_BYTES = 1 << 40
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_OURS = ("-cp", "-classpath", "--class-path", "-jar", "-m", "--module", "-XX:-ExitOnOutOfMemoryError")


def heap_bytes(text: str) -> int | None:
    """Return the bytes of a size as ``-Xmx`` takes it (``256m``). None: the text is not a valid size."""
    found = re.fullmatch(r"(\d{1,15})([kmg]?)", text.strip().lower())
    return int(found.group(1)) * _UNITS[found.group(2)] if found else None


def heap_complaint(text: str) -> str | None:
    """Return why a heap's size is invalid, None when it is valid."""
    size = heap_bytes(text)
    if size is None:
        return f"{text!r} is not a valid size. Use a number with k, m or g, for example 256m"
    if size < LEAST_HEAP_BYTES:
        return f"{text} is too small for a Java host. Use at least {LEAST_HEAP_BYTES >> 20}m"
    if size > MOST_HEAP_BYTES:
        return f"{text} is larger than the memory of any machine"
    return None


def options_complaint(options: Sequence[str]) -> str | None:
    """Return why the JVM's options are invalid, None when no problem is visible without starting it."""
    for option in options:
        if not option.startswith("-"):
            return f"{option!r} is not a JVM option. Options start with -"
        if option.partition("=")[0] in _OURS:
            return f"{option} cannot be set, because the host sets it itself"
    return None


def heap_of_tasks(value: str | None) -> str | None:
    """Accept a heap that a JVM can start with: a connector with another one would fail with its first task."""
    return heap_complaint(value) if value else None


def options_of_tasks(value: str | None) -> str | None:
    """Accept options in a shell's quotes, none of which is the host's own."""
    try:
        return options_complaint(shlex.split(value or ""))
    except ValueError as error:
        return f"not a valid list of options: {error}"


# ``tasks.max.auto=min..max``: the bounds within which the number of a sink's tasks follows its load.


TASKS_AUTO = "tasks.max.auto"
LARGEST = 100_000
_RANGE = re.compile(r"\s*(\d{1,6})\s*\.\.\s*(\d{1,6})\s*")


@dataclass(frozen=True, slots=True)
class TaskRange:
    """The bounds that the setting gives, both included."""

    least: int
    most: int

    def clamped(self, tasks: int) -> int:
        """Return the number within the bounds that is nearest."""
        return max(self.least, min(tasks, self.most))

    @staticmethod
    def of(text: str) -> TaskRange:
        """Parse ``min..max``. Raises ValueError with the reason."""
        found = _RANGE.fullmatch(text)
        if found is None:
            raise ValueError(f"must be two whole numbers, min..max, for example 2..16, but is {text[:40]!r}")
        least, most = int(found[1]), int(found[2])
        if not 1 <= least <= most <= LARGEST:
            raise ValueError(f"must be 1 <= min <= max <= {LARGEST}, but is {text[:40]!r}")
        return TaskRange(least, most)


def task_range(value: Any) -> str | None:
    """Complain about a text that is not a valid range. None and an empty text are valid."""
    if not value:
        return None
    try:
        TaskRange.of(value)
    except ValueError as error:
        return str(error)
    return None


LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")

JAVA_HEAP, JAVA_OPTIONS = "connectrt.java.heap", "connectrt.java.options"


ENGINE = ConfigDef(
    [
        ConfigKey(
            "connectrt.job",
            Type.STRING,
            "worker",
            LOW,
            "The program that ./spark-submit.sh starts with this file: a distributed worker, or the quickstart.",
            one_of("worker", "quickstart"),
        ),
        ConfigKey(
            "connectrt.log.level",
            Type.STRING,
            None,
            LOW,
            "Log level of standard error. Not set: INFO for a worker, WARNING for the quickstart.",
            one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", ignore_case=True),
        ),
        ConfigKey(
            "connectrt.spark.log.level",
            Type.STRING,
            "WARN",
            LOW,
            "Log level of Spark.",
            one_of(*LOG_LEVELS),
        ),
        ConfigKey(
            "connectrt.plugins.ship",
            Type.BOOLEAN,
            True,
            LOW,
            "true: send the folders of plugin.path to executors on other machines. false: they have them at the "
            "same paths.",
        ),
        ConfigKey(
            "connectrt.plugins.modules",
            Type.LIST,
            "",
            LOW,
            "Modules whose classes a connector's configuration may name even if no plug-in registered them. "
            "Submodules are included. *: any module that can be imported. Classes in the worker's file can always "
            "be imported.",
        ),
        ConfigKey(
            JAVA_HEAP,
            Type.STRING,
            "256m",
            MEDIUM,
            "Heap of each JVM that hosts Java plug-ins: the worker's own, and those of tasks whose connector sets "
            "no other. A JVM takes about 120 MB more than its heap.",
            heap_of_tasks,
        ),
        ConfigKey(
            JAVA_OPTIONS,
            Type.STRING,
            "",
            LOW,
            "More options of these JVMs, separated by spaces as in a shell.",
            options_of_tasks,
        ),
        ConfigKey(
            "connectrt.lost.work.delay.ms",
            Type.INT,
            None,
            MEDIUM,
            "How long a departed worker's tasks wait for it to come back, ms. Only used while the group has no "
            "Java worker. With one, scheduled.rebalance.max.delay.ms is used. Not set: "
            "scheduled.rebalance.max.delay.ms if the file sets it, else 0 (tasks move immediately).",
            AtLeast(0),
        ),
        ConfigKey(
            "connectrt.snapshot.directory",
            Type.STRING,
            ".connectrt/snapshots",
            LOW,
            "Folder for a snapshot of the offset topic, relative to the working directory. The next start reads "
            "only what is newer. It is a cache that workers can share and that you can delete at any time. A "
            "snapshot in doubt is discarded. Empty: no snapshot.",
        ),
        ConfigKey(
            "connectrt.rest.login.config",
            Type.STRING,
            None,
            LOW,
            "JAAS login file of the basic-auth extension. Not set: -Djava.security.auth.login.config in KAFKA_OPTS.",
        ),
        ConfigKey(
            "connectrt.rest.connections.max",
            Type.INT,
            1_024,
            LOW,
            "Most open connections of each listener. All listeners together use at most half of the files that "
            "the worker may open (ulimit -n). At the limit, the connection that has been idle longest is closed. "
            "While all are busy, further connections are only served /health.",
            AtLeast(8),
        ),
        ConfigKey(
            "connectrt.slots.max",
            Type.INT,
            48,
            MEDIUM,
            "Most slots that this worker keeps open. A slot is a Spark job with a reader and a writer process.",
            AtLeast(1),
        ),
        ConfigKey(
            "connectrt.slot.tasks.max",
            Type.INT,
            25,
            MEDIUM,
            "Most tasks that share one slot. With a local spark.master, more tasks can share a slot once there is "
            "a shared slot for each core. Java tasks never do.",
            AtLeast(1),
        ),
        ConfigKey(
            "connectrt.fused",
            Type.BOOLEAN,
            True,
            LOW,
            "true: both halves of a task run in one process, so its data does not pass through Spark's JVM, which "
            "costs CPU for every byte. false: a task has two processes and can use more than one core.",
        ),
        ConfigKey(
            "connectrt.producers.shared",
            Type.BOOLEAN,
            True,
            LOW,
            "true: source tasks in one process with the same producer settings share connections. Their client.id "
            "is connectrt-producers, unless producer.client.id or producer.override.client.id is set. false: each "
            "task has its own, with the client.id that Java uses. Broker quotas may depend on it.",
        ),
        ConfigKey(
            "connectrt.slice.length.ms",
            Type.LONG,
            600_000,
            LOW,
            "Length of one Spark job of a slot, ms. Its tasks then continue in the next job.",
            AtLeast(1_000),
        ),
        ConfigKey(
            "connectrt.executor.wait.ms",
            Type.LONG,
            180_000,
            LOW,
            "How long tasks may wait for an executor before /health reports the worker as not ready, ms. A "
            "cluster may need minutes to add a machine.",
            AtLeast(1_000),
        ),
        ConfigKey(
            "connectrt.channel.timeout.ms",
            Type.LONG,
            None,
            LOW,
            "Time without a message on the control channel after which driver and executors consider each other "
            "lost, ms. In a group, it must be less than session.timeout.ms minus heartbeat.interval.ms, so that "
            "executors of a hanging worker end before its tasks move. Not set: six sevenths of that difference (6 "
            "s by default).",
            AtLeast(1),
        ),
        ConfigKey(
            ALLOWED_URLS,
            Type.LIST,
            (),
            MEDIUM,
            "OAUTHBEARER token endpoints that connectors may use for their own clients, separated by commas. "
            "Those of this file's clients are always allowed.",
        ),
        ConfigKey(
            ALLOWED_FILES,
            Type.LIST,
            (),
            MEDIUM,
            "Files that connectors may use as file: URLs of an OAUTHBEARER token, separated by commas.",
        ),
        PROGRAMS_KEY,
    ]
)
QUICKSTART = ConfigDef(
    [
        ConfigKey(
            "quickstart.directory",
            Type.STRING,
            ".connectrt/quickstart",
            LOW,
            "Folder for all data of the quickstart: Kafka's data, the CSV, the table.",
        ),
        ConfigKey(
            "quickstart.table.format",
            Type.STRING,
            "parquet",
            LOW,
            "Format of the quickstart's table.",
            one_of("parquet", "delta"),
        ),
        ConfigKey(
            "quickstart.topic.partitions",
            Type.INT,
            2,
            LOW,
            "Partitions of the quickstart's topic when it is created.",
            AtLeast(1),
        ),
    ]
)

CONNECTOR = ConfigDef(
    [
        ConfigKey(
            "connectrt.isolation",
            Type.STRING,
            "auto",
            LOW,
            "Where tasks run. process: each in its own slot. thread: always in a shared slot. auto: in a shared "
            "slot until the task is busy.",
            one_of("auto", "process", "thread", ignore_case=True),
            "Execution",
            1,
            "SHORT",
            "Isolation of tasks",
            recommended=("auto", "process", "thread"),
        ),
        ConfigKey(
            "connectrt.runtime",
            Type.STRING,
            "auto",
            LOW,
            "Which implementation is used if a class exists in Python and in Java. python: the one in Python. "
            "java: the one of a jar in plugin.path. auto: Python's, unless only a jar has the version of "
            "connector.plugin.version.",
            one_of("auto", "python", "java", ignore_case=True),
            "Execution",
            2,
            "SHORT",
            "Runtime of the connector",
            recommended=("auto", "python", "java"),
        ),
        ConfigKey(
            JAVA_HEAP,
            Type.STRING,
            None,
            LOW,
            "Heap of the JVM of a Java connector's tasks. Not set: the worker's setting.",
            heap_of_tasks,
            "Execution",
            3,
            "SHORT",
            "Heap of the tasks' JVM",
        ),
        ConfigKey(
            JAVA_OPTIONS,
            Type.STRING,
            None,
            LOW,
            "More options of that JVM, separated by spaces as in a shell. Not set: the worker's setting.",
            options_of_tasks,
            "Execution",
            4,
            "LONG",
            "Options of the tasks' JVM",
        ),
    ]
)
REFUSALS_MAX = "connectrt.errors.put.refusals.max"
OF_SINKS_ONLY = ConfigDef(
    [
        ConfigKey(
            REFUSALS_MAX,
            Type.INT,
            100,
            LOW,
            "With errors.tolerance=all, a batch that put() rejects with a DataError is halved until the bad "
            "records are found. The good ones are delivered, and the bad ones are errant. Any other error fails "
            "the task. So does this many rejections in a row without a delivery. 0: the first rejection fails the "
            "task, as in Java.",
            AtLeast(0),
            "Error Handling",
            9,
            "MEDIUM",
            "Most Refusals in a Row",
        ),
        ConfigKey(
            TASKS_AUTO,
            Type.STRING,
            None,
            LOW,
            "min..max, for example 2..16. The group's leader raises tasks.max within these bounds while records "
            "keep waiting, and lowers it when none has waited for a while. Not set: tasks.max does not change.",
            task_range,
            "Execution",
            5,
            "SHORT",
            "Tasks max, automatic",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class JobSettings(SettingsGroup):
    """Which job runs, and how much it logs."""

    definition: ClassVar[ConfigDef] = ENGINE
    connectrt_job: str
    connectrt_log_level: str | None


@dataclass(frozen=True, slots=True)
class ConnectrtEngineSettings(SettingsGroup):
    """Settings of slots, their timeouts, and the caches that a worker keeps for them."""

    definition: ClassVar[ConfigDef] = ENGINE
    connectrt_slots_max: int
    connectrt_slot_tasks_max: int
    connectrt_fused: bool
    connectrt_producers_shared: bool
    connectrt_slice_length_ms: int
    connectrt_executor_wait_ms: int
    connectrt_channel_timeout_ms: int | None  # None: see WorkerConfig.channel_timeout_ms
    connectrt_lost_work_delay_ms: int | None  # None: see WorkerConfig.lost_work_delay_ms
    connectrt_snapshot_directory: str  # empty: none are kept
    connectrt_spark_log_level: str
    connectrt_rest_login_config: str | None
    connectrt_rest_connections_max: int


@dataclass(frozen=True, slots=True)
class PluginSettings(SettingsGroup):
    """Where plug-ins are, and which other modules may be imported."""

    definition: ClassVar[ConfigDef] = RUNTIME + ENGINE
    plugin_path: tuple[str, ...] | None
    plugin_discovery: str
    connectrt_java_heap: str
    connectrt_java_options: str
    connectrt_plugins_modules: tuple[str, ...]
    connectrt_plugins_ship: bool

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders of ``plugin.path``."""
        return tuple(filter(None, self.plugin_path or ()))

    @property
    def shipped(self) -> tuple[str, ...]:
        """Return those that executors on other machines are sent."""
        return self.folders if self.connectrt_plugins_ship else ()


@dataclass(frozen=True, slots=True)
class QuickstartSettings(SettingsGroup):
    """The typed settings of ``connectrt quickstart``, parsed from a properties file."""

    definition: ClassVar[ConfigDef] = QUICKSTART
    quickstart_directory: str
    quickstart_table_format: str
    quickstart_topic_partitions: int
