"""TLS and SASL of the group's own connections: Java client properties -> arguments of aiokafka's connections.

Owns the last step only: ``sasl_config`` and ``tls_config`` define the meaning of the Java names, for these connections
and for librdkafka's. A setting that cannot be mapped is refused by name, never ignored: a silently weaker connection
would be worse than none.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import SaslAuthenticationFailed

from spark_connect_rt.base.security.oauth import TokenRefusedError, TokenSource, token_settings, token_source
from spark_connect_rt.base.security.sasl import sasl_settings
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.aiokafka_parts import AIOKafkaConnection, OAuthAuthenticator

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_NO_GSSAPI = "GSSAPI needs the Python library gssapi, which is not installed. See docs/howto/broker_security.md"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """The provider that aiokafka asks for tokens."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def token(self) -> str:
        """Return the token's text; fetched off the loop, whose heartbeats continue. Raises SaslAuthenticationFailed."""
        try:
            token = await asyncio.get_running_loop().run_in_executor(None, self._source.token)
        except TokenRefusedError as error:  # the library does not retry after this error, and a retry could not succeed
            raise SaslAuthenticationFailed(str(error)) from error
        return token.text

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions, as the settings list them."""
        return dict(self._source.settings.extensions)


def connection_arguments(config: Mapping[str, str], token_provider: Any = None) -> dict[str, Any]:
    """Return the security arguments of ``aiokafka.conn.create_conn``. Raises BadConfigError.

    Args:
        config: worker properties by their Java names, secrets resolved.
        token_provider: an ``aiokafka.abc.AbstractTokenProvider`` instead of the one these properties make.
    """
    protocol = (config.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise BadConfigError({"security.protocol": [f"{protocol!r} is not valid. Use one of {', '.join(_PROTOCOLS)}"]})
    arguments: dict[str, Any] = {"security_protocol": protocol}
    if protocol.startswith("SASL_"):
        arguments |= _sasl(config, token_provider)
    if protocol.endswith("SSL"):
        # Imported when needed: it brings the library that opens key stores.
        from spark_connect_rt.base.security.tls import ssl_context

        arguments["ssl_context"] = ssl_context(config)
    return arguments


def _use_keytab(settings: Mapping[str, str]) -> None:
    """Have MIT Kerberos fetch tickets by the keytab of the JAAS line; it is asked for by this variable only.

    Without a keytab the tickets of ``kinit`` serve.
    """
    keytab = settings.get("sasl.kerberos.keytab")
    if keytab is None:
        return
    if not os.access(keytab, os.R_OK):
        raise BadConfigError({"sasl.jaas.config": [f"keyTab: {keytab} cannot be read"]})
    os.environ["KRB5_CLIENT_KTNAME"] = f"FILE:{keytab}"


def _sasl(config: Mapping[str, str], token_provider: Any) -> dict[str, Any]:
    settings = {"sasl.mechanism": "GSSAPI"} | sasl_settings(config)
    mechanism = settings["sasl.mechanism"].upper()
    if mechanism not in _MECHANISMS:
        raise BadConfigError(
            {"sasl.mechanism": [f"{mechanism!r} is not supported. Use one of {', '.join(_MECHANISMS)}"]}
        )
    arguments: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        provider = token_provider or TokenProvider(token_source(token_settings(config)))
        return arguments | {"sasl_oauth_token_provider": provider}
    if mechanism == "GSSAPI":
        if find_spec("gssapi") is None:
            raise BadConfigError({"sasl.mechanism": [_NO_GSSAPI]})
        _use_keytab(settings)
        service = settings.get("sasl.kerberos.service.name", "kafka")
        return arguments | {"sasl_kerberos_service_name": service}
    missing = [name for name in ("username", "password") if f"sasl.{name}" not in settings]
    if missing:
        raise BadConfigError({"sasl.jaas.config": [f"{mechanism} needs {' and '.join(missing)}"]})
    return arguments | {
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
    }


# A connection of aiokafka's that reads why a broker refuses an OAUTHBEARER token.
#
# Owns the one step that the library leaves out (RFC 7628, 3.2.3): a refusal comes as a challenge with a JSON text,
# which the client answers with a single 0x01; only then does the broker send the error. Without it the broker hangs
# up, and a wrong token looks like a broken connection.


_KVSEP = b"\x01"


class _RefusalReadingAuthenticator(OAuthAuthenticator):  # type: ignore[misc]
    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if self._token_sent and payload:
            return _KVSEP, True
        step: tuple[bytes, bool] | None = await super().step(payload)
        return step


class GroupConnection(AIOKafkaConnection):  # type: ignore[misc]
    """A connection that completes a refused OAUTHBEARER exchange, so that the reason arrives."""

    def authenticator_oauth(self) -> Any:
        """Return the exchange of OAUTHBEARER."""
        return _RefusalReadingAuthenticator(sasl_oauth_token_provider=self._sasl_oauth_token_provider)


async def connect(host: str, port: int, **arguments: Any) -> GroupConnection:
    """Return an open, authenticated connection; ``arguments`` as of ``aiokafka.conn.create_conn``."""
    connection = GroupConnection(host, port, **arguments)
    await connection.connect()
    return connection
