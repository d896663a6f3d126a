"""Source tasks that Spark runs: the rows that ``spark.read`` or ``spark.readStream`` returns become records."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.errors import ConnectError


class SparkSourceTask:
    """Marks a task that the driver runs as Spark jobs. ``Connector.task_class`` returns it; its code is never run."""

    def start(self, config: Mapping[str, str]) -> None:
        """Always raise ConnectError: the task's host, for example a DataFrame, is not the driver of a worker."""
        raise ConnectError("Spark reads this source by itself: in a notebook use its own spark.read.format(...)")
