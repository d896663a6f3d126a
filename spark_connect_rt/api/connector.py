"""Connectors: they split work into task configurations and move no data (Java ``Connector``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

from spark_connect_rt._version import __version__
from spark_connect_rt.api.outside_checks import OutsideCheck
from spark_connect_rt.api.task import NoPluginMetrics, PluginMetrics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef

SourceOffset = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""(source partition, source offset)."""


class ExactlyOnceSupport(Enum):
    """Whether a source connector's offsets are exact: no record twice, none left out (KIP-618)."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorTransactionBoundaries(Enum):
    """Whether a source connector's tasks can say where transactions end (KIP-618)."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorContext(Protocol):
    """What a connector may ask of its worker."""

    metrics: PluginMetrics = NoPluginMetrics()
    previewed: bool = False
    """Whether the connector is started for a preview's task only: then it changes nothing outside itself."""

    def request_task_reconfiguration(self) -> None:
        """Have ``task_configs`` called again soon."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector with ``error``'s trace."""


class Connector(ABC):
    """Base of both kinds. Life: ``start``, ``task_configs`` (any number of times), ``stop``."""

    context: ConnectorContext
    format_defaults: ClassVar[Mapping[str, str]] = {}
    """Settings that ``format("connectrt")`` takes where a read or a write gives none: no worker's are behind it."""

    plugin_version: ClassVar[str] = __version__
    """Of the wheel or plug-in folder that the class came with: set where it is found."""

    def version(self) -> str:
        """Return the version of the connector's status; by default that of the wheel or folder it came with."""
        return self.plugin_version

    @abstractmethod
    def config_def(self) -> ConfigDef:
        """Return the connector's own settings; the common ones are added by the runtime."""

    @abstractmethod
    def task_class(self) -> type[Any]:
        """Return the task class that runs on executors; importable there by module and name."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Split the work into at most ``max_tasks`` configurations."""

    def start(self, config: Mapping[str, str]) -> None:
        """Begin with the whole connector configuration, ``${provider:...}`` resolved."""
        self.config = dict(config)

    def stop(self) -> None:
        """End; called once, also after a failed ``start``."""

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return problems that no single setting shows: setting -> messages."""
        return {}

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Say why its tasks cannot run for a preview without leaving something behind; None: they can.

        In a preview a source task is started and polled, and stopped without any commit hook; a sink's task only where
        it has ``preview_put``. Their contexts' ``previewed`` is then True: a task that can leave out what changes
        something outside does so, and needs no obstacle. Asked of an instance that is never started.
        """
        return None

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Return what only the world outside can tell of this configuration, for ``POST /admin/check``.

        Args:
            config: the whole configuration, ``${provider:...}`` resolved; it is valid.

        Each check is called once, on a thread of its own with a limit of some seconds, and changes nothing. What it
        raises becomes a problem.
        """
        return ()


class SourceConnector(Connector):
    """A connector whose tasks are SourceTask."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Tell whether records and offsets are exact with this configuration; asked when it is validated.

        None: the connector does not say; ``exactly.once.support=required`` is then refused.
        """
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Tell whether its tasks use ``SourceTaskContext.transaction_context``; asked as ``exactly_once_support``."""
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check offsets that a user wants to write, and bring what is kept elsewhere in step (KIP-875).

        Called while the connector is stopped, on an instance that is never started. ``offsets`` are (partition,
        offset) pairs as JSON gives them; an offset of None forgets the partition, and may name any partition.

        Returns whether nothing is left to be done by hand. Raises ConnectError: nothing is changed;
        NotImplementedError: this connector's offsets cannot be changed from outside.
        """
        return False


class SinkConnector(Connector):
    """A connector whose tasks are SinkTask."""

    stores_offsets: ClassVar[bool] = False
    """Whether the target stores the offsets of topics with the data, and its tasks leave out what it has already.

    Such a sink cannot take rows that come from no topic, as ``df.write.format("connectrt")`` gives them.
    """

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """As of a source connector, with the offsets of its consumer group; None forgets a partition's."""
        return False


class SparkSinkConnector(SinkConnector):
    """A sink that Spark itself writes: batches of the topic become a DataFrame, ``df.write.format(...)``.

    Its tasks hold no code on executors; ``task_class`` names the marker class SparkSinkTask.
    """


class SparkSinkTask:
    """Marks a task that the driver runs as bounded Spark jobs; never instantiated."""
