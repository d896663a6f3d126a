"""Where a cluster is and how one is let in: addresses, credentials, TLS, limits."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spark_connect_rt.errors import BadConfigError

REQUEST_LIMIT_S = 95.0
"""A worker answers within 90 s, be it with 'timed out' (Java ``RestServerConfig``): its own words are waited for."""


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """One cluster: ``urls`` are addresses of its workers, tried in turn. Any of them answers for all.

    Raises BadConfigError for an invalid address.
    """

    urls: tuple[str, ...]
    username: str | None = None
    password: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password: str | None = field(default=None, repr=False)
    insecure: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    request_limit_s: float = REQUEST_LIMIT_S
    connect_limit_s: float = 5.0
    rebalance_limit_s: float = 30.0
    """How long a refusal that a rebalance explains is asked again; 0: never."""
    admin_urls: tuple[str, ...] = ()
    """Where ``/admin`` is served, if not at ``urls`` (the workers' ``admin.listeners``)."""

    def __post_init__(self) -> None:
        if not self.urls:
            raise BadConfigError({"url": ["no address of a worker is given"]})
        for url in (*self.urls, *self.admin_urls):
            if problem := _problem_of(url):
                raise BadConfigError({"url": [f"{problem}: {_without_credentials(url)}"]})

    def bases(self, path: str = "/") -> tuple[str, ...]:
        """Return the addresses for a path, as requests use them: without credentials, query and last slash."""
        urls = self.admin_urls if self.admin_urls and path.startswith("/admin") else self.urls
        return tuple(_without_credentials(url).partition("?")[0].rstrip("/") for url in urls)

    def all_headers(self) -> dict[str, str]:
        """Return the headers of every request, credentials among them."""
        headers = {"Accept": "application/json", **self.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        elif self.username is not None:
            pair = f"{self.username}:{self.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return headers

    def tls(self) -> ssl.SSLContext | bool:
        """Return what verifies and shows certificates; False: nothing is verified, or no address is https.

        Raises BadConfigError for a file that cannot be read.
        """
        if not any(url.lower().startswith("https:") for url in (*self.urls, *self.admin_urls)):
            return False
        try:
            context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        except (OSError, ssl.SSLError) as error:
            raise BadConfigError({"ca": [f"{self.ca_file}: {error}"]}) from error
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return self._with_certificate(context)

    def _with_certificate(self, context: ssl.SSLContext) -> ssl.SSLContext:
        if self.cert_file:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, self.key_password or "")
            except (OSError, ssl.SSLError) as error:
                raise BadConfigError({"cert": [f"{self.cert_file}: {error}"]}) from error
        return context


def connection_to(url: str) -> ClusterConnection:
    """Return a connection to addresses in one text, separated by commas; credentials in one of them count for all."""
    urls = tuple(
        address if "://" in address else f"http://{address}" for part in url.split(",") if (address := part.strip())
    )
    for address in urls:
        try:
            parts = urlsplit(address)
        except ValueError:
            continue  # the connection's own check names it
        if parts.username is not None:
            return ClusterConnection(urls, username=unquote(parts.username), password=unquote(parts.password or ""))
    return ClusterConnection(urls)


def _problem_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "the address is empty"
    if parts.scheme.lower() not in ("http", "https"):
        return "an address must begin with http:// or https://"
    if not host or any(character.isspace() or not character.isprintable() for character in url):
        return "the address has no host"
    return ""


def _without_credentials(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"
