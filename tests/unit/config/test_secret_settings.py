"""Which values of a configuration are secrets."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.secrets import secret_names, secrets_in

JAAS = 'org.example.Login required username="me" password="pass-1" clientSecret="pass-2";'


def test_settings_of_type_password_are_secret() -> None:
    keys = [
        ConfigKey(name, kind, None, Importance.LOW, "") for name, kind in (("a", Type.STRING), ("b", Type.PASSWORD))
    ]
    assert secret_names(ConfigDef(keys)) == ("b",)
    assert list(secrets_in([{"a": "1", "b": "2"}, {"b": "3"}, {"b": ""}], ["b"])) == ["2", "3"]


@pytest.mark.parametrize("prefix", ["", "producer.override.", "source.cluster.", "admin."])
def test_those_of_kafkas_clients_are_secret_under_any_prefix(prefix: str) -> None:
    config = {f"{prefix}ssl.key.password": "key", f"{prefix}sasl.jaas.config": JAAS, f"{prefix}client.id": "me"}
    assert list(secrets_in([config])) == ["key", JAAS, "pass-1", "pass-2"]


def test_a_reference_is_not_a_secret() -> None:
    assert list(secrets_in([{"ssl.key.password": "${vault::key}"}])) == []
