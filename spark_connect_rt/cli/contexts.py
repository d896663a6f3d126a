"""The file of contexts: which clusters there are, and how one is let in. Mode 600: it may hold passwords.

``CONNECTRT_CONFIG``, else ``connectrt/config.json`` in the user's folder of settings:
``{"current-context": NAME, "contexts": {NAME: {"urls": [...], "username": ...}}}``.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.rest.client.connection import REQUEST_LIMIT_S, ClusterConnection, connection_to

LOCAL = "http://localhost:8083"
_SECRETS = ("password", "token", "key_password")


@dataclass(frozen=True, slots=True)
class Context:
    """One cluster. Files are read when they are used, because their contents may change."""

    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    insecure: bool = False
    timeout_s: float | None = None
    admin_urls: tuple[str, ...] = ()

    def connection(self) -> ClusterConnection:
        """Return how to reach it. Raises BadConfigError: an address is invalid, or a file cannot be read."""
        given = connection_to(",".join(self.urls))
        return replace(
            given,
            username=self.username if self.username is not None else given.username,
            password=_content(self.password_file) or self.password or given.password,
            token=_content(self.token_file) or self.token,
            ca_file=_path(self.ca),
            cert_file=_path(self.cert),
            key_file=_path(self.key),
            key_password=self.key_password,
            insecure=self.insecure,
            request_limit_s=self.timeout_s or REQUEST_LIMIT_S,
            admin_urls=connection_to(",".join(self.admin_urls)).urls if self.admin_urls else (),
        )

    def shown(self) -> dict[str, Any]:
        """Return what may be shown of it."""
        return {key: "(set)" if key in _SECRETS else value for key, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contents of the file."""

    current: str | None = None
    by_name: Mapping[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return a context. Raises NotFoundError."""
        if name not in self.by_name:
            there = ", ".join(sorted(self.by_name)) or (
                "no contexts exist. Create one with connectrt config set-context NAME --url URL"
            )
            raise NotFoundError(f"no context {name}. Contexts: {there}")
        return self.by_name[name]

    def having(self, name: str, context: Context) -> Contexts:
        """Return these with one more; the first becomes the current one."""
        return Contexts(self.current or name, {**self.by_name, name: context})

    def without(self, name: str) -> Contexts:
        """Return these without one. Raises NotFoundError."""
        self.named(name)
        rest = {key: value for key, value in self.by_name.items() if key != name}
        return Contexts(None if self.current == name else self.current, rest)

    def using(self, name: str) -> Contexts:
        """Return these with another current one. Raises NotFoundError."""
        self.named(name)
        return Contexts(name, self.by_name)


def contexts_file(environment: Mapping[str, str]) -> Path:
    """Return where the file is, or would be."""
    if named := environment.get("CONNECTRT_CONFIG"):
        return Path(named)
    folder = environment.get("XDG_CONFIG_HOME") or environment.get("APPDATA")
    return (Path(folder) if folder else Path.home() / ".config") / "connectrt" / "config.json"


def load_contexts(path: Path) -> Contexts:
    """Return what the file holds; none there: no contexts. Raises BadConfigError: it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
        by_name = {str(name): _context(context) for name, context in found.get("contexts", {}).items()}
        return Contexts(found.get("current-context"), by_name)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadConfigError({str(path): [f"the file of contexts cannot be read: {error}"]}) from error


def save_contexts(path: Path, contexts: Contexts) -> None:
    """Write the file, whole or not at all, for its owner only. Raises BadConfigError."""
    by_name = {
        name: {key: value for key, value in asdict(context).items() if value}
        for name, context in contexts.by_name.items()
    }
    text = json.dumps({"current-context": contexts.current, "contexts": by_name}, indent=2) + "\n"
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise BadConfigError({str(path): [f"the file of contexts cannot be written: {error}"]}) from error


def readable_by_others(path: Path) -> bool:
    """Return whether others of this machine may read the file."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def chosen(contexts: Contexts, environment: Mapping[str, str], name: str | None, url: str | None) -> Context:
    """Return the cluster that is meant: ``--url``, ``--context``, CONNECTRT_URL, the current context, this machine.

    ``--url`` with ``--context``: that context's credentials for another address. Raises NotFoundError.
    """
    if name:
        context = contexts.named(name)
        return replace(context, urls=_urls(url), admin_urls=()) if url else context
    if url or environment.get("CONNECTRT_URL"):
        return Context(_urls(url or environment["CONNECTRT_URL"]))
    if contexts.current:
        return contexts.named(contexts.current)
    return Context((LOCAL,))


def is_cluster_chosen(environment: Mapping[str, str], name: str | None, url: str | None) -> bool:
    """Return whether a cluster is named, by an option, by CONNECTRT_URL or by a current context.

    Raises BadConfigError: the file of contexts cannot be read.
    """
    if name or url or environment.get("CONNECTRT_URL"):
        return True
    return load_contexts(contexts_file(environment)).current is not None


def connection_for(environment: Mapping[str, str], name: str | None, url: str | None) -> ClusterConnection:
    """Return how to reach the cluster that is meant. Raises NotFoundError, BadConfigError."""
    return chosen(load_contexts(contexts_file(environment)), environment, name, url).connection()


def _urls(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _context(raw: Mapping[str, Any]) -> Context:
    known = {member.name for member in fields(Context)}
    given = {key: value for key, value in raw.items() if key in known}  # a newer version's stay unread
    return Context(**{**given, **{key: tuple(raw.get(key, ())) for key in ("urls", "admin_urls")}})


def _content(file: str | None) -> str | None:
    if not file:
        return None
    try:
        return Path(file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfigError({file: [f"cannot be read: {error}"]}) from error


def _path(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
