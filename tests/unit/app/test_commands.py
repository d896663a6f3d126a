"""Commands of the command line that this page's neighbours do not start whole workers for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_connect_rt.app import standalone
from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.quickstart.cdc import run as cdc_run
from spark_connect_rt.app.wiring import override_policy
from spark_connect_rt.base.exit_codes import EXIT_BAD_PROPERTIES
from spark_connect_rt.engine.driver import spark_session as jvm_ahead
from spark_connect_rt.engine.process_plugins import plugins_of
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.unit.operations.plugin_install.archives import SOURCE, class_file, jar_bytes
from tests.unit.plugins.plugin_folders import dist_files, make_folder, stamp_plugin

POLICY = """
from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy


class NoAcks(ConnectorClientConfigOverridePolicy):
    def configure(self, config):
        self.word = config["word"]

    def problems(self, connector_config):
        return {key: self.word for key in connector_config if key.endswith(".acks")}
"""


def worker_file(folder: Path, **settings: str) -> Path:
    file = folder / "worker.properties"
    file.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
    return file


@pytest.mark.parametrize(
    ("words", "delta", "keep"),
    [
        (["quickstart", "--cdc"], False, False),
        (["quickstart", "{file}", "--cdc", "--delta", "--keep"], True, True),
        (["submit", "{file}", "--cdc", "--delta"], True, False),
    ],
)
def test_the_change_stream_of_the_quickstart_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], delta: bool, keep: bool
) -> None:
    run: list[tuple[str, bool, bool]] = []

    def remember(settings: Mapping[str, str], *, delta: bool, keep: bool) -> int:
        run.append((settings["connectrt.job"], delta, keep))
        return 1

    monkeypatch.setattr(cdc_run, "run_cdc_quickstart", remember)
    file = worker_file(tmp_path, connectrt_job="quickstart")
    assert CliRunner().invoke(cli, [word.format(file=file) for word in words]).exit_code == 1
    assert run == [("quickstart", delta, keep)]


def test_an_incomplete_worker_file_is_refused_before_a_jvm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead: list[object] = []
    monkeypatch.setattr(jvm_ahead, "start_jvm_ahead", ahead.append)
    file = tmp_path / "w.properties"
    file.write_text("bootstrap.servers=x:1\ngroup.id=g\n")
    refused = CliRunner().invoke(cli, ["worker", str(file)])
    assert refused.exit_code == EXIT_BAD_PROPERTIES
    assert "config.storage.topic: Missing required configuration" in refused.output
    assert f"{file} is incomplete. connectrt new worker NAME writes a complete file." in refused.output
    assert ahead == []


def test_options_of_the_change_stream_are_refused_elsewhere(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["quickstart", "--delta"])
    assert refused.exit_code == 2
    assert "needs --cdc" in refused.output
    file = worker_file(tmp_path, bootstrap_servers="x:1")
    refused = CliRunner().invoke(cli, ["submit", str(file), "--cdc"])
    assert refused.exit_code == 2
    assert "--cdc needs connectrt.job=quickstart" in refused.output


def test_service_files_are_named_and_then_written(tmp_path: Path) -> None:
    jar = tmp_path / "plugins" / "orders" / "orders.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(jar_bytes({"a/Orders.class": class_file("a/Orders", SOURCE)}))
    broken = tmp_path / "plugins" / "broken.jar"
    broken.write_bytes(b"no jar")
    make_folder(tmp_path / "plugins" / "stamps", stamp_plugin("stamps", "1.0"))
    more = [
        "--file",
        str(worker_file(tmp_path, plugin_path=str(tmp_path / "plugins"), plugin_discovery="service_load")),
    ]
    for dry_run, said in ((["--dry-run"], "missing: a.Orders"), ([], "added: a.Orders"), ([], "nothing is missing")):
        done = CliRunner().invoke(cli, ["plugins", "sync-manifests", *more, *dry_run])
        assert f"{jar.parent}: {said}\n" in done.output
        assert "stamps" not in done.output
        assert f"{broken}: not a valid jar: broken.jar\n" in done.output
        assert done.exit_code == 1
    broken.unlink()
    assert CliRunner().invoke(cli, ["plugins", "sync-manifests", *more]).exit_code == 0


def test_plugins_are_listed_and_checked(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    make_folder(plugins / "listed", stamp_plugin("listed_plugin", "1.2"))
    file = worker_file(tmp_path, plugin_path=str(plugins))
    listed = CliRunner().invoke(cli, ["plugins", str(file)])
    assert listed.exit_code == 0, listed.output
    assert f"transformation    listed_plugin.Stamp  1.2  {plugins / 'listed'}\n" in listed.output
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in listed.output
    entry = "[spark_connect_rt.converters]\nX = failing_module:X\n"
    make_folder(tmp_path / "bad" / "failing", dist_files("failing", "1", {"failing_module.py": "1 / 0"}, entry))
    bad = ["--set", f"plugin.path={tmp_path / 'bad'}", str(file)]
    assert CliRunner().invoke(cli, ["plugins", *bad]).exit_code == 0
    checked = CliRunner().invoke(cli, ["plugins", "--check", *bad])
    assert checked.exit_code == 1
    assert "BROKEN            failing_module.X" in checked.output
    assert "ZeroDivisionError" in checked.output


@pytest.mark.parametrize(
    ("words", "connectors"),
    [
        (["submit", "--standalone", "{file}"], []),
        (["submit", "--standalone", "{file}", "a.properties", "b.json"], ["a.properties", "b.json"]),
        (["submit", "{file}", "a.properties"], ["a.properties"]),
        (["standalone", "{file}", "a.properties", "--set", "x=1"], ["a.properties"]),
    ],
)
def test_submit_runs_a_standalone_worker_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], connectors: list[str]
) -> None:
    run: list[tuple[Mapping[str, str], Sequence[Path]]] = []

    def remember(raw: Mapping[str, str], files: Sequence[Path]) -> int:
        run.append((raw, files))
        return 20

    ahead: list[Mapping[str, str]] = []
    monkeypatch.setattr(standalone, "run_standalone", remember)
    monkeypatch.setattr(jvm_ahead, "start_jvm_ahead", ahead.append)
    file = worker_file(tmp_path, bootstrap_servers="x:1")
    ended = CliRunner().invoke(cli, [word.format(file=file) for word in words])
    assert ended.exit_code == 20, ended.output
    ((raw, files),) = run
    assert ahead == [raw]
    assert raw["bootstrap.servers"] == "x:1"
    assert files == [Path(connector) for connector in connectors]


def test_an_override_policy_may_be_a_plugin(tmp_path: Path) -> None:
    entry = "[spark_connect_rt.override_policies]\ncom.example.NoAcks = no_acks:NoAcks\n"
    make_folder(tmp_path / "policy", dist_files("no_acks", "1", {"no_acks.py": POLICY}, entry))
    setting, folder = "connector.client.config.override.policy", {"plugin.path": str(tmp_path)}
    plugins = plugins_of({**folder, setting: "com.example.NoAcks"})
    policy = override_policy(worker_settings({setting: "com.example.NoAcks", "word": "no"}), plugins)
    assert policy is not None
    assert policy.problems({"producer.override.acks": "1", "topic": "t"}) == {"producer.override.acks": "no"}
    assert override_policy(worker_settings({setting: "Principal"}), plugins) is None
    with pytest.raises(BadConfigError, match=r"override\.policy"):
        override_policy(worker_settings({setting: "com.example.Missing"}), plugins)
