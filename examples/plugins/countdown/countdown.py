"""A source connector: numbers from ``countdown.from`` down to 1, then nothing. A restart goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast

CONFIG = ConfigDef(
    [
        ConfigKey("topic", Type.STRING, REQUIRED, Importance.HIGH, "Topic the numbers go to."),
        ConfigKey("countdown.from", Type.INT, 10, Importance.MEDIUM, "The first number.", AtLeast(1)),
    ]
)
BATCH = 100
WHERE = {"countdown": "main"}


class CountdownConnector(SourceConnector):
    """One task: a countdown cannot be split."""

    def config_def(self) -> ConfigDef:
        """Declare what a configuration may hold; validation and ``GET .../config`` read it."""
        return CONFIG

    def task_class(self) -> type[SourceTask]:
        """Return what does the work."""
        return CountdownTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration a task."""
        return [dict(self.config)]


class CountdownTask(SourceTask):
    """An offset is the number that comes next."""

    def start(self, config: Mapping[str, str]) -> None:
        """Go on behind the last record that was stored."""
        settings = CONFIG.parse(config)
        (stored,) = self.context.offset_reader.offsets([WHERE])
        self.topic = settings["topic"]
        self.next = stored["next"] if stored else settings["countdown.from"]

    def poll(self) -> Sequence[SourceRecord]:
        """Return up to a hundred numbers, none when it is over."""
        numbers = range(self.next, max(0, self.next - BATCH), -1)
        self.next -= len(numbers)
        return [
            SourceRecord(WHERE, {"next": number - 1}, self.topic, value={"number": number, "even": number % 2 == 0})
            for number in numbers
        ]

    def stop(self) -> None:
        """Nothing is open."""
