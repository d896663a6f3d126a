"""Java's ``ssl.*`` client properties as librdkafka's.

Owns: which store types OpenSSL can read. Pure. What would weaken security when left out is refused, not reported.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.errors import BadConfigError

_HINT = "is not readable here: convert it to PEM (keytool -exportcert / openssl pkcs12) and set {kind}.type=PEM"


def tls_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for the client's ``ssl.*`` properties.

    Raises BadConfigError naming every store that OpenSSL cannot read.
    """
    settings: dict[str, str] = {}
    problems: dict[str, list[str]] = {}
    _trust(properties, settings, problems)
    _key(properties, settings, problems)
    if problems:
        raise BadConfigError(problems)
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        settings["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    return settings


def _trust(properties: Mapping[str, str], settings: dict[str, str], problems: dict[str, list[str]]) -> None:
    if pem := properties.get("ssl.truststore.certificates"):
        settings["ssl.ca.pem"] = pem
    elif location := properties.get("ssl.truststore.location"):
        if _store_type(properties, "ssl.truststore") == "PEM":
            settings["ssl.ca.location"] = location
        else:
            problems["ssl.truststore.location"] = [_HINT.format(kind="ssl.truststore")]


def _key(properties: Mapping[str, str], settings: dict[str, str], problems: dict[str, list[str]]) -> None:
    if key := properties.get("ssl.keystore.key"):
        settings["ssl.key.pem"] = key
        settings["ssl.certificate.pem"] = properties.get("ssl.keystore.certificate.chain", "")
    elif location := properties.get("ssl.keystore.location"):
        kind = _store_type(properties, "ssl.keystore")
        if kind == "PEM":  # one file holds the key and the chain
            settings["ssl.key.location"] = settings["ssl.certificate.location"] = location
        elif kind == "PKCS12":
            settings["ssl.keystore.location"] = location
            settings["ssl.keystore.password"] = properties.get("ssl.keystore.password", "")
        else:
            problems["ssl.keystore.location"] = [_HINT.format(kind="ssl.keystore")]
    if password := properties.get("ssl.key.password"):
        settings["ssl.key.password"] = password


def _store_type(properties: Mapping[str, str], store: str) -> str:
    """Return the type said, else what the file's ending says, else Java's default."""
    if said := properties.get(f"{store}.type"):
        return said.upper()
    location = properties.get(f"{store}.location", "").lower()
    if location.endswith((".pem", ".crt", ".cer")):
        return "PEM"
    return "PKCS12" if location.endswith((".p12", ".pfx")) else "JKS"
