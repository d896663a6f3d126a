from __future__ import annotations

import json

import pytest
import yaml

from spark_connect_rt.base.hidden_values import HIDDEN
from spark_connect_rt.cli.differences import config_differences, difference_lines, offset_differences, shown_config
from spark_connect_rt.cli.files import documents_of, without_twins
from spark_connect_rt.errors import BadConfigError

STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata:
  name: s
  labels: {strimzi.io/cluster: c}
spec:
  class: X
  tasksMax: 2
  state: paused
  config:
    file: /a
"""


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a.json", '{"name": "x", "config": {"connector.class": "X", "tasks.max": 3, "on": true}}'),
        ("a.json", '{"name": "x", "connector.class": "X", "tasks.max": "3", "on": "true"}'),
        ("a.json", '[{"name": "x", "type": "source", "config": {"connector.class": "X", "tasks.max": 3, "on": true}}]'),
        ("a.yaml", "name: x\nconfig:\n  connector.class: X\n  tasks.max: 3\n  on: true\n"),
        ("a.yml", "# a\n---\nitems:\n- name: x\n  connector.class: X\n  tasks.max: 3\n  on: 'true'\n"),
        ("a.properties", "name=x\nconnector.class=X\ntasks.max=3\non=true\n"),
        ("standard input", '{"name": "x", "connector.class": "X", "tasks.max": 3, "on": true}'),
        ("standard input", "name: x\nconnector.class: X\ntasks.max: 3\non: true\n"),
    ],
)
def test_every_way_to_write_a_connector(source: str, text: str) -> None:
    (document,) = documents_of(text, source)
    assert document.name == "x"
    assert document.config == {"name": "x", "connector.class": "X", "tasks.max": "3", "on": "true"}


def test_yaml_keeps_the_text_of_values() -> None:
    text = "name: x\nconnector.class: X\na: no\nb: 007\nc: 2026-11-21\nd: 1e3\ne: ''\nf: 'null'\n---\nname: y\n"
    document, two = documents_of(text, "a.yaml")
    assert {key: document.config[key] for key in "abcdef"} == {
        "a": "no",
        "b": "007",
        "c": "2026-11-21",
        "d": "1e3",
        "e": "",
        "f": "null",
    }
    assert two.name == "y"


def test_strimzis_resource_and_initial_values() -> None:
    (document,) = documents_of(STRIMZI, "s.yaml")
    assert document.config == {"name": "s", "connector.class": "X", "tasks.max": "2", "file": "/a"}
    assert (document.state, document.initial_state) == ("PAUSED", None)
    body = {"name": "x", "config": {}, "initial_state": "stopped", "initial_offsets": [{"partition": {}, "offset": {}}]}
    (two,) = documents_of(json.dumps(body), "x.json")
    assert (two.initial_state, two.initial_offsets) == ("STOPPED", [{"partition": {}, "offset": {}}])


@pytest.mark.parametrize(
    ("source", "text", "words"),
    [
        ("a.json", "{", "Expecting property name"),
        ("a.json", "3", "expected a connector"),
        ("a.json", "{}", "without a name"),
        ("a.json", '{"name": "x", "a": "1", "a": "2"}', "a is set twice"),
        ("a.json", '{"name": "x", "a": {"b": 1}}', "the setting a has a structure instead of a text"),
        ("a.json", "[" * 100_000, "recursion"),
        ("a.yaml", "name: x\na:\n", "the setting a has no value"),
        ("a.yaml", "name: x\na: 1\na: 2\n", "a is set twice"),
        ("a.yaml", "a: [\n", "while parsing"),
        ("a.yaml", "? [a]\n: b\n", "unhashable"),
        ("a.yaml", "name: !!python/object/apply:os.system [x]\n", "without a name"),
        ("a.yaml", "", "contains no connector"),
        ("a.yaml", "&a [*a]", "recursive"),
        (
            "a.yaml",
            "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nname: x\n",
            "a structure instead of a text",
        ),
        ("a.properties", "name=\\u12", "four hexadecimal"),
    ],
)
def test_invalid_document_is_refused_with_its_file(source: str, text: str, words: str) -> None:
    with pytest.raises(BadConfigError) as raised:
        documents_of(text, source)
    assert words in str(raised.value)
    assert source in str(raised.value)


def test_a_name_in_two_files_is_refused() -> None:
    twins = [*documents_of('{"name": "x"}', "a.json"), *documents_of('{"name": "x"}', "b.json")]
    with pytest.raises(BadConfigError, match=r"b\.json: connector x is also in a\.json"):
        without_twins(twins)


def test_differences_hide_secrets_but_not_references() -> None:
    before = {"a": "1", "b": "2", "db.password": "old", "c": "same"}
    after = {"a": "1", "b": "3", "db.password": "new", "c": "same", "api.key": "${file:/x:y}"}
    assert [line for line, _ in difference_lines(config_differences(before, after))] == [
        "+ api.key = ${file:/x:y}",
        "- b = 2",
        "+ b = 3",
        "- db.password = [hidden]",
        "+ db.password = [hidden]",
    ]


def test_secret_values_are_hidden_whatever_their_setting() -> None:
    config = {
        "connection.url": "jdbc:postgresql://me:pw@db/x",
        "consumer.override.ssl.keystore.key": "-----BEGIN",
        "storage.account.key": "abc",
        "file": "/secret/in",
    }
    shown = shown_config(config)
    assert [name for name, value in shown.items() if value == HIDDEN] == list(config)[:3]


def test_differences_of_offsets_go_by_partition() -> None:
    before = [{"partition": {"a": 1, "b": 2}, "offset": {"n": 1}}, {"partition": {"a": 2}, "offset": {"n": 5}}]
    after = [{"partition": {"b": 2, "a": 1}, "offset": {"n": 2}}, {"partition": {"a": 2}, "offset": None}]
    assert [(difference.before, difference.after) for difference in offset_differences(before, after)] == [
        ('{"n": 1}', '{"n": 2}'),
        ('{"n": 5}', None),
    ]


CONFIG_MAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
---
"""


def test_kubernetes_documents_of_other_kinds_are_skipped_by_name(caplog: pytest.LogCaptureFixture) -> None:
    text = CONFIG_MAP + "name: one\nconfig:\n  connector.class: FileStreamSource\n"
    assert [document.name for document in documents_of(text, "all.yaml")] == ["one"]
    assert "all.yaml: document 1 is the ConfigMap settings: skipped, not a connector" in caplog.text
    with pytest.raises(BadConfigError, match="contains no connector: document 1 is the ConfigMap settings"):
        documents_of(CONFIG_MAP, "all.yaml")


@pytest.mark.parametrize(
    "text",
    [
        f"apiVersion: v1\nkind: List\nitems:\n- {json.dumps(yaml.safe_load(STRIMZI))}\n",
        json.dumps({"kind": "KafkaConnectorList", "items": [yaml.safe_load(STRIMZI)]}),
        json.dumps({"kind": "ConfigMap", "metadata": {}, "data": {"s.yaml": STRIMZI, "worker.properties": "a=b"}}),
        json.dumps({"kind": "ConfigMap", "data": {"s.json": '{"name": "s", "connector.class": "X"}', "x.json": "{"}}),
        json.dumps({"kind": "ConfigMap", "data": {"s.properties": "name=s\nconnector.class=X\n", "README": "{"}}),
        json.dumps({"s": {"info": {"name": "s", "config": {"connector.class": "X"}, "tasks": [], "type": "source"}}}),
    ],
)
def test_document_with_connectors_is_read(text: str) -> None:
    (document,) = documents_of(text, "all.yaml")
    assert (document.name, document.config["connector.class"]) == ("s", "X")


@pytest.mark.parametrize(
    ("source", "text", "words"),
    [
        ("a.yaml", "kind: Service\nmetadata: {name: web}\n", "document 1 is the Service web"),
        ("a.yaml", "apiVersion: v1\nkind: List\nitems: [{kind: Pod, spec: {}}]\n", "document 1 is a Pod"),
        ("a.yaml", "kind: KafkaConnector\nmetadata: {name: s}\n", "the KafkaConnector s has no spec"),
        ("a.yaml", "services: {db: {image: x}}\n", "document 1 is a Docker Compose file"),
        ("a.json", '{"name": "x", "connector": {"state": "RUNNING"}, "tasks": []}', "is the status of a connector"),
        ("a.json", '{"offsets": []}', "is a list of offsets"),
        ("a.properties", "bootstrap.servers=x:1\ngroup.id=g\n", "is the settings of a worker"),
    ],
)
def test_document_of_another_kind_is_refused_naming_that_kind(source: str, text: str, words: str) -> None:
    with pytest.raises(BadConfigError, match=words):
        documents_of(text, source)
