"""The entries of Java trust and key stores as PEM texts, which OpenSSL reads.

Owns: which of a store's certificates are trusted, which key is one's own, and the name of the invalid setting when a
store does not open. Nothing is written anywhere: keys exist in memory only. Imported only for such a store: the library
takes 0.2 s of every start. Source: JDK ``TrustStoreUtil.getTrustedCerts``, Kafka ``DefaultSslEngineFactory``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    pkcs12,
)

from spark_connect_rt.base.security import key_stores as jks_store
from spark_connect_rt.base.security.key_stores import StoreFile
from spark_connect_rt.errors import BadConfigError


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The client's private key (PKCS8, not encrypted) and its certificates, its own first; both PEM."""

    key: str
    chain: str


def trusted_pem(file: StoreFile) -> str:
    """Return the trusted certificates of a JKS or PKCS12 store. Raises BadConfigError."""
    certificates = _trusted_jks(file) if file.kind == "JKS" else _trusted_pkcs12(file)
    if not certificates:
        # A PKCS12 store without its password opens, but shows nothing; Java fails the same way, later.
        missing = "" if file.password else f". Is {file.store}.password missing?"
        raise BadConfigError({f"{file.store}.location": [f"{file.location} contains no trusted certificate{missing}"]})
    return "".join(map(_certificate_pem, certificates))


def own_key(file: StoreFile, key_password: str | None) -> OwnKey:
    """Return the first key of a JKS or PKCS12 store. Raises BadConfigError.

    ``key_password`` is ``ssl.key.password``; without it the store's password opens the key too.
    """
    if file.kind == "JKS":
        key, certificates = _key_of_jks(file, key_password)
    else:
        opened = _open_pkcs12(file)
        if opened.key is None or opened.cert is None:
            raise _no_key(file)
        key = opened.key
        certificates = [opened.cert.certificate, *(cert.certificate for cert in opened.additional_certs)]
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    return OwnKey(text, "".join(map(_certificate_pem, _issued_in_order(certificates))))


def _trusted_jks(file: StoreFile) -> list[x509.Certificate]:
    store = _open_jks(file)
    own = [entry.chain[0] for entry in store.keys if entry.chain]  # Java also trusts the certificate for the own key
    return [_certificate(file, der) for der in (*store.trusted, *own)]


def _trusted_pkcs12(file: StoreFile) -> list[x509.Certificate]:
    opened = _open_pkcs12(file)
    own = [] if opened.cert is None else [opened.cert]
    # A store keeps the certificates of a key's issuers next to the key. Java does not trust them for it. It marks the
    # trusted ones with an attribute that the library hides. But issuers have their subject ("CN=...") or nothing as a
    # name, and trusted ones an alias.
    others = [cert for cert in opened.additional_certs if opened.key is None or _is_alias(cert.friendly_name)]
    return [pkcs12_certificate.certificate for pkcs12_certificate in (*others, *own)]


def _is_alias(name: bytes | None) -> bool:
    return bool(name) and b"=" not in (name or b"")


def _key_of_jks(file: StoreFile, key_password: str | None) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    store = _open_jks(file)
    if not store.keys:
        raise _no_key(file)
    entry = store.keys[0]
    setting, password = ("ssl.key.password", key_password) if key_password else _store_password(file)
    try:
        der = jks_store.unprotect_key(entry, password or "")
        key = load_der_private_key(der, None)
    except jks_store.StorePasswordError as error:
        raise BadConfigError({setting: [f"does not open the key {entry.alias!r} in {file.location}"]}) from error
    except (jks_store.StoreDamagedError, ValueError, UnsupportedAlgorithm) as error:
        raise _damaged(file, error) from error
    return key, [_certificate(file, certificate) for certificate in entry.chain]


def _open_jks(file: StoreFile) -> jks_store.JksStore:
    try:
        return jks_store.read_jks(file.content, file.password)
    except jks_store.StorePasswordError as error:
        raise _wrong_password(file) from error
    except jks_store.StoreDamagedError as error:
        raise _damaged(file, error) from error


def _open_pkcs12(file: StoreFile) -> pkcs12.PKCS12KeyAndCertificates:
    password = file.password.encode() if file.password else None
    try:
        return pkcs12.load_pkcs12(file.content, password)
    except (ValueError, UnsupportedAlgorithm) as error:
        # The library reports a wrong password and damage alike; its message names no secret.
        raise _wrong_password(file) from error


def _certificate(file: StoreFile, der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise _damaged(file, error) from error


def _issued_in_order(certificates: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the first certificate, its issuer, the issuer's ...; PKCS12 keeps no order."""
    ordered, rest = certificates[:1], certificates[1:]
    while ordered and (
        issuer := next((certificate for certificate in rest if certificate.subject == ordered[-1].issuer), None)
    ):
        ordered.append(issuer)
        rest.remove(issuer)
    return ordered


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _store_password(file: StoreFile) -> tuple[str, str | None]:
    return f"{file.store}.password", file.password


def _wrong_password(file: StoreFile) -> BadConfigError:
    if file.password is None:
        return BadConfigError({f"{file.store}.password": [f"must be set to open {file.location}"]})
    return BadConfigError({f"{file.store}.password": [f"does not open {file.location}, or the file is damaged"]})


def _damaged(file: StoreFile, error: Exception) -> BadConfigError:
    return BadConfigError({f"{file.store}.location": [f"{file.location} cannot be read: {error}"]})


def _no_key(file: StoreFile) -> BadConfigError:
    return BadConfigError({f"{file.store}.location": [f"{file.location} contains no private key"]})
