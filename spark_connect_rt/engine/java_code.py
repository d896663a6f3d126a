"""Java plug-ins, as the inside sees them: what an executor must know to host one, what a connector's class answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from spark_connect_rt.config.config_def import ConfigValue

DEFAULT_HEAP = "256m"
WARM_UP = "spark_connect_rt.engine.java_host.slot_hosts:warm_up"
"""What an executor calls before a task is there: (JavaCode, worker's settings, ExecutorClients). Blocks."""


@dataclass(frozen=True, slots=True)
class JavaCode:
    """Java plug-ins of one task and the JVM that hosts them. Pickles. Equal ones may share a JVM, unless ``alone``."""

    plugins: tuple[str, ...]
    """Folders of jars, or single jars, as they are on the driver: the connector's own first, then what its chain of
    converters and transformations needs besides. Empty: all is in Connect's own jars."""
    heap: str = DEFAULT_HEAP  # as of -Xmx
    options: tuple[str, ...] = ()  # of the JVM, besides ours
    alone: bool = False  # connectrt.isolation=process: a JVM for this task only
    levels: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # of Java's loggers when it starts
    connector_class: str = ""  # Java's name
    connector_version: str = ""  # as the driver found it; empty: the plug-in has none
    contents: tuple[str, ...] = ()
    """Digests of what is in ``plugins``: other jars at a place need a JVM that has not loaded those of before."""


class JavaConnector(ABC):
    """What the runtime asks of the Python class that stands for a Java connector, beside what all connectors answer."""

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
