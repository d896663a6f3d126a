"""What the wiring hands to the clients it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.engine.process_plugins import providers_of
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.internal_topics import admin_of
from spark_connect_rt.testing.worker_settings import worker_settings


def test_a_workers_own_clients_get_what_its_config_providers_say(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("store=/not/here.jks\n", encoding="utf-8")
    raw = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SSL",
        "ssl.truststore.location": f"${{file:{secrets}:store}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    with pytest.raises(BadConfigError, match=r"/not/here\.jks: No such file"):
        admin_of(worker_settings(raw, providers_of(raw).resolve))
