"""File, directory and environment providers, alone and named in a worker's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.plugins.config_providers import (
    ConfigProviders,
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
)


def test_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "s.properties"
    file.write_text("user=ann\npassword=x\n")
    provider = FileConfigProvider()
    assert provider.get(str(file), {"user", "none"}) == {"user": "ann"}
    assert provider.get("") == {}
    with pytest.raises(BadConfigError, match="missing"):
        provider.get(str(tmp_path / "missing"))
    provider.configure({"allowed.paths": str(tmp_path / "in")})
    assert provider.get(str(file)) == {"user": "ann", "password": "x"}
    outside = tmp_path / "out.properties"
    outside.write_text("a=1")
    assert provider.get(str(outside)) == {}
    assert provider.get(str(tmp_path / "in" / ".." / "out.properties")) == {}
    (tmp_path / "in" / "link").symlink_to(outside)
    assert provider.get(str(tmp_path / "in" / "link")) == {}


def test_directory(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3\n")
    (tmp_path / "folder").mkdir()
    provider = DirectoryConfigProvider()
    assert provider.get(str(tmp_path)) == {"token": "s3\n"}
    assert provider.get(str(tmp_path / "folder"), {"../token", "..", ""}) == {}
    assert provider.get(str(tmp_path / "token")) == {}
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfigError, match="not valid UTF-8") as caught:
        provider.get(str(tmp_path), {"binary"})
    assert "\\xff" not in str(caught.value)
    provider.configure({"allowed.paths": str(tmp_path / "folder")})
    assert provider.get(str(tmp_path)) == {}


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRT_A", "1")
    monkeypatch.setenv("CRT_B", "2")
    provider = EnvVarConfigProvider()
    assert provider.get("", {"CRT_A", "CRT_NONE"}) == {"CRT_A": "1"}
    provider.configure({"allowlist.pattern": "CRT_B"})
    assert provider.get("") == {"CRT_B": "2"}
    with pytest.raises(BadConfigError):
        provider.get("/path")
    with pytest.raises(BadConfigError):
        provider.configure({"allowlist.pattern": "("})


def test_providers_of_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.properties").write_text("pw=x")
    monkeypatch.setenv("CRT_A", "1")
    worker = {
        "config.providers": "file,env",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "config.providers.env.class": "EnvVarConfigProvider",
    }
    providers = ConfigProviders.from_config(worker, bundled_plugins().class_of)
    config = {"a": f"${{file:{tmp_path}/s.properties:pw}}-${{env:CRT_A}}-${{vault:k}}"}
    assert providers.resolve(config) == {"a": "x-1-${vault:k}"}
    assert ConfigProviders({}).resolve(config) == config


def test_wrong_providers_are_all_named() -> None:
    worker = {
        "config.providers": "a,b,c,d",
        "config.providers.b.class": "Nope",
        "config.providers.c.class": "JsonConverter",
    }
    worker |= {"config.providers.d.class": "EnvVarConfigProvider", "config.providers.d.param.allowlist.pattern": "("}
    with pytest.raises(BadConfigError) as caught:
        ConfigProviders.from_config(worker, bundled_plugins().class_of)
    assert set(caught.value.problems) == {
        "config.providers.a.class",
        "config.providers.b.class",
        "config.providers.c.class",
        "config.providers.d.param.allowlist.pattern",
    }
