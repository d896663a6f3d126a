"""A worker rejects settings that it cannot protect or fulfil, and warns of those without effect."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.worker_settings import parse_distributed, unknown_settings
from spark_connect_rt.errors import BadConfigError
from tests.unit.config.test_worker_and_connector_config import WORKER


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("exactly.once.source.support", "always"),
        ("connector.client.config.override.policy", "Allowlist"),
        ("listeners", "localhost:8083"),
        ("admin.listeners", "localhost:8083"),
        ("response.http.headers.config", "put X: 1"),
        ("connectrt.slice.length.ms", "ten"),
        ("connectrt.slots.max", "0"),
        ("config.storage.replication.factor", "0"),
        ("topic.tracking.enable", "yes"),
    ],
)
def test_setting_that_would_be_broken_silently_is_refused(setting: str, value: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        parse_distributed({**WORKER, setting: value})
    assert set(refused.value.problems) == {setting}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listeners", "http://127.0.0.1:8083,https://10.0.0.1:8443"),
        ("admin.listeners", ""),
        ("access.control.allow.origin", "*"),
        ("response.http.headers.config", "add Cache-Control: no-cache, set X-One: 1"),
        ("rest.extension.classes", "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"),
        ("plugin.path", "/usr/share/java"),
    ],
)
def test_supported_setting_raises_no_warning(setting: str, value: str) -> None:
    assert parse_distributed({**WORKER, setting: value}).warnings == ()


def test_our_own_settings_are_known_and_their_misspellings_are_not() -> None:
    raw = {**WORKER, "connectrt.slots.max": "3", "quickstart.directory": "x", "spark.anything": "y"}
    assert parse_distributed(raw).warnings == ()
    assert unknown_settings({**WORKER, "connectrt.slot.max": "3"}) == [
        "unknown setting connectrt.slot.max has no effect. Did you mean connectrt.slots.max?"
    ]


def test_a_quickstart_file_and_a_worker_file_raise_no_warning(request: pytest.FixtureRequest) -> None:
    from spark_connect_rt.config.java_properties import load_properties

    folder = request.config.rootpath / "conf"
    for name in ("connect-distributed.properties", "quickstart.properties"):
        assert parse_distributed(load_properties(folder / name)).warnings == (), name
