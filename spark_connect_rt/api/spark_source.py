"""Source tasks that Spark itself runs: what it reads by ``spark.read`` or ``spark.readStream`` becomes records."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.errors import ConnectError


class SparkSourceTask:
    """Marks a task that the driver runs as Spark jobs. ``Connector.task_class`` returns it; its code is never run."""

    def start(self, config: Mapping[str, str]) -> None:
        """Refuse. Raises ConnectError: its host, a DataFrame for one, is no worker's driver."""
        raise ConnectError("Spark reads this source by itself: in a notebook use its own spark.read.format(...)")
