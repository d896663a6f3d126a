"""Java's ``ssl.*`` client properties as an ``ssl.SSLContext`` of Python's.

Owns the last step only: what the names mean is ``tls_config``'s, for these connections and for librdkafka's.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping

from spark_connect_rt.base.security.tls import tls_settings
from spark_connect_rt.errors import BadConfigError


def ssl_context(config: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context of connections with these properties. Raises BadConfigError naming what cannot be read."""
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
