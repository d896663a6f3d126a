"""Settings of how the leader places work in a group of our own workers. Ours; Java workers ignore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import LOW, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of

GROUP_RECORD_BYTES = "connectrt.group.record.max.bytes"
BY_LOAD = "connectrt.placement.by.load"

PLACEMENT = ConfigDef(
    [
        ConfigKey(
            GROUP_RECORD_BYTES,
            Type.INT,
            1_048_588,
            LOW,
            "Largest group record that the brokers accept, in bytes: their message.max.bytes, or "
            "max.message.bytes of __consumer_offsets. In a group without Java workers, the leader assigns in one "
            "round only what fits. The rest follows in the next rounds. Set the same value on every worker.",
            AtLeast(4_096),
        ),
        ConfigKey(
            BY_LOAD,
            Type.STRING,
            "own",
            LOW,
            "When the leader swaps tasks between workers because one has much more load than the others. "
            "own: only in a group without Java workers. always: also with Java workers. never: not at all.",
            one_of("own", "always", "never", ignore_case=True),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class PlacementSettings(SettingsGroup):
    """How the leader places work."""

    definition: ClassVar[ConfigDef] = PLACEMENT
    connectrt_group_record_max_bytes: int
    connectrt_placement_by_load: str

    def by_load(self, own_group: bool) -> bool:
        """Return whether tasks change places by load, in a group of our own workers only or in another."""
        wanted = self.connectrt_placement_by_load.lower()
        return wanted == "always" or (wanted == "own" and own_group)
