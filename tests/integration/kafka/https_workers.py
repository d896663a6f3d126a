"""Workers that talk to each other over https, each with a certificate that the other one asks for."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

_PASSWORD = "secret"


class Stores:
    """One authority; a key store of its server certificate, and a trust store of it, both PKCS12."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        server = authority.issue_cert("127.0.0.1")
        key = serialization.load_pem_private_key(server.private_key_pem.bytes(), None)
        own, *above = [x509.load_pem_x509_certificate(pem.bytes()) for pem in server.cert_chain_pems]
        sealed = serialization.BestAvailableEncryption(_PASSWORD.encode())
        self._keys, self._trust = folder / "worker.p12", folder / "trust.p12"
        self._keys.write_bytes(
            pkcs12.serialize_key_and_certificates(b"worker", key, own, above, sealed)  # type: ignore[arg-type]
        )
        trusted = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority.cert_pem.bytes()), b"ca")
        self._trust.write_bytes(pkcs12.serialize_java_truststore([trusted], sealed))

    def settings(self, http_port: int, https_port: int) -> dict[str, str]:
        """Return a worker's settings: http for the test, https for other workers."""
        tls = {
            "keystore.type": "PKCS12",
            "keystore.location": str(self._keys),
            "keystore.password": _PASSWORD,
            "key.password": _PASSWORD,
            "truststore.type": "PKCS12",
            "truststore.location": str(self._trust),
            "truststore.password": _PASSWORD,
            "client.auth": "required",
        }
        return {
            "listeners": f"http://127.0.0.1:{http_port},https://127.0.0.1:{https_port}",
            "rest.advertised.listener": "https",
            **{f"listeners.https.ssl.{name}": value for name, value in tls.items()},
        }
