"""TLS of the REST API from Java's settings: contexts for https listeners and for requests to other workers.

``listeners.https.ssl.*`` (``admin.listeners.https.ssl.*``) replace ``ssl.*`` when at least one of them is given, never
one by one (Java ``SSLUtils``, ``valuesWithPrefixAllOrNothing``). Stores may be PEM, PKCS12 or JKS.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from spark_connect_rt.base.security.tls import load_own_certificate, tls_settings
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.worker_config import REST
from spark_connect_rt.errors import BadConfigError

LISTENERS, ADMIN = "listeners.https.", "admin.listeners.https."
_VERIFY = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_values(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the ``ssl.*`` settings that hold for listeners with ``prefix``."""
    own = dict(prefixed(config, prefix))
    return own or {name: value for name, value in config.items() if name.startswith("ssl.")}


def server_tls(config: Mapping[str, str], prefix: str = LISTENERS) -> ssl.SSLContext:
    """Return the context of https listeners. Raises BadConfigError naming the setting that is wrong."""
    values = tls_values(config, prefix)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings = _load(context, values)
    if "ssl.key.pem" not in settings:
        missing = f"{prefix if prefixed(config, prefix) else ''}ssl.keystore.location"
        raise BadConfigError({missing: ["must be set: an https listener needs a key and its certificate"]})
    wanted = (values.get("ssl.client.auth") or REST["ssl.client.auth"].default).lower()
    if wanted not in _VERIFY:
        raise BadConfigError({f"{prefix}ssl.client.auth": [f"{wanted} is not valid. Use one of {', '.join(_VERIFY)}"]})
    context.verify_mode = _VERIFY[wanted]
    if wanted != "none" and "ssl.ca.pem" not in settings:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def client_tls(config: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the context of requests to other workers; None: nothing is set for it. Raises BadConfigError."""
    values = tls_values(config, LISTENERS)
    if not values:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    settings = _load(context, values)
    if "ssl.ca.pem" not in settings:
        context.load_default_certs()
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") == "https"
    return context


def _load(context: ssl.SSLContext, values: Mapping[str, str]) -> dict[str, str]:
    """Give ``context`` the versions, ciphers, authorities and key of ``values``; return the stores' contents."""
    settings = tls_settings(values)
    try:
        _limit_versions(context, values.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"))
        if suites := values.get("ssl.cipher.suites"):
            context.set_ciphers(":".join(part.strip() for part in suites.split(",")))
        if authorities := settings.get("ssl.ca.pem"):
            context.load_verify_locations(cadata=authorities)
        if key := settings.get("ssl.key.pem"):
            pem = f"{key}\n{settings.get('ssl.certificate.pem', '')}\n"
            load_own_certificate(context, pem, settings.get("ssl.key.password"))
    except (OSError, ssl.SSLError) as error:
        raise BadConfigError({"ssl": [f"a key, certificate or cipher cannot be loaded: {error}"]}) from error
    return settings


def _limit_versions(context: ssl.SSLContext, text: str) -> None:
    named = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [version for version in named if version not in _VERSIONS]
    if unknown:
        raise BadConfigError({"ssl.enabled.protocols": [f"{version} is not available here" for version in unknown]})
    versions = [_VERSIONS[version] for version in named]
    if versions:
        context.minimum_version, context.maximum_version = min(versions), max(versions)
