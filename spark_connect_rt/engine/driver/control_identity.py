"""The driver's key and certificate for its control channel: made when it starts to listen, kept in memory only.

Owns how they are made. The dates say nothing (clocks of executors may be wrong, a driver may run for years): the
certificate is trusted because the ticket names it, and ends with its driver.
"""

from __future__ import annotations

import datetime as dt
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "connectrt")])
_FROM, _UNTIL = dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


def new_identity() -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of a new key, and its certificate (PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number(), _FROM, _UNTIL)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no client resumes a session: each process connects once
    with tempfile.TemporaryDirectory(prefix="connectrt-") as folder:  # 0700; ssl takes keys from files alone
        path = Path(folder, "identity.pem")
        path.write_bytes(certificate + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context.load_cert_chain(path)
    return context, certificate.decode()
