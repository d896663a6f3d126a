"""What a validation says beyond Java's recorded answers (tests/parity/golden/test_plugins.py compares those)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import BadConfigError, BadRequestError
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.plugin_desc import SOURCE, bundled
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_requests import ConfigInfos
from spark_connect_rt.runtime.herder.validation import NULL_VALUE, checked_config, validated
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_state import ClusterConfigState

CONFIG = {"name": "a", "connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines"}
SECRETS = {"${vault:count}": "not-a-number", "${vault:topic}": "hidden-topic", "${vault:empty}": ""}


class Picky(MemorySource):
    """Does not like a setting that every connector has."""

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        return {"tasks.max": ["too many"], "unheard.of": ["never heard of it"]}


class NoColours(ConnectorClientConfigOverridePolicy):
    def problems(self, connector_config: Mapping[str, str]) -> Mapping[str, str]:
        return {name: "no colours" for name in connector_config if name.endswith(".override.colour")}


@pytest.fixture(scope="module")
def deps() -> Iterator[HerderDependencies]:
    own = [bundled(f"{__name__}:Picky", SOURCE, "Picky"), bundled("no.such.module:Gone", "converter", "Gone")]
    with InProcessCluster() as cluster:
        worker = cluster.add_worker()
        yield replace(worker.herder._deps, plugins=Plugins([*BUNDLED, *own]), resolve=resolved)


def resolved(config: Mapping[str, str]) -> dict[str, str]:
    return {name: SECRETS.get(value, value) for name, value in config.items()}


def found(infos: ConfigInfos, name: str) -> Any:
    return next(config.value for config in infos.configs if config.value is not None and config.value.name == name)


def test_values_of_references_are_never_shown(deps: HerderDependencies) -> None:
    given = CONFIG | {"tasks.max": "${vault:count}", "topic": "${vault:topic}", "batch.size": "${vault:empty}"}
    infos = validated(deps, given)
    assert found(infos, "topic").value == "${vault:topic}"
    assert found(infos, "tasks.max").errors[0] == (
        "Invalid value ${vault:count} for configuration tasks.max: Not a number of type INT"
    )
    assert found(infos, "batch.size").errors
    assert not [
        config for config in infos.configs if any(secret and secret in repr(config) for secret in SECRETS.values())
    ]


def test_a_configuration_is_refused_for_what_a_validation_says(deps: HerderDependencies) -> None:
    given = CONFIG | {"tasks.max": "0", "transforms": "t", "value.converter": "Nope", "topic": ""}
    with pytest.raises(BadConfigError) as refused:
        checked_config(deps, "a", given)
    infos = validated(deps, given)
    assert refused.value.problems == infos.problems()
    assert set(infos.problems()) == {"tasks.max", "topic", "transforms.t.type", "value.converter"}
    assert infos.error_count == 4


def test_a_good_configuration_is_written_as_it_came(deps: HerderDependencies) -> None:
    given = {name: value for name, value in CONFIG.items() if name != "name"} | {"topic": "${vault:topic}"}
    assert checked_config(deps, "a", given) == {**given, "name": "a"}
    with pytest.raises(BadRequestError, match="doesn't match connector name in the URL"):
        checked_config(deps, "b", CONFIG)


def test_a_null_is_a_mistake_also_of_the_connectors_own_settings(deps: HerderDependencies) -> None:
    infos = validated(deps, {**CONFIG, "batch.size": None, "colour": None})
    assert infos.problems() == {"colour": [NULL_VALUE], "batch.size": [NULL_VALUE]}
    assert infos.configs[0].key is None


def test_the_connectors_complaints_are_added_to_ours(deps: HerderDependencies) -> None:
    infos = validated(deps, {"name": "a", "connector.class": "Picky", "tasks.max": "-1", "topic": "t"})
    wrong = "Invalid value -1 for configuration tasks.max: Value must be at least 1"
    assert infos.problems() == {"unheard.of": ["never heard of it"], "tasks.max": [wrong, "too many"]}


def test_a_policy_that_is_a_plugin_may_refuse_overrides_of_any_client(deps: HerderDependencies) -> None:
    given = CONFIG | {"consumer.override.colour": "red", "producer.override.colour": "red"}
    infos = validated(replace(deps, override_policy=NoColours()), given)
    assert infos.problems() == {"producer.override.colour": ["no colours"], "consumer.override.colour": ["no colours"]}


def test_an_override_that_is_not_a_number_is_an_error_of_its_setting(deps: HerderDependencies) -> None:
    infos = validated(deps, CONFIG | {"producer.override.linger.ms": "soon"})
    why = "Invalid value soon for configuration linger.ms: Not a number of type LONG"
    assert infos.problems() == {"producer.override.linger.ms": [why]}


def test_a_sinks_admin_overrides_are_checked_without_a_dead_letter_queue(deps: HerderDependencies) -> None:
    worker = worker_settings({"connector.client.config.override.policy": "None"})
    strict = replace(deps, settings=replace(deps.settings, worker=worker))
    sink = {
        "name": "a",
        "connector.class": "FileStreamSink",
        "file": "out",
        "topics": "t",
        "admin.override.retries": "5",
    }
    assert set(validated(strict, sink).problems()) == {"admin.override.retries"}


def test_a_converter_that_is_broken_says_why(deps: HerderDependencies) -> None:
    why = validated(deps, CONFIG | {"key.converter": "Gone"}).problems()["key.converter"]
    assert len(why) == 1
    assert "Class Gone could not be found." in why[0]
    assert "no.such.module" in why[0]


def test_blanks_around_a_connectors_class_are_part_of_it_as_in_java(deps: HerderDependencies) -> None:
    with pytest.raises(BadRequestError, match="which name matches  FileStreamSource , available connectors are"):
        validated(deps, CONFIG | {"connector.class": " FileStreamSource "})


PASSWORD = "producer.override.ssl.keystore.password"


@pytest.mark.parametrize(
    ("stored", "sent", "refused"),
    [
        ({PASSWORD: "real"}, {PASSWORD: "[hidden]"}, [PASSWORD]),
        ({PASSWORD: "${vault:password}"}, {PASSWORD: "[hidden]"}, [PASSWORD]),
        ({"file": "in.txt"}, {"file": "[hidden]"}, ["file"]),  # whatever the history could not judge
        ({}, {PASSWORD: "[hidden]"}, [PASSWORD]),  # a new connector, copied from the history of another
        ({}, {"file": "[hidden]"}, []),
        ({PASSWORD: "[hidden]"}, {PASSWORD: "[hidden]"}, []),
        ({PASSWORD: "real"}, {PASSWORD: "new"}, []),
        ({PASSWORD: "real"}, {}, []),
    ],
)
def test_the_mask_of_a_secret_is_refused_as_a_value(
    deps: HerderDependencies, stored: dict[str, str], sent: dict[str, str], refused: list[str]
) -> None:
    configs = {"a": StoredConfig(CONFIG | stored)} if stored else {}
    store: Any = SimpleNamespace(snapshot=lambda: ClusterConfigState(connector_configs=configs))
    problems = validated(replace(deps, config_store=store), CONFIG | sent, recommending=False).problems()
    assert list(problems) == refused
    for why in problems.values():
        assert "is [hidden], the placeholder for a hidden value" in why[0]
