"""The execution engine as the worker sees it: commands go in as values, events come back as values.

Implementations: engine.driver.engine (the real one), testing.memory_task_runner (threads, no Spark). Both pass
tests/contract/task_runner_contract.py. The engine knows nothing of the herder, REST, groups or stores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

import orjson

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.config_def import ConfigValue
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_config import FlushSettings
from spark_connect_rt.kafka.interfaces import GroupGeneration

# How what a task measures itself is named on its way from an executor: one text for group, name, tags and part.
#
# Owns that text; ``engine.executor.task_meter`` writes it, ``runtime.worker.plugin_metrics`` reads it.


PREFIX = "plugin:"
COUNT = "count"  # the part that is counted
VALUE = "value"  # the part that is a current value
JMX = "jmx:"  # before the domain of a Java plug-in's MBeans, as their group
SUM, NUMBER, MOST, LEAST = "sum", "number", "most", "least_negated"  # of what was observed


class PluginMetricKey(NamedTuple):
    """A metric that a task defines; ``tags`` are added to those of its task."""

    group: str
    name: str
    tags: Mapping[str, str]

    def encode(self) -> str:
        """Return the text; equal keys have equal ones."""
        return PREFIX + orjson.dumps(tuple(self), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def decode(cls, text: str) -> PluginMetricKey:
        """Return the key of a text that ``encode`` made."""
        return cls(*orjson.loads(text.removeprefix(PREFIX)))


def part_of(key: str, part: str) -> str:
    """Return the name that one part of a metric is counted under."""
    return f"{key}#{part}"


def is_value(name: str) -> bool:
    """Return whether a metric is a current value and not a total."""
    return name.endswith(f"#{VALUE}")


def parted(name: str) -> tuple[str, str]:
    """Return the key and the part of a name that ``part_of`` made."""
    key, _, part = name.rpartition("#")
    return key, part


# Java plug-ins, as the runtime and executors see them: how to host one, and the answers of a connector's class.


DEFAULT_HEAP = "256m"
WARM_UP = "spark_connect_rt.engine.java_host.jvm_pool:warm_up"
"""The function that an executor calls before a task is there: (JavaCode, worker's settings, ExecutorClients). Blocks.
"""


@dataclass(frozen=True, slots=True)
class JavaCode:
    """Java plug-ins of one task and the JVM that hosts them. Pickles. Equal ones may share a JVM, unless ``alone``."""

    plugins: tuple[str, ...]
    """Folders of jars, or single jars, as they are on the driver: the connector's own first, then what its chain of
    converters and transformations also need. Empty: all is in Connect's own jars."""
    heap: str = DEFAULT_HEAP  # as of -Xmx
    options: tuple[str, ...] = ()  # of the JVM, in addition to ours
    alone: bool = False  # connectrt.isolation=process: a JVM for this task only
    levels: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # of Java's loggers when it starts
    connector_class: str = ""  # Java's name
    connector_version: str = ""  # as the driver found it; empty: the plug-in has none
    contents: tuple[str, ...] = ()
    """Digests of what is in ``plugins``: other jars at a place need a JVM that has not loaded those of before."""


class JavaConnector(ABC):
    """The runtime's questions to the Python class that stands for a Java connector, in addition to a connector's."""

    content: ClassVar[str] = ""  # digest of what is at its location

    @property
    @abstractmethod
    def java_class(self) -> str:
        """Return Java's name of the connector class."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Return where its jars are on the driver."""

    @property
    @abstractmethod
    def java_task_class(self) -> str:
        """Return Java's name of the task class, as the config topic holds it."""

    @property
    @abstractmethod
    def executor_task_class(self) -> str:
        """Return ``package.module:Class`` of what hosts its tasks on an executor."""

    @abstractmethod
    def config_values(self, config: Mapping[str, str]) -> Sequence[ConfigValue]:
        """Return what the connector's own validation says of every setting. Raises ConnectError."""


class TaskKind(Enum):
    """How a task is hosted."""

    SOURCE = "source"
    SINK = "sink"
    SPARK_SINK = "spark-sink"


@dataclass(frozen=True, slots=True)
class TaskLaunch:
    """Everything an executor needs to run one task. Pickles; holds no client; secrets still unresolved."""

    task: ConnectorTaskId
    run: int  # unique per start on this worker; every report carries it, an older run's report is refused
    generation: int  # of the group when the task was started
    kind: TaskKind
    task_class: str  # "package.module:ClassName"
    config: StoredConfig  # the task's configuration
    connector_config: StoredConfig  # the connector's: transforms, converters, error tolerance, isolation
    worker_config: Mapping[str, str]  # converter defaults, config providers, what is allowed
    client_config: Mapping[str, str] = field(default_factory=dict)  # producer (source) or consumer (sink), Java names
    paused: bool = False
    flush: FlushSettings = field(default_factory=lambda: FlushSettings.of({}))
    dead_letter_producer: Mapping[str, str] = field(
        default_factory=dict
    )  # of a sink's dead letter queue, if it has one
    dead_letter_admin: Mapping[str, str] = field(default_factory=dict)  # to create that of either kind
    topic_admin: Mapping[str, str] = field(default_factory=dict)  # sources that make their topics; else empty
    offsets_topic: str = ""  # exactly-once sources: where offsets go, in the records' own transaction; else empty
    secret_settings: tuple[str, ...] = ()  # names of the connector's settings that no trace and no log may show
    java: JavaCode | None = None  # a Java task's; its class is ``config["task.class"]``, ``task_class`` hosts it
    isolation: str = "auto"  # connectrt.isolation, resolved
    fused: bool = False  # both halves in the process that reads: nothing of it goes through Spark's JVM

    def __post_init__(self) -> None:
        """Convert plain texts, as messages or tests pass them, to StoredConfig: launches hold unresolved settings."""
        object.__setattr__(self, "config", StoredConfig.of(self.config))
        object.__setattr__(self, "connector_config", StoredConfig.of(self.connector_config))


@dataclass(frozen=True, slots=True)
class Start:
    """Start a run. Events: TaskRunning (or TaskPaused), BatchDurable ..., TaskFailed?, TaskEnded.

    The runner replaces lost infrastructure (executor, Python process, control channel). It starts the task again
    elsewhere under the same run, from the committed offsets, once the lost side is certainly dead.
    After minutes of losses alone in its process and without progress it reports TaskFailed.
    """

    launch: TaskLaunch

    @property
    def task(self) -> ConnectorTaskId:
        """The task, as every command names it."""
        return self.launch.task


@dataclass(frozen=True, slots=True)
class Pause:
    """Drain the task and keep it idle; answered by TaskPaused."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume a paused task; answered by TaskRunning."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class Stop:
    """Drain and end; at the deadline cancel, and wait until it is certainly dead: TaskEnded."""

    task: ConnectorTaskId
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Assign:
    """Sinks: start reading these partitions at these offsets, in addition to what it reads already.

    An offset of -1 means the beginning, -2 the end (auto.offset.reset).
    """

    task: ConnectorTaskId
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Sinks: stop reading, flush, close: PartitionsReleased, once for each command that named the partition.

    At the deadline the task's hosting is killed, and the partitions are released when it is certainly dead; the run
    continues elsewhere without them, or fails.
    """

    task: ConnectorTaskId
    partitions: tuple[TopicPartition, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class NoteGeneration:
    """Sinks: the task's group member has joined this generation; known before what was assigned in it is read."""

    task: ConnectorTaskId
    generation: GroupGeneration


@dataclass(frozen=True, slots=True)
class Expect:
    """A task of a Java connector is likely to be started soon: its JVM may start meanwhile. No event follows.

    A JVM without a task ends by itself. Its errors do not fail any task.
    """

    task: ConnectorTaskId
    java: JavaCode
    worker_config: Mapping[str, str]  # as of the launch


TaskCommand = Start | Pause | Resume | Stop | Assign | Revoke | NoteGeneration | Expect
"""All but Start and Expect are for a run that was started; when it has ended they are dropped."""


@dataclass(frozen=True, slots=True)
class TaskRunning:
    """``start`` returned, or the task was resumed."""

    task: ConnectorTaskId
    run: int


@dataclass(frozen=True, slots=True)
class TaskPaused:
    """The task polls no more until resumed; everything before it is durable."""

    task: ConnectorTaskId
    run: int


@dataclass(frozen=True, slots=True)
class BatchDurable:
    """A batch is where it belongs; its offsets may be committed (I3: only after this)."""

    task: ConnectorTaskId
    run: int
    generation: int
    records: int
    data_bytes: int
    source_offsets: tuple[tuple[Mapping[str, Any], Mapping[str, Any] | None], ...] = ()  # (partition, offset)
    sink_offsets: tuple[tuple[TopicPartition, int], ...] = ()  # next offset to read
    skipped: int = 0  # errant records tolerated
    topics: tuple[str, ...] = ()  # topics written (source) or read (sink)


@dataclass(frozen=True, slots=True)
class PartitionsReleased:
    """A sink task flushed and closed these partitions; their BatchDurable came before."""

    task: ConnectorTaskId
    run: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """The task's own code or data failed; nothing more comes from this run but TaskEnded."""

    task: ConnectorTaskId
    run: int
    trace: str


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """Nothing of this run is alive any more, anywhere: it may be handed over. The last event of a run.

    ``drained`` False: it was cancelled at the deadline, and records that were not durable are read again.
    """

    task: ConnectorTaskId
    run: int
    drained: bool
    records: int = 0
    on_committed: Callable[[], None] | None = field(default=None, compare=False)
    """To be called before the run is over, if its consumer group holds every offset of it."""


@dataclass(frozen=True, slots=True)
class TaskMeasured:
    """The work of one half of a task since its hosting ``host`` began, and whether one call takes long."""

    task: ConnectorTaskId
    run: int
    host: int
    half: str  # reader, writer
    totals: Mapping[str, float]  # such as poll.records, put.calls, put.ms (engine.executor.task_meter)
    longest: Mapping[str, float]  # such as put.ms_max, since the last report
    call: str = ""  # such as put: it has not returned
    call_ms: int = 0  # for so long
    positions: tuple[tuple[TopicPartition, int], ...] = ()  # sinks: next offset to read
    where: str = ""  # machine:pid of the executor's process
    away: str = ""  # that no broker of a cluster which this half needs answers, and why
    away_ms: int = 0  # for so long
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # sentences and details for the events of the group
    topics: tuple[str, ...] = ()  # sinks that are asked seldom what may be committed: put of since the last report


@dataclass(frozen=True, slots=True)
class TaskWaiting:
    """The cluster gives no executor: the task has waited so long to be hosted. 0: it waits no more."""

    task: ConnectorTaskId
    run: int
    waited_ms: int
    why: str = ""  # why no process can be opened for it; empty: none failed
    is_late: bool = True  # it has waited for connectrt.executor.wait.ms, so its worker is not healthy


TaskEvent = (
    TaskRunning | TaskPaused | BatchDurable | PartitionsReleased | TaskMeasured | TaskWaiting | TaskFailed | TaskEnded
)
OnTaskEvent = Callable[[TaskEvent], None]
"""Called from the engine's threads, in order per run; must be quick and must not raise."""

ReadOffsets = Callable[[ConnectorTaskId, Sequence[Mapping[str, Any]]], list[Mapping[str, Any] | None]]
"""Source offsets for a task's OffsetReader; called from the engine's threads; may block (reads to the end)."""


class TaskRunner(Protocol):
    """Hosts tasks. Every method returns at once; failures come as events. Any thread."""

    def open(self, on_event: OnTaskEvent, read_offsets: ReadOffsets) -> None:
        """Begin; launches made before the cluster is up wait for it. Called once."""

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Keep executors alive, and start or recover anything, only while this holds (E5). Before ``open``."""

    def do(self, command: TaskCommand) -> None:
        """Carry out a command; those of one task in the order they came."""

    def close(self, timeout_ms: int) -> None:
        """Stop every run, then the engine. Blocks; TaskEnded for each run has come when it returns."""
