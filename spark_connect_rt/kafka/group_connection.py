"""A connection of aiokafka's that reads why a broker refuses an OAUTHBEARER token.

Owns the one step that the library leaves out (RFC 7628, 3.2.3): a refusal comes as a challenge with a JSON text, which
the client answers with a single 0x01; only then does the broker send the error. Without it the broker hangs up, and a
wrong token looks like a broken connection.
"""

from __future__ import annotations

from typing import Any

from spark_connect_rt.kafka.aiokafka_parts import AIOKafkaConnection, OAuthAuthenticator

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
