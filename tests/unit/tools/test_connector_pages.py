"""The example of each connector's page does what the page shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.unread_settings import unread_settings
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from tests.support.connector_examples import run_example
from tools.connector_pages import PARTS, part_of
from tools.reference_docs import listed_connectors, name_of

NAMES = {name_of(plugin): plugin for plugin in listed_connectors()}
NOT_RUN = {
    "DeltaSink": "follows a consumer group: tests/integration/kafka/test_tables_in_a_worker.py",
    "IcebergSink": "follows a consumer group: tests/integration/kafka/test_tables_in_a_worker.py",
    "KafkaSink": "needs brokers: tests/integration/kafka/test_kafka_connectors.py",
    "KafkaSource": "needs brokers: tests/integration/kafka/test_kafka_connectors.py",
    "MirrorCheckpoint": "needs two clusters: tests/integration/kafka/test_mirror.py",
    "MirrorHeartbeat": "needs two clusters: tests/integration/kafka/test_mirror.py",
    "MirrorSource": "needs two clusters: tests/integration/kafka/test_mirror.py",
    "SparkFormatSource": "needs Spark: tests/integration/spark/test_spark_source.py",
    "SparkTableSink": "needs Spark: tests/integration/spark/test_spark_sink.py",
}
"""Connector -> why its example is only validated."""


def test_every_bundled_connector_has_a_part_and_no_other_has() -> None:
    assert {path.stem for path in PARTS.glob("*.md")} == set(NAMES)
    assert set(NOT_RUN) < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_of_an_example_is_valid(name: str) -> None:
    config = part_of(name).config
    connector = bundled_plugins().class_of(config["connector.class"])()
    common = SINK if NAMES[name].type == "sink" else SOURCE
    declared: ConfigDef = connector.config_def()
    problems = {
        value.name: value.errors
        for definition in (declared, common)
        for value in definition.validate(config)
        if value.errors and value.name in definition.names()
    }
    assert problems == {}
    known = {**dict.fromkeys(declared.names()), **dict.fromkeys(common.names())}
    unread = [setting.name for setting in unread_settings(config, list(known), declares_all=True)]
    assert [setting for setting in unread if ".converter." not in setting] == []


@pytest.mark.parametrize("name", sorted(NAMES.keys() - NOT_RUN.keys()))
def test_an_example_does_what_its_page_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    part = part_of(name)
    outcome = run_example(part, tmp_path)
    assert outcome.records == part.records
    assert {key: text.strip() for key, text in outcome.results.items()} == {
        key: text.strip() for key, text in part.results.items()
    }
    assert outcome.records or outcome.results
    if NAMES[name].type == "source":
        assert outcome.offsets == part.offsets
    else:
        place, _, offset = outcome.offsets[0].partition(": ")
        assert f"`{place}` at {offset}" in part.sections["Offsets"]


@pytest.mark.parametrize("name", sorted(NAMES.keys() - NOT_RUN.keys()))
def test_offsets_that_a_page_sets_are_accepted(name: str) -> None:
    part = part_of(name)
    words = [line.split("'") for line in part.text.splitlines() if line.startswith("$ connectrt offsets set")]
    for _, partition, _, offset, _ in words:
        connector = bundled_plugins().class_of(part.config["connector.class"])()
        assert connector.alter_offsets(part.config, [(json.loads(partition), json.loads(offset))])
