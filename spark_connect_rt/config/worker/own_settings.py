"""Settings that only this product has: ``connectrt.*``, ``quickstart.*``. Java workers ignore them.

``spark.*`` worker properties are not declared: they are Spark's own and go to the session as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.java_hosting import heap_of_tasks, options_of_tasks
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.task_range import TASKS_AUTO, task_range
from spark_connect_rt.config.validators import AtLeast, one_of
from spark_connect_rt.config.worker.oauth_endpoints import ALLOWED_FILES, ALLOWED_URLS
from spark_connect_rt.config.worker.programs import PROGRAMS_KEY
from spark_connect_rt.config.worker.worker_config import RUNTIME

MEDIUM, LOW = Importance.MEDIUM, Importance.LOW
LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")

JAVA_HEAP, JAVA_OPTIONS = "connectrt.java.heap", "connectrt.java.options"


ENGINE = ConfigDef(
    [
        ConfigKey(
            "connectrt.job",
            Type.STRING,
            "worker",
            LOW,
            "What ./spark-submit.sh runs with this file: a distributed worker, or the quickstart.",
            one_of("worker", "quickstart"),
        ),
        ConfigKey(
            "connectrt.log.level",
            Type.STRING,
            None,
            LOW,
            "Level of the log on standard error. Not set: INFO for a worker, WARNING for the quickstart.",
            one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", ignore_case=True),
        ),
        ConfigKey(
            "connectrt.spark.log.level",
            Type.STRING,
            "WARN",
            LOW,
            "Level of Spark's own log.",
            one_of(*LOG_LEVELS),
        ),
        ConfigKey(
            "connectrt.plugins.ship",
            Type.BOOLEAN,
            True,
            LOW,
            "Send the folders of plugin.path to executors on other machines; false: they have them at the same paths.",
        ),
        ConfigKey(
            "connectrt.plugins.modules",
            Type.LIST,
            "",
            LOW,
            "Modules (each with those below it) whose classes a connector's configuration may name though no plug-in "
            "registered them; *: any that can be imported. Classes that the worker's file names are always imported.",
        ),
        ConfigKey(
            JAVA_HEAP,
            Type.STRING,
            "256m",
            MEDIUM,
            "Heap of each JVM that hosts Java plug-ins: the one beside the worker, and those of tasks unless their "
            "connector says otherwise. A JVM takes about 120 MB more than its heap.",
            heap_of_tasks,
        ),
        ConfigKey(
            JAVA_OPTIONS,
            Type.STRING,
            "",
            LOW,
            "Further options of these JVMs, separated by blanks as in a shell.",
            options_of_tasks,
        ),
        ConfigKey(
            "connectrt.lost.work.delay.ms",
            Type.INT,
            None,
            MEDIUM,
            "How long the work of a worker that is gone waits for it to come back, ms, while every member of the group "
            "is a worker of this product; with a Java worker in it, scheduled.rebalance.max.delay.ms counts. Not set: "
            "scheduled.rebalance.max.delay.ms where the file sets it, else 0 (taken over at once).",
            AtLeast(0),
        ),
        ConfigKey(
            "connectrt.snapshot.directory",
            Type.STRING,
            ".connectrt/snapshots",
            LOW,
            "Folder, relative to the working directory, for a snapshot of the offset topic: the next start reads only "
            "what came later. A cache: it may be deleted at any time, workers may share it, and one in doubt is thrown "
            "away. Empty: none is kept.",
        ),
        ConfigKey(
            "connectrt.rest.login.config",
            Type.STRING,
            None,
            LOW,
            "JAAS login file of the basic-auth extension; not set: -Djava.security.auth.login.config of KAFKA_OPTS.",
        ),
        ConfigKey(
            "connectrt.rest.connections.max",
            Type.INT,
            1_024,
            LOW,
            "Most connections that each listener has open at once; all listeners together have at most half of the "
            "files that the worker may open (ulimit -n). At the limit the idle connection that was used longest ago is "
            "closed; while all are busy only /health is served on further ones.",
            AtLeast(8),
        ),
        ConfigKey(
            "connectrt.slots.max",
            Type.INT,
            48,
            MEDIUM,
            "Most slots, that is Spark jobs with a reader and a writer process, which this worker keeps open.",
            AtLeast(1),
        ),
        ConfigKey(
            "connectrt.slot.tasks.max",
            Type.INT,
            25,
            MEDIUM,
            "Most tasks that share one slot. With a local spark.master, more of them (not Java's) share where there "
            "is a shared slot for each core already.",
            AtLeast(1),
        ),
        ConfigKey(
            "connectrt.fused",
            Type.BOOLEAN,
            True,
            LOW,
            "Both halves of a task run in the process that reads: what it moves does not go through Spark's JVM "
            "into a second process, which costs CPU for every byte. false: it does; a task then has two processes, and "
            "may have more than one core.",
        ),
        ConfigKey(
            "connectrt.producers.shared",
            Type.BOOLEAN,
            True,
            LOW,
            "Source tasks of one process with the same producer settings share connections, under the client.id "
            "connectrt-producers, unless producer.client.id or producer.override.client.id names one. false: each has "
            "its own, under the client.id that Java gives it, which broker quotas may go by.",
        ),
        ConfigKey(
            "connectrt.slice.length.ms",
            Type.LONG,
            600_000,
            LOW,
            "Length of one Spark job of a slot, ms; then its tasks go on in the next one.",
            AtLeast(1_000),
        ),
        ConfigKey(
            "connectrt.executor.wait.ms",
            Type.LONG,
            180_000,
            LOW,
            "How long tasks may wait for an executor, ms, before the worker says in /health that it is not ready. A "
            "cluster may take minutes to add a machine.",
            AtLeast(1_000),
        ),
        ConfigKey(
            "connectrt.channel.timeout.ms",
            Type.LONG,
            None,
            LOW,
            "Silence on the control channel after which driver and executors give each other up, ms. Not set: six "
            "sevenths of session.timeout.ms less heartbeat.interval.ms (6 s by default), so that executors of a worker "
            "that hangs have ended when the group gives its tasks to others. Distributed: must be less than that "
            "difference.",
            AtLeast(1),
        ),
        ConfigKey(
            ALLOWED_URLS,
            Type.LIST,
            (),
            MEDIUM,
            "Token endpoints of OAUTHBEARER that connectors may name for clients of their own, by commas. What this "
            "file's own clients use is allowed already.",
        ),
        ConfigKey(
            ALLOWED_FILES,
            Type.LIST,
            (),
            MEDIUM,
            "Files that connectors may name as file: URLs of an OAUTHBEARER token, by commas.",
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
            "Folder for everything the quickstart writes: Kafka's data, the CSV, the table.",
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
            "Where tasks run. process: each in a slot of its own; thread: always with others; "
            "auto: with others until busy.",
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
            "Which implementation runs where a class exists in Python and in Java. python: the one in Python; "
            "java: the one of a jar in plugin.path; auto: Python's, unless only a jar has the version of "
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
            "Heap of the JVM of a Java connector's tasks; not set: the worker's.",
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
            "Further options of that JVM, separated by blanks as in a shell; not set: the worker's.",
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
            "With errors.tolerance=all a batch that put() refuses by a DataError is halved down to the records to "
            "blame: good ones are delivered, bad ones are errant. Any other error fails the task. After so many "
            "refused in a row and none taken the task fails. "
            "0: the first refusal fails it, as in Java.",
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
            "min..max, such as 2..16: the group's leader raises tasks.max within these bounds while records wait for "
            "long, and lowers it when none has waited for long. Not set: tasks.max stays as it is.",
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
    """What is run, and how much it says."""

    definition: ClassVar[ConfigDef] = ENGINE
    connectrt_job: str
    connectrt_log_level: str | None


@dataclass(frozen=True, slots=True)
class EngineSettings(SettingsGroup):
    """Slots, their times, and what a worker keeps beside them."""

    definition: ClassVar[ConfigDef] = ENGINE
    connectrt_slots_max: int
    connectrt_slot_tasks_max: int
    connectrt_fused: bool
    connectrt_producers_shared: bool
    connectrt_slice_length_ms: int
    connectrt_executor_wait_ms: int
    connectrt_channel_timeout_ms: int | None  # None: WorkerConfig.channel_timeout_ms says
    connectrt_lost_work_delay_ms: int | None  # None: WorkerConfig.lost_work_delay_ms says
    connectrt_snapshot_directory: str  # empty: none are kept
    connectrt_spark_log_level: str
    connectrt_rest_login_config: str | None
    connectrt_rest_connections_max: int


@dataclass(frozen=True, slots=True)
class PluginSettings(SettingsGroup):
    """Where plug-ins are and what else may be imported."""

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
    """The settings of ``connectrt quickstart``."""

    definition: ClassVar[ConfigDef] = QUICKSTART
    quickstart_directory: str
    quickstart_table_format: str
    quickstart_topic_partitions: int
