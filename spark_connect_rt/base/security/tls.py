"""Java's ``ssl.*`` client properties as librdkafka's; the group's own connections start from the same result.

Owns: which setting wins, and that JKS and PKCS12 stores become PEM in memory (``tls_entries``). A setting without an
equivalent is rejected, not just reported, if security would be weaker without it. Reads the store files.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping

from spark_connect_rt.base.security.key_stores import KEYSTORE, TRUSTSTORE, StoreFile, find_store
from spark_connect_rt.errors import BadConfigError


def tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for the client's ``ssl.*`` properties.

    Raises BadConfigError naming every setting whose store cannot be read.
    """
    settings: dict[str, str] = {}
    problems: dict[str, list[str]] = {}
    for part in (_trust, _key):
        try:
            settings |= part(properties)
        except BadConfigError as error:
            problems |= {name: list(why) for name, why in error.problems.items()}
    if problems:
        raise BadConfigError(problems)
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        settings["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    return settings


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    if pem := properties.get("ssl.truststore.certificates"):
        return {"ssl.ca.pem": pem}
    file = find_store(properties, TRUSTSTORE)
    if file is None:
        return {}
    if file.kind == "PEM":
        return {"ssl.ca.pem": file.pem}
    from spark_connect_rt.base.security.key_store_entries import trusted_pem

    return {"ssl.ca.pem": trusted_pem(file)}


def _key(properties: Mapping[str, str]) -> dict[str, str]:
    password = properties.get("ssl.key.password") or ""
    sealed = {"ssl.key.password": password} if password else {}
    if key := properties.get("ssl.keystore.key"):
        _check_password("ssl.keystore.key", key, password)
        return {
            "ssl.key.pem": key,
            "ssl.certificate.pem": properties.get("ssl.keystore.certificate.chain", ""),
        } | sealed
    file = find_store(properties, KEYSTORE)
    if file is None:
        return {}
    if file.kind == "PEM":
        found = _key_of_pem(file)
        _check_password(f"{file.store}.location", found["ssl.key.pem"], password)
        return found | sealed
    from spark_connect_rt.base.security.key_store_entries import own_key

    own = own_key(file, password or None)
    return {"ssl.key.pem": own.key, "ssl.certificate.pem": own.chain}


def _check_password(setting: str, pem: str, password: str) -> None:
    """Raise BadConfigError naming ``ssl.key.password`` where it does not open the encrypted key of ``setting``."""
    if "ENCRYPTED" not in pem:
        return
    if not password:
        raise BadConfigError({"ssl.key.password": [f"must be set: the key in {setting} is encrypted"]})
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        load_pem_private_key(pem.encode(), password.encode())
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise BadConfigError({"ssl.key.password": [f"does not open the key in {setting}"]}) from error


def _key_of_pem(file: StoreFile) -> dict[str, str]:
    """Return the key and the chain of one PEM file, which holds both."""
    parts = file.pem.split("-----BEGIN ")
    keys = [part for part in parts[1:] if part.split("-----")[0].endswith("PRIVATE KEY")]
    certificates = [part for part in parts[1:] if part.startswith("CERTIFICATE-----")]
    if not keys or not certificates:
        missing = "private key" if not keys else "certificate"
        raise BadConfigError({f"{file.store}.location": [f"{file.location} contains no {missing}"]})
    return {
        "ssl.key.pem": f"-----BEGIN {keys[0]}",
        "ssl.certificate.pem": "".join(f"-----BEGIN {part}" for part in certificates),
    }


# Java's ``ssl.*`` client properties as an ``ssl.SSLContext`` of Python's.
#
# Owns the last step only. ``tls_config`` interprets the names, for these connections and for librdkafka's.


def ssl_context(config: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context of connections with these properties. Raises BadConfigError naming unreadable stores."""
    settings = tls_settings(config)
    try:
        context = ssl.create_default_context(cadata=settings.get("ssl.ca.pem"))
    except ssl.SSLError as error:
        raise _unreadable(config, "ssl.truststore.certificates", "ssl.truststore.location", error) from error
    if key := settings.get("ssl.key.pem"):
        pem = f"{key}\n{settings.get('ssl.certificate.pem', '')}\n"
        try:
            load_own_certificate(context, pem, settings.get("ssl.key.password"))
        except (OSError, ssl.SSLError) as error:
            raise _unreadable(config, "ssl.keystore.key", "ssl.keystore.location", error) from error
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context


def load_own_certificate(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """Give ``context`` a key and its chain. Raises OSError, ssl.SSLError.

    OpenSSL reads one's own key from a file only: one in memory where the system has such files, else one that is
    the owner's alone and gone right after. Without a password an encrypted key is an error, not a question asked on
    the terminal.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("connectrt-key"), "w", encoding="ascii") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=password or "")
        return
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(pem)
        context.load_cert_chain(path, password=password or "")
    finally:
        os.unlink(path)


def _unreadable(config: Mapping[str, str], inline: str, location: str, error: Exception) -> BadConfigError:
    """Name the setting that the user gave. OpenSSL's message names no secret."""
    setting = inline if config.get(inline) else location
    return BadConfigError({setting: [f"cannot be loaded: {error}"]})
