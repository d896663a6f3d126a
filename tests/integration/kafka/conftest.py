"""The secured broker, started once for all files that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from spark_connect_rt.engine.startup.java_home import Java
from tests.integration.kafka.secure_kafka import SecureKafka


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[SecureKafka]:
    secure = SecureKafka(tmp_path_factory.mktemp("secure"), java)
    with secure.kafka as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("worker", ScramCredentialInfo(mechanism, 4096), b"open sesame")
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(30)
        yield secure
    secure.issuer.close()
