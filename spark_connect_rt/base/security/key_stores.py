"""Java trust and key stores: which file, of which format, opened by which password.

Owns: the name of the setting that is wrong when there is none. What is in one: ``tls_entries``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_connect_rt.base.security import jks_store
from spark_connect_rt.base.security.carried_stores import CONTENT
from spark_connect_rt.errors import BadConfigError

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

    As with the JDK's, a type of JKS or PKCS12 reads both; without a type a PEM file is known by what is in it.
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
    if content.startswith(jks_store.MAGIC):
        return "JKS"
    if content.startswith(_JCEKS):
        return "JCEKS"
    if b"-----BEGIN " in content:
        return "PEM"
    return "PKCS12" if content.startswith(b"\x30") else ""  # DER: a SEQUENCE
