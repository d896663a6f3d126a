"""Why a broker cannot be talked to, in the names of Java's settings.

Owns: which failures of TLS and SASL no repetition can resolve, and the setting that decides each. Java treats the same
ones as fatal (``SslAuthenticationException``, ``SaslAuthenticationException``).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka.errors import AuthenticationFailedError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

from spark_connect_rt.config.bootstrap_servers import bootstrap_addresses
from spark_connect_rt.kafka.group_security import connection_arguments

# Why a broker rejects this client, for a coordinator's answers and for failed connections.


@dataclass(frozen=True, slots=True)
class Refusal:
    """The setting to correct, for an answer that repeating cannot change."""

    setting: str
    reason: str


_TRUST, _OWN, _NAME = "ssl.truststore.location", "ssl.keystore.location", "ssl.endpoint.identification.algorithm"
_VERIFY = {  # OpenSSL's X509_V_ERR_*
    9: (_TRUST, "the broker's certificate is not valid yet"),
    10: (_TRUST, "the broker's certificate, or its issuer's, has expired"),
    62: (_NAME, "the broker's certificate is for another host name (an empty value disables this check)"),
    64: (_NAME, "the broker's certificate is for another address (an empty value disables this check)"),
}
_UNTRUSTED = (_TRUST, "the broker's certificate was not issued by an authority in this trust store")
_NO_TLS = ("security.protocol", "the broker's listener does not speak TLS")
_ALERTS = {
    "CERTIFICATE_REQUIRED": (_OWN, "the broker requires a certificate, but this worker has none"),
    "CERTIFICATE_EXPIRED": (_OWN, "the broker reports that this worker's certificate has expired"),
    "CERTIFICATE_UNKNOWN": (_OWN, "the broker does not accept this worker's certificate"),
    "CERTIFICATE_REVOKED": (_OWN, "the broker reports that this worker's certificate is revoked"),
    "BAD_CERTIFICATE": (_OWN, "the broker requires a certificate, but accepts none of this worker's"),
    "UNKNOWN_CA": (_OWN, "the broker does not trust the issuer of this worker's certificate"),
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "PROTOCOL_VERSION": ("security.protocol", "the broker supports no TLS version that this worker supports"),
}
_PROBE_LIMIT_S = 5.0


def refusal_of_error(error: BaseException) -> Refusal | None:
    """Return what to correct when connecting again cannot help, else None. Causes are looked at too."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, UnsupportedSaslMechanismError):
            return Refusal("sasl.mechanism", _words(seen))
        if isinstance(seen, SaslAuthenticationFailed | AuthenticationFailedError):
            return Refusal("sasl.jaas.config", _words(seen))
        if isinstance(seen, ssl.SSLError):
            return tls_refusal(seen)
        seen = seen.__cause__
    return None


def _words(error: BaseException) -> str:
    """Return what the broker or the library said, without aiokafka's number and class name in front."""
    return str(error.args[0]) if error.args else type(error).__name__


def tls_refusal(error: ssl.SSLError) -> Refusal | None:
    """Return what to correct after a failed handshake; None when it may have been the connection."""
    if isinstance(error, ssl.SSLCertVerificationError):
        setting, reason = _VERIFY.get(error.verify_code, _UNTRUSTED)
        return Refusal(setting, f"{reason}: {error.verify_message}")
    reason = getattr(error, "reason", None) or ""
    return next((Refusal(*said) for mark, said in _ALERTS.items() if mark in reason), None)


def probe_tls(properties: Mapping[str, str]) -> Refusal | None:
    """Shake hands with the bootstrap servers, one after the other; return why none can be talked to by TLS.

    librdkafka says only "certificate verify failed", under its own settings' names. None: a handshake succeeded,
    no server could be reached, or TLS is not wanted. Raises BadConfigError: the stores or the addresses cannot be read.
    """
    context = connection_arguments({**properties, "security.protocol": "SSL"}).get("ssl_context")
    refusal = None
    for host, port in bootstrap_addresses(properties.get("bootstrap.servers", "")):
        with contextlib.suppress(OSError):
            with socket.create_connection((host, port), timeout=_PROBE_LIMIT_S) as plain:
                try:
                    _shake_hands(context, plain, host)
                except ssl.SSLError as error:
                    refusal = tls_refusal(error)
                    continue
            return None
    return refusal


def _shake_hands(context: ssl.SSLContext | None, plain: socket.socket, host: str) -> None:
    assert context is not None
    with context.wrap_socket(plain, server_hostname=host) as secured:
        # TLS 1.3: the broker's verdict on our certificate comes after the handshake. Silence is consent.
        secured.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            secured.recv(1)
