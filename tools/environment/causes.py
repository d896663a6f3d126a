"""Why an installation failed, as a sentence with what to do. Pure: the text that a program left, in; a Failure, out."""

from __future__ import annotations

import re
from dataclasses import dataclass

EXIT_NO_PYTHON = 10
EXIT_NO_ENVIRONMENT = 29
AGAIN = "Run the same command again: it continues with what it has downloaded."
SHOWN_LINES = 6


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed installation: what is wrong and how to fix it, and the exit code. ``final``: pip would fail, too."""

    sentence: str
    exit_code: int = EXIT_NO_ENVIRONMENT
    final: bool = True


# In this order: a program that cannot reach its index often ends by "no matching distribution".
_CAUSES: tuple[tuple[str, Failure], ...] = (
    (
        r"No space left on device|os error 28\b|Disk quota exceeded",
        Failure("The disk is full. An environment needs 3.5 GB while it is made and 1.4 GB afterwards. " + AGAIN),
    ),
    (
        r"Read-only file system|os error 30\b",
        Failure(
            "A folder is on a read-only file system. Set CONNECTRT_VENV to a folder that you can write to, and "
            "CONNECTRT_CACHE and UV_CACHE_DIR if your home is read-only, too."
        ),
    ),
    (
        r"ensurepip is not available|No module named '?(?:venv|ensurepip)",
        Failure("This Python has no complete venv module. On Debian and Ubuntu: apt install python3-venv", 10),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|UnknownIssuer|SSLCertVerificationError",
        Failure(
            "The package index shows a certificate that is not trusted here. Behind a proxy that inspects TLS, set "
            "SSL_CERT_FILE to its certificates. " + AGAIN
        ),
    ),
    (
        r"dns error|failed to lookup address|name resolution|Name or service not known|nodename nor servname"
        r"|getaddrinfo|Network is unreachable|No route to host|Connection refused|connection (?:reset|closed)"
        r"|tcp connect error|error sending request|operation timed out|timed out|Failed to fetch|NewConnectionError"
        r"|ConnectTimeout|ProxyError|Cannot connect to proxy|Max retries exceeded",
        Failure(
            "The package index cannot be reached. Check the network connection. Behind a proxy set HTTPS_PROXY; for "
            "an index of your own set PIP_INDEX_URL. " + AGAIN
        ),
    ),
    (
        r"Permission denied|os error 13\b",
        Failure(
            "A folder cannot be written to by this user. Set CONNECTRT_VENV to a folder that you own, or correct the "
            "rights. " + AGAIN
        ),
    ),
)


def failure_of(text: str) -> Failure:
    """Return why a program failed that left ``text``; the text's last lines when the cause is not known."""
    for pattern, failure in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return failure
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-SHOWN_LINES:]
    return Failure(
        "The installation failed, and its last lines are (all of them: install.log in the environment):\n"
        + "\n".join(f"  {line}" for line in lines),
        final=False,
    )


def not_writable(folder: str) -> Failure:
    """Return the failure of an environment whose folder this user cannot write to."""
    return Failure(
        f"{folder} cannot be written to (read-only, or another user's). Set CONNECTRT_VENV to a folder that you can "
        "write to, and start the quickstart with --set quickstart.directory=FOLDER."
    )


def too_little_space(free_bytes: int, needed_bytes: int, folder: str) -> Failure | None:
    """Return the failure of a disk that has too few bytes free for a new environment; None: there is enough."""
    if free_bytes >= needed_bytes:
        return None
    free_gb, needed_gb = free_bytes / 1e9, needed_bytes / 1e9
    return Failure(
        f"{folder} has {free_gb:.1f} GB free, and a new environment needs {needed_gb:.1f} GB. Free some space, or set "
        "CONNECTRT_VENV to a folder on another disk."
    )
