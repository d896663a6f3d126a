"""The membership through TLS and SASL: every protocol and mechanism a broker of our own can be given."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from spark_connect_rt.embedded.java import Java
from spark_connect_rt.embedded.kafka import EmbeddedKafka, free_ports
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.group_member import KafkaGroupMember
from tests.contract.group_member_contract import Herder, settled, until

REAUTH_MS = 2_000
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecureKafka:
    """One broker with a listener for each way in, certificates of its own authority."""

    def __init__(self, directory: Path, java: Java) -> None:
        authority = trustme.CA()
        self.authority = directory / "authority.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        self.client = directory / "client.pem"
        authority.issue_cert("worker").private_key_and_cert_chain_pem.write_to_path(str(self.client))
        server = directory / "server.pem"
        authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(server))
        names = ("PLAINTEXT", "TLS", "PLAIN", "SCRAM")
        *ports, controller = free_ports(len(names) + 1)
        self.ports = dict(zip(names, ports, strict=True))
        addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.kafka = EmbeddedKafka(
            directory / "kafka",
            java=java,
            die_with_parent=True,
            port=self.ports["PLAINTEXT"],
            properties={
                "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": addresses,
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,"
                "PLAIN:SASL_PLAINTEXT,SCRAM:SASL_SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": _pkcs8(server),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority),
                "listener.name.tls.ssl.client.auth": "required",
                "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.plain.connections.max.reauth.ms": str(REAUTH_MS),
                "listener.name.plain.plain.sasl.jaas.config": f'{PLAIN} required user_worker="open sesame";',
                "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.scram.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
                "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            },
        )

    def settings(self, listener: str, **more: str) -> dict[str, str]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "group.id": f"connect-{uuid.uuid4()}",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
            **more,
        }


def _pkcs8(pem: Path) -> str:
    """Return the file with its key in the form Java reads."""
    from cryptography.hazmat.primitives import serialization

    raw = pem.read_bytes()
    key = serialization.load_pem_private_key(raw, None)
    rest = raw[raw.index(b"-----BEGIN CERTIFICATE") :]
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + rest
    )
    return str(pem)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[SecureKafka]:
    secure = SecureKafka(tmp_path_factory.mktemp("secure"), java)
    with secure.kafka as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("worker", ScramCredentialInfo(mechanism, 4096), b"open sesame")
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(30)
        yield secure


def jaas(module: str, password: str = "open sesame") -> str:
    return f'{module} required username="worker" password="{password}";'


def joins(settings: dict[str, str]) -> None:
    member = KafkaGroupMember(settings)
    herder = Herder("a", member)
    try:
        until(lambda: settled(herder), [herder])
    finally:
        member.stop()


def refused(settings: dict[str, str], match: str) -> None:
    member = KafkaGroupMember(settings)
    herder = Herder("a", member)
    try:
        with pytest.raises(BadConfigError, match=match):
            until(lambda: False, [herder])
    finally:
        member.stop()


def test_tls_with_a_certificate_of_ones_own_in_a_file(secure: SecureKafka) -> None:
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secure.client)}
    joins(secure.settings("TLS", **{"security.protocol": "SSL", **own}))


def test_tls_with_everything_inline(secure: SecureKafka) -> None:
    pem = secure.client.read_text(encoding="ascii")
    begin = pem.index("-----BEGIN CERTIFICATE")
    settings = secure.settings(
        "TLS",
        **{
            "security.protocol": "SSL",
            "ssl.keystore.key": pem[:begin],
            "ssl.keystore.certificate.chain": pem[begin:],
            "ssl.truststore.certificates": secure.authority.read_text(encoding="ascii"),
        },
    )
    del settings["ssl.truststore.location"]
    joins(settings)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_over_tls(secure: SecureKafka, mechanism: str) -> None:
    sasl = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(SCRAM)}
    joins(secure.settings("SCRAM", **{"security.protocol": "SASL_SSL", **sasl}))


def test_a_session_that_must_authenticate_again_keeps_its_generation(secure: SecureKafka) -> None:
    sasl = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas(PLAIN)}
    member = KafkaGroupMember(secure.settings("PLAIN", **{"security.protocol": "SASL_PLAINTEXT", **sasl}))
    herder = Herder("a", member)
    try:
        until(lambda: settled(herder), [herder])
        seen, settled_ms = list(herder.seen), member.now_ms()
        until(lambda: member.state.last_contact_ms > settled_ms + 3 * REAUTH_MS, [herder])
        assert herder.seen == seen
        assert herder.is_settled()
    finally:
        member.stop()


@pytest.mark.parametrize(
    ("listener", "protocol", "mechanism", "module"),
    [("PLAIN", "SASL_PLAINTEXT", "PLAIN", PLAIN), ("SCRAM", "SASL_SSL", "SCRAM-SHA-256", SCRAM)],
)
def test_a_wrong_password_is_refused_by_name_and_not_shown(
    secure: SecureKafka, listener: str, protocol: str, mechanism: str, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    sasl = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(module, "not-the-password")}
    refused(secure.settings(listener, **{"security.protocol": protocol, **sasl}), r"sasl\.jaas\.config")
    assert "not-the-password" not in caplog.text


def test_a_broker_nobody_vouches_for_is_not_talked_to(
    secure: SecureKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    sasl = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas(SCRAM)}
    settings = secure.settings("SCRAM", **{"security.protocol": "SASL_SSL", **sasl})
    member = KafkaGroupMember(settings | {"ssl.truststore.location": str(stranger)})
    herder = Herder("a", member)
    try:
        until(lambda: "certificate verify failed" in caplog.text, [herder])
        assert not herder.seen
    finally:
        member.stop()
