"""A broker with a listener for every way in: TLS, SASL's mechanisms, certificates that are no good."""

from __future__ import annotations

import subprocess
import uuid
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import BadConfigError
from tests.contract.group_member_contract import Herder, settled, until
from tests.integration.kafka.token_issuer import TokenIssuer
from tests.support.group_members import new_member

REAUTH_MS = 2_000
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


STORE_PASSWORD, KEY_PASSWORD = "of the store", "of the key"


class JavaStores:
    """Stores made by the JDK's keytool: what ``authority`` is trusted by, and a client key of an intermediate one's."""

    def __init__(self, directory: Path, java: Java, authority: trustme.CA) -> None:
        self._java = java
        root = directory / "root.pem"
        authority.cert_pem.write_to_path(str(root))
        self.trust = {kind: directory / f"trust.{kind}" for kind in ("jks", "pkcs12")}
        for kind, path in self.trust.items():
            self._keytool("-importcert", "-noprompt", "-alias", "root", "-file", root, *self._store(path, kind))
        child = authority.create_child_ca().issue_cert("worker")
        key = serialization.load_pem_private_key(child.private_key_pem.bytes(), None)
        chain = [x509.load_pem_x509_certificate(pem.bytes()) for pem in child.cert_chain_pems]
        sealed = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        openssl = directory / "openssl.p12"
        openssl.write_bytes(pkcs12.serialize_key_and_certificates(b"worker", key, chain[0], chain[1:], sealed))
        self.key = {kind: directory / f"key.{kind}" for kind in ("jks", "pkcs12")}
        for kind, path in self.key.items():
            copied = ("-srckeystore", openssl, "-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD)
            own = ("-srcalias", "worker", "-srckeypass", STORE_PASSWORD, "-destkeypass", KEY_PASSWORD)
            to = ("-noprompt", "-destkeystore", path, "-deststoretype", kind)
            self._keytool("-importkeystore", *copied, *to, *(own if kind == "jks" else ()))

    def _store(self, path: Path, kind: str) -> tuple[object, ...]:
        return ("-keystore", path, "-storetype", kind, "-storepass", STORE_PASSWORD)

    def _keytool(self, *arguments: object) -> None:
        # A runtime image without the program still has its class.
        command = [str(self._java.executable), "sun.security.tools.keytool.Main", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


class SecureKafka:
    """One broker with a listener for each way in, certificates of its own authority."""

    def __init__(self, directory: Path, java: Java) -> None:
        authority = trustme.CA()
        self.authority = directory / "authority.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        self.client = directory / "client.pem"
        authority.issue_cert("worker").private_key_and_cert_chain_pem.write_to_path(str(self.client))
        server, expired, elsewhere = (directory / f"{name}.pem" for name in ("server", "expired", "elsewhere"))
        authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(server))
        past = datetime(2020, 1, 1)
        old = authority.issue_cert("127.0.0.1", not_before=past, not_after=past + timedelta(days=1))
        old.private_key_and_cert_chain_pem.write_to_path(str(expired))
        authority.issue_cert("elsewhere.test").private_key_and_cert_chain_pem.write_to_path(str(elsewhere))
        self.stores = JavaStores(directory, java, authority)
        self.issuer = TokenIssuer()
        names = ("PLAINTEXT", "TLS", "PLAIN", "SCRAM", "EXPIRED", "ELSEWHERE", "UNSECURED", "SIGNED")
        *ports, controller = free_ports(len(names) + 1)
        self.ports = dict(zip(names, ports, strict=True))
        addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.kafka = EmbeddedKafka(
            directory / "kafka",
            java=java,
            die_with_parent=True,
            port=self.ports["PLAINTEXT"],
            jvm_options=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.keys_url}",),
            properties={
                "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": addresses,
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,"
                "PLAIN:SASL_PLAINTEXT,SCRAM:SASL_SSL,EXPIRED:SSL,ELSEWHERE:SSL,UNSECURED:SASL_PLAINTEXT,SIGNED:SASL_SSL",
                "listener.name.expired.ssl.keystore.location": _pkcs8(expired),
                "listener.name.elsewhere.ssl.keystore.location": _pkcs8(elsewhere),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": _pkcs8(server),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority),
                "listener.name.tls.ssl.client.auth": "required",
                "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.plain.connections.max.reauth.ms": str(REAUTH_MS),
                "listener.name.plain.plain.sasl.jaas.config": f'{PLAIN} required user_worker="open sesame";',
                **_oauth(self.issuer),
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


def _oauth(issuer: TokenIssuer) -> dict[str, str]:
    """Return how tokens are checked: UNSECURED takes any, as brokers do by default, SIGNED asks the issuer's keys."""
    signed = "listener.name.signed.oauthbearer"
    return {
        "listener.name.unsecured.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.unsecured.connections.max.reauth.ms": str(REAUTH_MS),
        "listener.name.unsecured.oauthbearer.sasl.jaas.config": f"{OAUTH} required;",
        "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{signed}.sasl.jaas.config": f"{OAUTH} required;",
        f"{signed}.sasl.server.callback.handler.class": OAUTH.replace("LoginModule", "ValidatorCallbackHandler"),
        f"{signed}.sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        f"{signed}.sasl.oauthbearer.expected.audience": issuer.audience,
    }


def _pkcs8(pem: Path) -> str:
    """Return the file with its key in the form Java reads."""
    raw = pem.read_bytes()
    key = serialization.load_pem_private_key(raw, None)
    rest = raw[raw.index(b"-----BEGIN CERTIFICATE") :]
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + rest
    )
    return str(pem)


def joins(settings: dict[str, str]) -> None:
    member = new_member(settings)
    herder = Herder("a", member)
    try:
        until(lambda: settled(herder), [herder])
    finally:
        member.stop()


def refused(settings: dict[str, str], match: str) -> None:
    member = new_member(settings)
    herder = Herder("a", member)
    try:
        with pytest.raises(BadConfigError, match=match):
            until(lambda: False, [herder])
    finally:
        member.stop()
