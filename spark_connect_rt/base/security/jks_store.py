"""Java's own key store format (JKS): entries out of the file's bytes.

Owns the layout, the store's keyed digest and Sun's key protection. Pure. Certificates and keys stay DER; what is done
with them is ``tls_stores``'. JCEKS (another magic number) and JKS' successor PKCS12 are not read here.

No library: the one there is (pyjks) rests since 2020 and needs a C compiler to install.
Source: JDK ``sun.security.provider.JavaKeyStore`` and ``KeyProtector``, as documented by their file comments.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = bytes.fromhex("feedfeed")
_KEY, _CERTIFICATE = 1, 2
_DIGEST_BYTES = 20  # SHA-1, the format's choice
_WHITENER = b"Mighty Aphrodite"


class StoreDamagedError(Exception):
    """The bytes are not a whole store."""


class StorePasswordError(Exception):
    """The password does not open the store, or not the key in it."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A protected private key and its certificates (DER, the key's own first)."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class JksStore:
    """What a store holds; certificates are DER."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> JksStore:
    """Return the entries of a JKS file.

    ``password`` None or empty skips the check of the store's digest, as Java does for a trust store.
    Raises StoreDamagedError, StorePasswordError (wrong password; a changed file looks the same).
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password:
        expected = hashlib.sha1(_password_bytes(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise StorePasswordError
    try:
        return _entries(_Reader(body))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise StoreDamagedError(str(error)) from error


def unprotect_key(entry: KeyEntry, password: str) -> bytes:
    """Return a private key as PKCS8 DER. Raises StorePasswordError, StoreDamagedError."""
    sealed = _octets(entry.protected)
    salt, cipher, check = sealed[:_DIGEST_BYTES], sealed[_DIGEST_BYTES:-_DIGEST_BYTES], sealed[-_DIGEST_BYTES:]
    secret = _password_bytes(password)
    stream = _key_stream(secret, salt)
    plain = bytes(byte ^ mask for byte, mask in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise StorePasswordError
    return plain


class _Reader:
    """Java's DataInputStream over bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise IndexError(f"{count} bytes expected at {self._at}, {len(taken)} left")
        self._at += count
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode("utf-8", "surrogatepass")


def _entries(reader: _Reader) -> JksStore:
    if reader.take(4) != MAGIC:
        raise StoreDamagedError("not a JKS store")
    version = reader.number()
    if version not in (1, 2):
        raise StoreDamagedError(f"JKS version {version}")
    keys, trusted = [], []
    for _ in range(reader.number()):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # when it was stored
        if tag == _KEY:
            protected = reader.take(reader.number())
            chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
            keys.append(KeyEntry(alias, protected, chain))
        elif tag == _CERTIFICATE:
            trusted.append(_certificate(reader, version))
        else:
            raise StoreDamagedError(f"entry of unknown kind {tag}")
    return JksStore(tuple(keys), tuple(trusted))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2 and (kind := reader.text()) != "X.509":
        raise StoreDamagedError(f"a certificate of type {kind}")
    return reader.take(reader.number())


def _octets(encrypted_key_info: bytes) -> bytes:
    """Return the OCTET STRING of a DER ``EncryptedPrivateKeyInfo``: SEQUENCE (algorithm SEQUENCE, OCTET STRING)."""
    outer, _ = _der_value(encrypted_key_info, 0x30)
    _, rest = _der_value(outer, 0x30)
    return _der_value(rest, 0x04)[0]


def _der_value(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return (the first element's content, what follows it)."""
    if len(data) < 2 or data[0] != tag:
        raise StoreDamagedError("a key is not in the form of a Sun JKS key")
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    return data[start : start + length], data[start + length :]


def _key_stream(secret: bytes, salt: bytes) -> Iterator[int]:
    block = salt
    while True:
        block = hashlib.sha1(secret + block).digest()
        yield from block


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
