"""Has a header, is a tombstone, is of a topic (Java ``HasHeaderKey``, ``RecordIsTombstone``, ``TopicNameMatches``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import B, SinkRecord, SourceRecord
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import MEDIUM, ConfigDef
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.records.transforms.key_or_value import non_empty_text, required_text, valid_regex

if TYPE_CHECKING:
    import pyarrow as pa

HEADER_CONFIG = ConfigDef([required_text("name", "Name of the header.", MEDIUM, non_empty_text)])


def _pattern_check(value: Any) -> str | None:
    return non_empty_text(value) or valid_regex(value)


TOPIC_CONFIG = ConfigDef(
    [required_text("pattern", "Regular expression that the whole topic name must match.", MEDIUM, _pattern_check)]
)


class HasHeaderKey(Predicate):
    """True for records that have a header of a name."""

    takes_headers = True

    def config_def(self) -> ConfigDef:
        """Return the declaration of the header name's setting."""
        return HEADER_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the setting. Raises BadConfigError."""
        self._name: str = HEADER_CONFIG.parse(config)["name"]

    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Return whether the record has a header with this name."""
        return any(header.key == self._name for header in record.headers)

    def test_batch(self, batch: B) -> pa.BooleanArray | bool | None:
        """Return which records have the header: all, none, or some of them."""
        if any(header.key == self._name for header in batch.more_headers):
            return True
        if batch.headers is None:
            return False
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        lengths = pc.fill_null(pc.list_value_length(batch.headers), 0).to_numpy(zero_copy_only=False)
        named = pc.equal(pc.struct_field(pc.list_flatten(batch.headers), "key"), self._name)
        mask = np.zeros(len(lengths), bool)
        mask[np.repeat(np.arange(len(lengths)), lengths)[named.to_numpy(zero_copy_only=False)]] = True
        return pa.array(mask)


class RecordIsTombstone(Predicate):
    """True for records without a value."""

    takes_headers = True

    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Return whether the record's value is null."""
        return record.value is None

    def test_batch(self, batch: B) -> pa.BooleanArray | bool | None:
        """Return which values of the batch are null."""
        return batch.values.is_null() if batch.values.null_count else False


class TopicNameMatches(Predicate):
    """True for records of topics that match as a whole."""

    takes_headers = True

    def config_def(self) -> ConfigDef:
        """Return the declaration of the pattern's setting."""
        return TOPIC_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the setting. Raises BadConfigError."""
        self._pattern = java_pattern(TOPIC_CONFIG.parse(config)["pattern"])

    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Return whether the pattern matches the record's whole topic name."""
        return self._pattern.fullmatch(record.topic) is not None

    def test_batch(self, batch: B) -> pa.BooleanArray | bool | None:
        """Return whether the pattern matches the batch's topic."""
        return self._pattern.fullmatch(batch.topic) is not None


# Drops every record; with a predicate, those it is for (Java ``Filter``).


R = TypeVar("R", SourceRecord, SinkRecord)


class Filter(Transformation):
    """Drops every record that it is applied to: of use with a predicate (Java ``Filter``)."""

    def apply(self, record: R) -> R | None:
        """Return None: the record is dropped."""
        return None

    takes_headers = True

    def apply_batch(self, batch: B) -> B | None:
        """Return none of the records."""
        return batch.slice(0, 0)
