"""REST extensions: they see every request first, and may add paths (Java ``ConnectRestExtension``).

An extension is an ASGI middleware and a few routes. It reads the state of the cluster from ``ClusterState``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
"""An ASGI application: (scope, receive, send)."""


class ClusterState(Protocol):
    """The workers and their connectors, as an extension may read them (Java ``ConnectClusterState``)."""

    def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster, empty while unknown."""

    def list_connectors(self) -> list[str]:
        """Return every connector's name, sorted."""

    def connector_config(self, name: str) -> Mapping[str, str]:
        """Return a connector's configuration. Raises NotFoundError: there is no such connector."""


class ConnectRestExtension:
    """Made without arguments, configured once, then put around the REST API, the first of the list outermost."""

    def version(self) -> str:
        """Return the version that ``/admin/plugins`` shows."""
        return ""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the worker's configuration. Raises BadConfigError: the worker does not start."""

    def wrap(self, app: Asgi, cluster: ClusterState) -> Asgi:
        """Return an application that answers a request itself or hands it on to ``app``."""
        return app

    def routes(self, cluster: ClusterState) -> Sequence[tuple[str, str, Asgi]]:
        """Return a (method, path, application) for each path that the extension adds. In Java: JAX-RS resources."""
        return ()

    def close(self) -> None:
        """Called once, when the worker stops."""
