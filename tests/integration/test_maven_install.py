"""A coordinate of Maven Central becomes a plug-in: Kafka's own file connectors, whose jars other tests have cached."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.base.cache import KAFKA_VERSION
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError
from spark_connect_rt.operations.plugin_install.folders import PluginFolder
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.plugins.interfaces import WantedPlugin

COORDINATE = f"org.apache.kafka:connect-file:{KAFKA_VERSION}"
JAR = f"connect-file-{KAFKA_VERSION}.jar"
CONNECTORS = tuple(f"org.apache.kafka.connect.file.FileStream{kind}Connector" for kind in ("Sink", "Source"))


def installer(folder: Path) -> Installer:
    return Installer(PluginFolder(folder), (), 50_000_000, lambda: 1_000)


def test_coordinate_is_installed_without_jars_of_connect_on_every_worker(tmp_path: Path) -> None:
    plugin = installer(tmp_path / "one").install(WantedPlugin(COORDINATE), "ann")
    assert (plugin.name, plugin.version, plugin.source) == ("connect-file", KAFKA_VERSION, COORDINATE)
    assert plugin.plugins == CONNECTORS
    assert {f"connect-api-{KAFKA_VERSION}.jar", f"kafka-clients-{KAFKA_VERSION}.jar"} < set(plugin.left_out)
    there = {jar.name for jar in (tmp_path / "one").rglob("*.jar")}
    assert JAR in there
    assert not there & set(plugin.left_out)

    assert installer(tmp_path / "two").install_recorded(plugin).sha512 == plugin.sha512
    wanted = WantedPlugin(COORDINATE, sha512="0" * 128)
    with pytest.raises(NotFetchedError, match="is required"):
        installer(tmp_path / "three").install(wanted, "ann")
    assert list((tmp_path / "three").glob("connect-file*")) == []
