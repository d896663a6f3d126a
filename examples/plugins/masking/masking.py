"""A transformation: digits of a text become ``*``, all but the last ones."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.api.records import altered
from spark_connect_rt.api.transformation import R, Transformation
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast
from spark_connect_rt.errors import DataError

CONFIG = ConfigDef([ConfigKey("keep", Type.INT, 4, Importance.MEDIUM, "Digits that stay, from behind.", AtLeast(0))])


class MaskDigits(Transformation):
    """Works on records whose value is text; a tombstone passes as it is."""

    keep = 4

    def config_def(self) -> ConfigDef:
        """Declare the one setting."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take it."""
        self.keep = CONFIG.parse(config)["keep"]

    def apply(self, record: R) -> R:
        """Return the record with its value masked. Raises DataError: ``errors.tolerance`` decides what then happens."""
        if record.value is None:
            return record
        if not isinstance(record.value, str):
            raise DataError(f"MaskDigits takes text, not {type(record.value).__name__}")
        return altered(record, value=masked(record.value, self.keep))


def masked(text: str, keep: int) -> str:
    """Return the text with all digits but the last ``keep`` replaced."""
    left = max(0, sum(char.isdigit() for char in text) - keep)
    out = []
    for char in text:
        hidden = char.isdigit() and left > 0
        left -= hidden
        out.append("*" if hidden else char)
    return "".join(out)
