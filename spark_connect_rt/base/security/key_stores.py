"""Java trust and key stores: which file, of which format, opened by which password.

Owns: the name of the invalid setting in an error. The entries of a store are read in ``tls_entries``.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_connect_rt.errors import BadConfigError

# Java's own key store format (JKS): entries out of the file's bytes.
#
# Owns the layout, the store's keyed digest and Sun's key protection. Pure. Certificates and keys stay DER;
# ``tls_stores`` uses them. JCEKS (another magic number) and JKS' successor PKCS12 are not read here.
#
# No library: the existing one (pyjks) has had no release since 2020 and needs a C compiler to install.
# Source: JDK ``sun.security.provider.JavaKeyStore`` and ``KeyProtector``, as documented by their file comments.


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
    """The content of a store. All certificates are DER bytes."""

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
    """Reads big-endian values from bytes like Java's DataInputStream. Raises IndexError at the end."""

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
    """Return (the first element's content, the bytes after it)."""
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


# Trust and key stores for clients on other machines: their bytes travel with the client's properties.
#
# Executors need not have the files that a worker's or connector's properties name. A store travels as it is, still
# sealed by its password; a password given as ``${provider:...}`` is resolved where the store is opened, never here.


TRUSTSTORE, KEYSTORE = "ssl.truststore", "ssl.keystore"
CONTENT = "connectrt.{store}.content"
"""The property that holds a store's bytes in base64; ``tls_stores`` prefers it to the file."""


def carry_stores(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` with the content of each store file that they name and that is readable here.

    A file that is not readable here may exist elsewhere: the path may hold a reference, or the executors' images the
    file. The client that opens it reports the problem.
    """
    carried = dict(properties)
    for store in (TRUSTSTORE, KEYSTORE):
        if location := properties.get(f"{store}.location"):
            with contextlib.suppress(OSError):
                carried[CONTENT.format(store=store)] = base64.b64encode(Path(location).read_bytes()).decode("ascii")
    return carried


_TYPES = ("JKS", "PKCS12", "PEM")
_JCEKS = bytes.fromhex("cececece")


@dataclass(frozen=True, slots=True)
class StoreFile:
    """One store as it was found: PEM text, or a binary store of ``kind`` JKS or PKCS12."""

    store: str  # ssl.truststore or ssl.keystore
    location: str
    kind: str
    content: bytes = b""
    password: str | None = None

    @property
    def pem(self) -> str:
        """Return the text of a PEM store."""
        return self.content.decode("utf-8", "replace")


def find_store(properties: Mapping[str, str], store: str) -> StoreFile | None:
    """Return the store that ``{store}.location`` names, None when it names none.

    As with the JDK's, a type of JKS or PKCS12 reads both; without a type a PEM file is recognized by its content.
    Raises BadConfigError naming the setting: no such file, an unknown type, a format that is not the type's.
    """
    location = properties.get(f"{store}.location", "")
    carried = properties.get(CONTENT.format(store=store))
    if not location and not carried:
        return None
    said = (properties.get(f"{store}.type") or "").upper()
    if said and said not in _TYPES:
        raise BadConfigError({f"{store}.type": [f"{said} is not supported. Use JKS, PKCS12 or PEM"]})
    content = _carried(carried, store) if carried else _read(location, store)
    kind = _kind_of(content)
    if kind == "JCEKS":
        problem = f"{location} is a JCEKS store, which is not supported. Convert it to PKCS12 (keytool -importkeystore)"
        raise BadConfigError({f"{store}.location": [problem]})
    if kind not in (("PEM",) if said == "PEM" else ("JKS", "PKCS12") if said else _TYPES):
        raise BadConfigError({f"{store}.type": [f"{location} is not a store of type {said or 'JKS (the default)'}"]})
    return StoreFile(store, location, kind, content, properties.get(f"{store}.password") or None)


def _read(location: str, store: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise BadConfigError({f"{store}.location": [f"{location}: {error.strerror or error}"]}) from error


def _carried(content: str, store: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise BadConfigError({CONTENT.format(store=store): ["is not base64"]}) from error


def _kind_of(content: bytes) -> str:
    if content.startswith(MAGIC):
        return "JKS"
    if content.startswith(_JCEKS):
        return "JCEKS"
    if b"-----BEGIN " in content:
        return "PEM"
    return "PKCS12" if content.startswith(b"\x30") else ""  # DER: a SEQUENCE
