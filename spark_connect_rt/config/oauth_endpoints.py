"""Where clients that a connector configures may fetch OAUTHBEARER tokens: only where the worker's file says. Pure.

A connector names brokers and token endpoint, so it could have a file of the worker's machine, or what an inner address
answers, sent to a broker of its own (Kafka's answer to that is CVE-2025-27817's allow-lists, empty by default).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from spark_connect_rt.errors import BadConfigError

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ALLOWED_URLS, ALLOWED_FILES = "connectrt.oauth.allowed.urls", "connectrt.oauth.allowed.files"


def endpoints_in(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that name a token endpoint, whatever their prefix."""
    return {name: url for name, url in config.items() if url and f".{name}".endswith(f".{ENDPOINT}")}


def refuse_foreign_endpoints(config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    """Refuse endpoints that the worker neither uses nor allows; of both the references are resolved.

    Raises BadConfigError naming each setting, without its value: that may be a secret.
    """
    urls = {*endpoints_in(worker).values(), *_listed(worker, ALLOWED_URLS)}
    files = _listed(worker, ALLOWED_FILES)
    problems = {
        name: [
            f"this URL is not allowed. Add it to {ALLOWED_URLS} in the worker's file, or add the file of a "
            f"file: URL to {ALLOWED_FILES}"
        ]
        for name, url in endpoints_in(config).items()
        if url not in urls and not (urlsplit(url).scheme == "file" and urlsplit(url).path in files)
    }
    if problems:
        raise BadConfigError(problems)


def _listed(worker: Mapping[str, str], setting: str) -> set[str]:
    return {part.strip() for part in (worker.get(setting) or "").split(",") if part.strip()}
