"""Source tasks that Spark itself runs: what it reads by ``spark.read`` or ``spark.readStream`` becomes records."""

from __future__ import annotations


class SparkSourceTask:
    """Marks a task that the driver runs as Spark jobs; never instantiated. ``Connector.task_class`` returns it."""
