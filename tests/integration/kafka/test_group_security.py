"""The membership through TLS and SASL: every protocol and mechanism a broker of our own can be given."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from spark_connect_rt.base.security.key_stores import carry_stores
from spark_connect_rt.errors import BadConfigError, RetriableError
from spark_connect_rt.kafka.admin import KafkaAdmin
from tests.contract.group_member_contract import Herder, settled, until
from tests.integration.kafka.secure_kafka import (
    KEY_PASSWORD,
    PLAIN,
    REAUTH_MS,
    SCRAM,
    STORE_PASSWORD,
    SecureKafka,
    joins,
    refused,
)
from tests.support.group_members import new_member


def jaas(module: str, password: str = "open sesame") -> str:
    return f'{module} required username="worker" password="{password}";'


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
    member = new_member(secure.settings("PLAIN", **{"security.protocol": "SASL_PLAINTEXT", **sasl}))
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


def java_stores(secure: SecureKafka, kind: str, named: bool) -> dict[str, str]:
    """Return the properties of Java's stores; without ``named`` types Java's default, JKS, reads both kinds."""
    stores = secure.stores
    types = {"ssl.truststore.type": kind.upper(), "ssl.keystore.type": kind.upper()} if named else {}
    return types | {
        "ssl.truststore.location": str(stores.trust[kind]),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": str(stores.key[kind]),
        "ssl.keystore.password": STORE_PASSWORD,
        **({"ssl.key.password": KEY_PASSWORD} if kind == "jks" else {}),
    }


def tls(secure: SecureKafka, listener: str, own: dict[str, str], **more: str) -> dict[str, str]:
    settings = secure.settings(listener, **{"security.protocol": "SSL"})
    del settings["ssl.truststore.type"], settings["ssl.truststore.location"]
    return settings | own | more


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["jks", "pkcs12"])
def test_the_jdks_stores_open_the_group_and_every_other_client(secure: SecureKafka, kind: str, named: bool) -> None:
    """The broker trusts the root only: whoever leaves the intermediate certificate out is not let in."""
    settings = tls(secure, "TLS", java_stores(secure, kind, named))
    joins(settings)
    assert KafkaAdmin(settings).cluster_id()


@pytest.mark.parametrize("kind", ["jks", "pkcs12"])
def test_stores_are_carried_to_machines_without_the_files(secure: SecureKafka, kind: str) -> None:
    carried = carry_stores(tls(secure, "TLS", java_stores(secure, kind, named=True)))
    elsewhere = carried | {"ssl.truststore.location": "/not/here", "ssl.keystore.location": "/not/here/either"}
    assert KafkaAdmin(elsewhere).cluster_id()


def refused_everywhere(settings: dict[str, str], match: str) -> None:
    """The group's member and librdkafka's clients say the same."""
    refused(settings, match)
    with pytest.raises(BadConfigError, match=match):
        KafkaAdmin(settings).check_reachable(20_000)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ssl.truststore.password", "wrong"),
        ("ssl.keystore.password", "wrong"),
        ("ssl.key.password", "wrong"),
        ("ssl.truststore.location", "/not/here"),
        ("ssl.keystore.location", "/not/here"),
        ("ssl.truststore.type", "JCEKS"),
    ],
)
def test_a_store_that_does_not_open_is_refused_by_the_settings_name(
    secure: SecureKafka, setting: str, value: str
) -> None:
    settings = tls(secure, "TLS", java_stores(secure, "jks", named=True)) | {setting: value}
    for made in (new_member, KafkaAdmin):
        with pytest.raises(BadConfigError) as caught:
            made(settings)
        assert list(caught.value.problems) == [setting]
        assert STORE_PASSWORD not in str(caught.value)


def test_an_expired_certificate_of_the_broker_is_refused(secure: SecureKafka) -> None:
    own = java_stores(secure, "pkcs12", named=True)
    refused_everywhere(tls(secure, "EXPIRED", own), r"ssl\.truststore\.location: .*has expired")


def test_another_host_name_is_refused_unless_the_check_is_off(secure: SecureKafka) -> None:
    own = java_stores(secure, "pkcs12", named=True)
    settings = tls(secure, "ELSEWHERE", own)
    refused_everywhere(settings, r"ssl\.endpoint\.identification\.algorithm: .*another")
    unchecked = settings | {"ssl.endpoint.identification.algorithm": ""}
    joins(unchecked)
    assert KafkaAdmin(unchecked).cluster_id()


def test_an_untrusted_broker_is_refused(secure: SecureKafka, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    settings = tls(secure, "TLS", java_stores(secure, "jks", named=False))
    settings |= {"ssl.truststore.location": str(stranger), "ssl.truststore.type": "PEM"}
    refused_everywhere(settings, r"ssl\.truststore\.location: .*not issued by an authority in this trust store")


def test_a_broker_that_wants_a_certificate_says_so(secure: SecureKafka) -> None:
    own = java_stores(secure, "jks", named=False)
    settings = tls(secure, "TLS", {name: value for name, value in own.items() if "truststore" in name})
    refused_everywhere(settings, r"ssl\.keystore\.location: the broker requires a certificate")


def test_tls_to_a_listener_without_it_points_at_the_protocol(secure: SecureKafka) -> None:
    """The broker takes the greeting for a huge request and hangs up: no proof, so it is tried again."""
    settings = tls(secure, "PLAINTEXT", java_stores(secure, "jks", named=False))
    with pytest.raises(RetriableError, match=r"check the address, the listener and security\.protocol"):
        KafkaAdmin(settings).check_reachable(4_000)


def test_a_wrong_password_ends_the_start_soon_and_by_name(secure: SecureKafka) -> None:
    sasl = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas(SCRAM, "not-the-password")}
    settings = secure.settings("SCRAM", **{"security.protocol": "SASL_SSL", **sasl})
    with pytest.raises(BadConfigError, match=r"sasl\.jaas\.config") as caught:
        KafkaAdmin(settings).check_reachable(60_000)
    assert "not-the-password" not in str(caught.value)
