"""Settings of how the leader places work in a group of our own workers. Ours; Java workers ignore them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast

LOW = Importance.LOW
GROUP_RECORD_BYTES = "connectrt.group.record.max.bytes"

PLACEMENT = ConfigDef(
    [
        ConfigKey(
            GROUP_RECORD_BYTES,
            Type.INT,
            1_048_588,
            LOW,
            "Largest record, in bytes, that the brokers take for a group: their message.max.bytes, or "
            "max.message.bytes of __consumer_offsets. In a group of this product's workers only, the leader assigns "
            "no more in one round than fits, and the rest in the rounds that follow at once. The same on every worker.",
            AtLeast(4_096),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class PlacementSettings(SettingsGroup):
    """How the leader places work."""

    definition: ClassVar[ConfigDef] = PLACEMENT
    connectrt_group_record_max_bytes: int
