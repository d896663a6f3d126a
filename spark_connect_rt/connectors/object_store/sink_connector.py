"""Writes topics to files of an object store or a folder: Parquet, JSON lines, CSV or Avro, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.outside_checks import Finding, Level, OutsideCheck
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.file_stores import open_store
from spark_connect_rt.connectors.object_store.settings import CONFIG, doubts, read_settings
from spark_connect_rt.connectors.object_store.sink_task import ObjectStoreSinkTask
from spark_connect_rt.errors import BadConfigError, ConnectError


class ObjectStoreSinkConnector(SinkConnector):
    """Writes topics to files in S3, Google Cloud Storage, Azure Blob Storage or a folder, exactly once."""

    stores_offsets = True

    def config_def(self) -> ConfigDef:
        """Return the settings of the sink, under the names of Confluent's S3 sink."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of the tasks, which run on executors."""
        return ObjectStoreSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other, if each is valid alone."""
        if any(value.errors for value in CONFIG.validate(config)):
            return {}
        try:
            read_settings(config)
        except BadConfigError as error:
            return {name: list(why) for name, why in error.problems.items()}
        return {}

    def doubts(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return warnings for settings that weaken what the sink guarantees."""
        return doubts(config)

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Return a check that lists the folder of the topics, with the credentials of the settings."""
        return (lambda: _findings(config),)

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept any offsets. Files that exist are never written again, so records of them are left out."""
        return True


def _findings(config: Mapping[str, str]) -> Sequence[Finding]:
    settings = read_settings(config)
    check, setting = "credentials", "path" if config.get("path") else "s3.bucket.name"
    try:
        open_store(settings.root, config).files(settings.topics_dir)
    except ConnectError as error:
        return [Finding(check, setting, Level.PROBLEM, str(error), "Correct the address or the credentials.")]
    return [Finding(check, setting, Level.OK, f"{settings.root} can be listed with these credentials")]
