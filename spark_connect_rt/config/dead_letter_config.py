"""The dead letter queue: declared with the settings of sinks, as in Java; here sources have one too."""

from __future__ import annotations

from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.sink_config import OF_SINKS

PREFIX = "errors.deadletterqueue."
TOPIC_NAME = f"{PREFIX}topic.name"
DEAD_LETTERS = ConfigDef([key for key in OF_SINKS if key.name.startswith(PREFIX)])
