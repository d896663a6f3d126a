"""Options of format("connectrt"): the format's own, and a configuration whose names lost their case on the way."""

from __future__ import annotations

import json

import pytest

from spark_connect_rt.connectors.files.file_stream_source import FileStreamSourceConnector
from spark_connect_rt.connectors.topics.kafka_source import KafkaSourceConnector
from spark_connect_rt.engine.datasource.named_connector import plugin_for_spark
from spark_connect_rt.engine.datasource.read_options import COLUMNS, ReadLimits, connector_config, parse_options
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins

FILE = {"connector.class": "FileStreamSource", "file": "/x", "topic": "t"}


def cased(options: dict[str, str]) -> dict[str, str]:
    lower = {name.lower(): value for name, value in options.items()}  # as Spark hands them on
    parsed = parse_options(FILE | lower)
    return connector_config(parsed.config, FileStreamSourceConnector(), KafkaExecutorClients().plugin)


def test_names_below_aliases_get_their_case_back() -> None:
    options = {
        "transforms": "InsertX, routeY",
        "transforms.InsertX.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.InsertX.static.field": "a",
        "transforms.InsertX.static.value": "B",
        "transforms.routeY.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.routeY.predicate": "IsThere",
        "predicates": "IsThere",
        "predicates.IsThere.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    config = cased(options)
    assert {name: config.get(name) for name in options} == options


def test_the_option_config_is_taken_as_it_stands() -> None:
    parsed = parse_options({"config": json.dumps({"Strange.Name": "1", "topic": "of config"}), "topic": "of option"})
    assert parsed.config == {"Strange.Name": "1", "topic": "of config"}


def test_defaults_are_there_and_can_be_changed() -> None:
    assert cased({})["value.converter"] == "org.apache.kafka.connect.json.JsonConverter"
    assert cased({"value.converter": "x", "tasks.max": "3"}) | {"value.converter": "x", "tasks.max": "3"} == cased(
        {"value.converter": "x", "tasks.max": "3"}
    )


def test_a_read_of_another_cluster_keeps_bytes_by_default() -> None:
    names, value = ("key.converter", "value.converter", "header.converter"), "value.converter"
    source, clients = KafkaSourceConnector(), KafkaExecutorClients()
    options = {"source.bootstrap.servers": "there:9092", "topics": "orders"}
    config = connector_config(parse_options(options).config, source, clients.plugin)
    assert {config[name] for name in names} == {"org.apache.kafka.connect.converters.ByteArrayConverter"}
    assert int(config["poll.max.records"]) > 5_000  # a worker's default: batches as large as a chunk of an answer
    config = connector_config(parse_options(options | {value: "x"}).config, source, clients.plugin)
    assert config[value] == "x"
    with pytest.raises(
        BadConfigError, match=r"header.converter.*must be set"
    ):  # also of a worker: its own are behind it
        connector_config(parse_options(options | {"header.converter": ""}).config, source, clients.plugin)


def test_limits_and_starting_offsets() -> None:
    offsets = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 4}}, {"partition": {"g": 1}}]}
    options = {"until": "LATEST", "idleMs": "20", "maxRecords": "7", "maxBytes": "100"}
    parsed = parse_options(options | {"startingOffsets": json.dumps(offsets)})
    assert parsed.limits == ReadLimits("latest", 20, 7, 100)
    assert parsed.starting == (({"filename": "f"}, {"position": 4}), ({"g": 1}, None))
    assert parse_options({"startingOffsets": "earliest"}).starting == ()


def test_shares_of_all_tasks_keep_to_the_limits() -> None:
    whole = ReadLimits(max_records=7, max_bytes=10)
    shares = [whole.share(3, task) for task in range(3)]
    assert [share.max_records for share in shares] == [3, 2, 2]
    assert [share.max_bytes for share in shares] == [4, 3, 3]
    assert ReadLimits().share(3, 1) == ReadLimits()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("until", "noon", "not valid. Use idle or latest"),
        ("maxRecords", "-1", "not a number"),
        ("maxBytes", "1k", "not a number"),
        ("idleMs", "", "not a number"),
        ("config", "{", "not JSON"),
        ("config", '{"a": 1}', "object of strings"),
        ("startingOffsets", "latest", "not JSON"),
        ("startingOffsets", "{}", "GET /connectors"),
        ("startingOffsets", '{"offsets": [{}]}', "GET /connectors"),
        ("connect.url", "http://x", "Set connector to its name"),
        ("commitOffsets", "yes", "not valid. Use connect or none"),
        ("columns", "value, offset", "there is no column 'offset', only topic, partition, key, value"),
        ("columns", "", "there is no column ''"),
        ("columns", "value,Value", "has a column twice"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: str, said: str) -> None:
    with pytest.raises(BadConfigError, match=said) as caught:
        parse_options({option: value})
    assert list(caught.value.problems) == [option]


def test_columns_are_those_of_the_read_in_their_order() -> None:
    assert parse_options({"columns": " Value,topic"}).columns == ("value", "topic")
    assert parse_options({}).columns == tuple(COLUMNS)
    with pytest.raises(BadConfigError, match="has no value, but decode needs it"):
        parse_options({"columns": "key", "decode": "json", "decodeKey": "json"})


def test_every_wrong_option_is_named_at_once() -> None:
    with pytest.raises(BadConfigError) as caught:
        parse_options({"until": "x", "maxRecords": "y", "valueType": "bigint", "decodeKey.a": "1"})
    assert set(caught.value.problems) == {"until", "maxRecords", "decode", "decodeKey"}


@pytest.mark.parametrize(("options", "named"), [({"topic": ""}, "topic"), ({"batch.size": "many"}, "batch.size")])
def test_option_that_the_connector_refuses_is_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        cased(options)
    assert named in caught.value.problems


def test_an_unknown_connector_is_refused_with_the_way_to_install_ones_own_for_spark() -> None:
    plugin = bundled_plugins().class_of
    with pytest.raises(NotFoundError) as refused:
        plugin_for_spark(plugin, "OrdersSource")
    words = str(refused.value)
    assert "which name matches OrdersSource. To use your own connector, install its wheel with pip" in words
    assert "FileStreamSink" not in words
    assert plugin_for_spark(plugin, "FileStreamSource").__name__ == "FileStreamSourceConnector"
