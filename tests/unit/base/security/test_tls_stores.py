"""Stores written by keytool, opened without Java: what they trust, whose key they hold, what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from spark_connect_rt.base.security.key_stores import (
    JksStore,
    StoreDamagedError,
    StorePasswordError,
    carry_stores,
    read_jks,
    unprotect_key,
)
from spark_connect_rt.base.security.tls import tls_settings
from spark_connect_rt.errors import BadConfigError

STORES = Path(__file__).parent / "stores"
PASSWORD = "storepass1"
ROOT = (STORES / "root.pem").read_text(encoding="ascii")


def trust(name: str, **more: str) -> dict[str, str]:
    return {"ssl.truststore.location": str(STORES / name), **named("ssl.truststore", more)}


def key(name: str, **more: str) -> dict[str, str]:
    return {"ssl.keystore.location": str(STORES / name), **named("ssl.keystore", more)}


def named(store: str, more: dict[str, str]) -> dict[str, str]:
    return {"ssl.key.password" if name == "key" else f"{store}.{name}": value for name, value in more.items()}


def certificates(pem: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem.encode())


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12", "trust-java8.p12"])
@pytest.mark.parametrize("kind", [{}, {"type": "JKS"}, {"type": "pkcs12"}])
def test_a_trust_store_of_either_format_is_read_under_either_name(name: str, kind: dict[str, str]) -> None:
    """The JDK's JKS and PKCS12 read one another's files, and Kafka's default type is JKS."""
    found = tls_settings(trust(name, password=PASSWORD, **kind))
    assert certificates(found["ssl.ca.pem"]) == certificates(ROOT)


def test_a_jks_trust_store_opens_without_its_password() -> None:
    assert certificates(tls_settings(trust("trust.jks"))["ssl.ca.pem"]) == certificates(ROOT)


@pytest.mark.parametrize(("name", "own"), [("key.jks", {"key": "keypass1"}), ("key.p12", {})])
def test_a_key_store_gives_the_key_and_its_chain_in_order(name: str, own: dict[str, str]) -> None:
    found = tls_settings(key(name, password=PASSWORD, **own))
    private = load_pem_private_key(found["ssl.key.pem"].encode(), None)
    chain = certificates(found["ssl.certificate.pem"])
    assert [certificate.subject.rfc4514_string() for certificate in chain] == ["CN=worker", "CN=root"]
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert private.public_key().public_bytes(*form) == chain[0].public_key().public_bytes(*form)
    assert "ssl.key.password" not in found


@pytest.mark.parametrize(("name", "own"), [("key.jks", {"key": "keypass1"}), ("key.p12", {})])
def test_a_key_stores_issuers_are_not_trusted_for_it(name: str, own: dict[str, str]) -> None:
    trusted = certificates(tls_settings(trust(name, password=PASSWORD))["ssl.ca.pem"])
    assert [certificate.subject.rfc4514_string() for certificate in trusted] == ["CN=worker"]


@pytest.mark.parametrize(
    ("properties", "setting", "told"),
    [
        (trust("trust.jks", password="x"), "ssl.truststore.password", "does not open"),
        (trust("trust.p12", password="x"), "ssl.truststore.password", "does not open"),
        (trust("trust.p12"), "ssl.truststore.password", "must be set to open"),
        (trust("trust.jceks", password=PASSWORD), "ssl.truststore.location", "JCEKS"),
        (trust("README.md", password=PASSWORD), "ssl.truststore.type", "not a store of type JKS"),
        (trust("root.pem", type="JKS"), "ssl.truststore.type", "not a store of type JKS"),
        (trust("trust.jks", type="PEM"), "ssl.truststore.type", "not a store of type PEM"),
        (trust("trust.jks", type="BKS"), "ssl.truststore.type", "BKS is not supported"),
        (trust("none.jks"), "ssl.truststore.location", "No such file"),
        (key("key.jks", password="x"), "ssl.keystore.password", "does not open"),
        (key("key.jks", password=PASSWORD), "ssl.keystore.password", "does not open the key 'worker'"),
        (key("key.jks", password=PASSWORD, key="x"), "ssl.key.password", "does not open the key 'worker'"),
        (key("key.p12", password="x"), "ssl.keystore.password", "does not open"),
        (key("trust.jks", password=PASSWORD), "ssl.keystore.location", "contains no private key"),
        (key("trust.p12", password=PASSWORD), "ssl.keystore.location", "contains no private key"),
        (key("root.pem", type="PEM"), "ssl.keystore.location", "contains no private key"),
    ],
)
def test_invalid_store_is_reported_under_its_setting(properties: dict[str, str], setting: str, told: str) -> None:
    with pytest.raises(BadConfigError, match=told) as caught:
        tls_settings(properties)
    assert list(caught.value.problems) == [setting]


def test_both_stores_problems_are_reported_at_once() -> None:
    with pytest.raises(BadConfigError) as caught:
        tls_settings(trust("none.jks") | key("none.p12"))
    assert set(caught.value.problems) == {"ssl.truststore.location", "ssl.keystore.location"}


@pytest.mark.parametrize("name", ["trust.jks", "key.jks"])
def test_a_cut_or_changed_jks_store_never_opens(name: str) -> None:
    content = (STORES / name).read_bytes()
    for end in range(0, len(content), 7):
        with pytest.raises((StoreDamagedError, StorePasswordError)):
            read_jks(content[:end], PASSWORD)
    for at in range(0, len(content), 7):
        with pytest.raises((StoreDamagedError, StorePasswordError)):
            read_jks(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], PASSWORD)


def test_a_cut_jks_store_without_a_password_is_damaged() -> None:
    content = (STORES / "trust.jks").read_bytes()
    for end in range(0, len(content) - 20, 7):
        with pytest.raises(StoreDamagedError):
            read_jks(content[:end], None)


def test_a_jks_keys_password_is_checked() -> None:
    store: JksStore = read_jks((STORES / "key.jks").read_bytes(), PASSWORD)
    (entry,) = store.keys
    assert unprotect_key(entry, "keypass1").startswith(b"\x30")
    with pytest.raises(StorePasswordError):
        unprotect_key(entry, PASSWORD)


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12", "root.pem"])
def test_a_carried_store_needs_no_file(name: str) -> None:
    properties = trust(name, password=PASSWORD)
    carried = carry_stores(properties) | {"ssl.truststore.location": "/not/here"}
    assert tls_settings(carried)["ssl.ca.pem"] == tls_settings(properties)["ssl.ca.pem"]


def test_unreadable_store_is_left_to_its_opener() -> None:
    properties = trust("none.jks") | {"ssl.keystore.location": "${file:/s:keys}"}
    assert carry_stores(properties) == properties


@pytest.mark.parametrize(
    ("password", "why"), [("", "must be set: the key in ssl.keystore.key is encrypted"), ("wrong", "does not open")]
)
def test_an_inline_key_that_its_password_does_not_open_names_that_setting(password: str, why: str) -> None:
    sealed = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right")
    )
    properties = {"ssl.keystore.key": sealed.decode(), "ssl.keystore.certificate.chain": "chain"}
    assert tls_settings({**properties, "ssl.key.password": "right"})["ssl.key.password"] == "right"
    with pytest.raises(BadConfigError) as caught:
        tls_settings({**properties, "ssl.key.password": password})
    assert list(caught.value.problems) == ["ssl.key.password"]
    assert why in caught.value.problems["ssl.key.password"][0]
