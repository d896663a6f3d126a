"""Certificates of an authority of the tests' own, for a worker's https listeners and their clients."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import trustme


class Certificates:
    """One authority, a key of the worker's, one of a client's, one of a stranger's."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.authority, self.worker, self.stranger = folder / "ca.pem", folder / "worker.pem", folder / "stranger.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(self.worker))
        trustme.CA().issue_cert("stranger").private_key_and_cert_chain_pem.write_to_path(str(self.stranger))

    def settings(self, prefix: str = "listeners.https.", auth: str = "none") -> dict[str, str]:
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(self.worker),
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": str(self.authority),
            f"{prefix}ssl.client.auth": auth,
        }

    def get(self, url: str, key: Path | None = None) -> httpx.Response:
        context = ssl.create_default_context(cafile=str(self.authority))
        if key is not None:
            context.load_cert_chain(str(key))
        with httpx.Client(verify=context, trust_env=False) as client:
            return client.get(url)
