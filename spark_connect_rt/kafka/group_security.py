"""TLS and SASL of the group's own connections: Java client properties -> arguments of aiokafka's connections.

Owns the last step only: what the Java names mean is decided once, by ``sasl_config`` and ``tls_config``, for
these connections and for librdkafka's. What cannot be mapped is refused by name, never ignored: a silently
weaker connection would be worse than none.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.sasl_config import sasl_settings
from spark_connect_rt.kafka.tls_config import tls_settings

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def connection_arguments(config: Mapping[str, str], token_provider: Any = None) -> dict[str, Any]:
    """Return the security arguments of ``aiokafka.conn.create_conn``. Raises BadConfigError.

    Args:
        config: worker properties by their Java names, secrets resolved.
        token_provider: an ``aiokafka.abc.AbstractTokenProvider``, for OAUTHBEARER.
    """
    protocol = (config.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise BadConfigError({"security.protocol": [f"{protocol!r} is none of {', '.join(_PROTOCOLS)}"]})
    arguments: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL_"):
        arguments |= _sasl(config, token_provider)
    if protocol.endswith("SSL"):
        arguments["ssl_context"] = _ssl_context(config)
    return arguments


def _sasl(config: Mapping[str, str], token_provider: Any) -> dict[str, Any]:
    settings = {"sasl.mechanism": "GSSAPI"} | sasl_settings(config)
    mechanism = settings["sasl.mechanism"].upper()
    if mechanism not in _MECHANISMS:
        raise BadConfigError({"sasl.mechanism": [f"{mechanism!r} is none of {', '.join(_MECHANISMS)}"]})
    arguments: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        if token_provider is None:
            raise BadConfigError(
                {"sasl.mechanism": ["OAUTHBEARER needs a token provider, which this worker was not given"]}
            )
        return arguments | {"sasl_oauth_token_provider": token_provider}
    if mechanism == "GSSAPI":
        service = settings.get("sasl.kerberos.service.name", "kafka")
        return arguments | {"sasl_kerberos_service_name": service}
    missing = [name for name in ("username", "password") if f"sasl.{name}" not in settings]
    if missing:
        raise BadConfigError({"sasl.jaas.config": [f"{mechanism} needs {' and '.join(missing)} in it"]})
    return arguments | {
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
    }


def _ssl_context(config: Mapping[str, str]) -> ssl.SSLContext:
    settings = tls_settings(config)
    if "ssl.keystore.location" in settings:
        problem = "a PKCS12 store cannot be read for the group's connections: convert it to PEM (openssl pkcs12)"
        raise BadConfigError({"ssl.keystore.location": [problem]})
    try:
        context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem"))
        _load_own_certificate(context, settings)
    except (OSError, ssl.SSLError) as error:
        # OpenSSL's message names no secret.
        raise BadConfigError({"ssl.keystore.location": [f"the certificates cannot be loaded: {error}"]}) from error
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context


def _load_own_certificate(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    password = settings.get("ssl.key.password")
    if location := settings.get("ssl.certificate.location"):
        context.load_cert_chain(location, password=password)
    elif key := settings.get("ssl.key.pem"):
        # OpenSSL reads one's own key from a file only; this one is the owner's alone, and gone right after.
        handle, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as pem:
                pem.write(f"{key}\n{settings.get('ssl.certificate.pem', '')}\n")
            context.load_cert_chain(path, password=password)
        finally:
            os.unlink(path)
