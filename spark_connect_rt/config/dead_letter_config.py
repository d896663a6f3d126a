"""The dead letter queue: declared with the settings of sinks, as in Java; here sources have one too.

Of sources ``validate`` lists these settings only where something is wrong with them: its answer stays Java's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.sink_config import OF_SINKS

PREFIX = "errors.deadletterqueue."
TOPIC_NAME = f"{PREFIX}topic.name"
DEAD_LETTERS = ConfigDef([key for key in OF_SINKS if key.name.startswith(PREFIX)])


def dead_letter_problems(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong with the dead letter queue of a source: setting -> complaints."""
    return {
        config_value.name: list(config_value.errors)
        for config_value in DEAD_LETTERS.validate(config)
        if config_value.errors
    }
