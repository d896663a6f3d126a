"""The worker's file alone decides which programs a connector may run and install."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.config_provider import ConfigData
from spark_connect_rt.app.wiring import guarded
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.programs import PROGRAMS, allowed_programs, names_programs, refuse_programs
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.connectors.external_process.environments import EnvironmentFailedError, environment, program_path
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.runtime.worker.launches import TaskSpec, connector_facts, make_launch
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.worker_settings import worker_settings

LIST = "/opt/taps/*, /usr/bin/python3.12, tap-local, pip:tap-github==1.*, pip:airbyte-cdk[all]==7, env:AWS_*"


def problems(config: dict[str, str], allowed: str) -> list[str]:
    try:
        refuse_programs(config, allowed_programs({PROGRAMS: allowed}))
    except BadConfigError as error:
        return [name for name, why in error.problems.items() if why]
    return []


def test_a_refusal_shows_no_value_as_it_may_hold_a_secret() -> None:
    with pytest.raises(BadConfigError) as refused:
        refuse_programs({"singer.requirement": "git+https://t0ken@x/tap"}, ["deny"])
    assert "t0ken" not in str(refused.value)


@pytest.mark.parametrize("prefix", ["singer", "airbyte"])
@pytest.mark.parametrize("name", ["executable", "requirement", "python", "environment"])
def test_nothing_is_run_by_default(prefix: str, name: str) -> None:
    value = '{"A": "b"}' if name == "environment" else "/tmp/evil"
    config = {f"{prefix}.{name}": value}
    assert names_programs(config)
    assert problems(config, "") == problems(config, "deny") == problems(config, "DENY") == [f"{prefix}.{name}"]
    assert problems(config, "allow") == problems(config, "Allow") == []


@pytest.mark.parametrize("name", ["airbyte.manifest", "airbyte.manifest.file"])
def test_a_manifest_installs_a_package_too(name: str) -> None:
    assert problems({name: "x.yaml"}, "deny") == [name]
    assert problems({name: "x.yaml"}, "pip:airbyte-cdk") == []
    both = {name: "x.yaml", "airbyte.components.file": "/tmp/evil.py"}
    assert problems(both, "pip:airbyte-cdk") == ["airbyte.components.file"]


@pytest.mark.parametrize(
    ("setting", "value", "taken"),
    [
        ("singer.executable", "/opt/taps/tap-x/bin/tap-x", True),
        ("singer.executable", "/opt/taps/../../bin/sh", False),
        ("singer.executable", "/opt/taps/./x", False),
        ("singer.executable", "/opt/tapsx", False),
        ("singer.executable", "tap-local", True),
        ("singer.executable", "sh", False),
        ("singer.python", "/usr/bin/python3.12", True),
        ("singer.python", "/tmp/python", False),
        ("singer.requirement", "tap-github==1.4", True),
        ("singer.requirement", "tap-github==2.0", False),
        ("singer.requirement", "tap-github==1.4 evil", False),
        ("singer.requirement", "tap-github==1.4 'evil", False),
        ("airbyte.requirement", "airbyte-cdk[all]==7", True),
        ("airbyte.requirement", "git+https://evil/x", False),
        ("singer.requirement", "'tap-github==1.4 @ https://evil/x.whl'", False),
        ("singer.environment", '{"AWS_PROFILE": "x"}', True),
        ("singer.environment", '{"AWS_PROFILE": "x", "LD_PRELOAD": "/tmp/x.so"}', False),
        ("singer.environment", '{"\\u004cD_PRELOAD": "/tmp/x.so"}', False),
    ],
)
def test_a_list_says_what_may_be_named(setting: str, value: str, taken: bool) -> None:
    assert problems({setting: value}, LIST) == ([] if taken else [setting])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("singer.requirement", "--index-url=https://evil tap"),
        ("singer.requirement", "tap -r /tmp/x"),
        ("singer.requirement", "-e ."),
        ("singer.executable", "-c"),
        ("airbyte.python", "--version"),
    ],
)
def test_options_are_refused_whatever_is_allowed(setting: str, value: str) -> None:
    for allowed in ("allow", "*, pip:*, env:*"):
        assert problems({setting: value}, allowed) == [setting]


def test_options_are_refused_where_the_program_is_installed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path))
    with pytest.raises(EnvironmentFailedError, match="option of pip: --index-url=x"):
        environment(["tap", "--index-url=x"])
    with pytest.raises(EnvironmentFailedError, match="must not begin with -"):
        program_path("-c", [], None)


def test_other_configurations_are_left_alone() -> None:
    for config in ({"file": "/tmp/x"}, {"singer.config": "{}", "singer.streams": "*"}, {"singer.requirement": ""}):
        assert not names_programs(config)
        assert problems(config, "deny") == []


def test_the_driver_and_the_executors_refuse_a_program_behind_a_reference(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("/tmp/evil")
    worker = {
        "config.providers": "dir",
        "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    }
    config = {"singer.executable": f"${{dir:{tmp_path}:program}}"}
    with pytest.raises(BadConfigError, match=r"singer\.executable"):
        KafkaExecutorClients().resolve(config, worker)
    assert KafkaExecutorClients().resolve(config, {**worker, PROGRAMS: "/tmp/*"})["singer.executable"] == "/tmp/evil"

    def resolve(settings: Any) -> ConfigData:
        return ConfigData(settings)

    named = {"singer.executable": "/tmp/evil"}
    with pytest.raises(BadConfigError, match=r"connectrt\.programs"):
        guarded(resolve, worker_settings())(named)
    allowing = worker_settings({PROGRAMS: "allow"})
    assert guarded(resolve, allowing)(named) == named
    spec = TaskSpec(ConnectorTaskId("a", 0), StoredConfig(), StoredConfig())
    for worker_config, taken in ((allowing, True), (worker_settings(), False)):
        known = make_launch(spec, connector_facts(MemorySource(), {}), worker_config, 1, 1).worker_config
        if taken:
            assert KafkaExecutorClients().resolve(named, known) == named
        else:
            with pytest.raises(BadConfigError):
                KafkaExecutorClients().resolve(named, known)


@pytest.mark.parametrize("value", ["allow,/opt/x", "deny,allow", "/opt/x,DENY"])
def test_a_value_that_says_two_things_is_refused(value: str) -> None:
    with pytest.raises(BadConfigError, match=r"connectrt\.programs"):
        worker_settings({PROGRAMS: value})
