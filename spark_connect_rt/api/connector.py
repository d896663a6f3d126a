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
"""A pair (source partition, source offset), either of which may be None."""


class ExactlyOnceSupport(Enum):
    """Whether a source connector's offsets are exact: no record twice, none left out (KIP-618)."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorTransactionBoundaries(Enum):
    """Whether a source connector's tasks can define where transactions end (KIP-618)."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class ConnectorContext(Protocol):
    """The worker, as a connector sees it (Java ``ConnectorContext``)."""

    metrics: PluginMetrics = NoPluginMetrics()
    previewed: bool = False
    """Whether the connector is started for a preview's task only: then it changes nothing outside itself."""

    def request_task_reconfiguration(self) -> None:
        """Request that the worker calls ``task_configs`` again soon."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector with ``error``'s trace."""

    def record_event(self, summary: str, **details: str | int) -> None:
        """Show one sentence in the events of the group (``/admin/events``, kind ``report``), for what is rare.

        The connector's name is added. Any thread.
        """
        return


class Connector(ABC):
    """Base of both kinds. Life: ``start``, ``task_configs`` (any number of times), ``stop``."""

    context: ConnectorContext
    format_defaults: ClassVar[Mapping[str, str]] = {}
    """Default settings for reads and writes by ``format("connectrt")``, which have no worker's settings."""

    plugin_version: ClassVar[str] = __version__
    """Version of the wheel or plug-in folder of the class, set when the class is found."""

    def version(self) -> str:
        """Return the version for the connector's status; by default that of its wheel or folder."""
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

    def doubts(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return settings that are valid together and probably a mistake: setting -> the reason as a clause.

        The worker logs them when it validates the configuration, and ``POST /admin/check`` shows them as warnings.

        Args:
            config: the whole configuration. It may be invalid.
        """
        return {}

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Return why its tasks cannot run for a preview without a lasting effect; None: they can.

        In a preview a source task is started, polled, and stopped without any commit hook. A sink's task is started
        only if it has ``preview_put``. Their contexts' ``previewed`` is then True: a task that can skip its external
        changes does so, and needs no obstacle. Called on an instance that is never started.
        """
        return None

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Return the checks of this configuration that need an external system, for ``POST /admin/check``.

        Args:
            config: the whole configuration, ``${provider:...}`` resolved; it is valid.

        The worker calls each check once, on a separate thread with a time limit of some seconds. A check changes
        nothing. An error that it raises becomes a problem in the answer.
        """
        return ()


class SourceConnector(Connector):
    """A connector whose tasks are SourceTask."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return whether records and offsets are exact with this configuration.

        Called when the configuration is validated.

        None: unknown. The worker then rejects ``exactly.once.support=required``.
        """
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Return whether its tasks use ``SourceTaskContext.transaction_context``.

        Called like ``exactly_once_support``.
        """
        return ConnectorTransactionBoundaries.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check offsets that a user wants to write, and adapt any state outside of Kafka (KIP-875).

        Called while the connector is stopped, on an instance that is never started. ``offsets`` are (partition, offset)
        pairs as JSON gives them; an offset of None forgets the partition, and may name any partition.
        Returns whether the user need not do anything else by hand.
        Raises ConnectError: nothing is changed. Raises NotImplementedError: this connector's offsets cannot be changed.
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
