"""Java's basic-auth extension: users and passwords of a JAAS login file guard the REST API.

``rest.extension.classes=org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension``, and a
login file whose entry ``KafkaConnect`` names ``PropertyFileLoginModule required file="users.properties"``. Requests
between workers are not guarded: their signature is. Source: Java ``JaasBasicAuthFilter``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.authentication import SimpleUser

from spark_connect_rt._version import __version__
from spark_connect_rt.api.rest_extension import Asgi, ClusterState, ConnectRestExtension
from spark_connect_rt.base.security.jaas import parse_jaas
from spark_connect_rt.config.java_properties import load_properties
from spark_connect_rt.config.repeated_settings import warn_repeated
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.group.peers import SIGNATURE_HEADER

LOGIN_FILE = "java.security.auth.login.config"  # a system property of Java's; here app.rest.rest_api fills it in
ENTRY = "KafkaConnect"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
REFUSAL = b"User cannot access the resource."
_INTERNAL = (("POST", re.compile(r"/connectors/[^/]+/tasks/?")), ("PUT", re.compile(r"/connectors/[^/]+/fence/?")))
_SIGNED = re.compile(r"/internal/group-reads/[^/]+/?")  # passes with a signature, which is checked behind
_SIGNATURE = SIGNATURE_HEADER.lower().encode()


class BasicAuthSecurityRestExtension(ConnectRestExtension):
    """Answers 401 to any client it does not know; names the others as the request's user."""

    def version(self) -> str:
        """Return the version of this package, whose part the extension is."""
        return __version__

    def configure(self, config: Mapping[str, str]) -> None:
        """Read the login file and its files of users. Raises BadConfigError."""
        self._users = [_users(path) for path in _user_files(config.get(LOGIN_FILE, ""))]

    def wrap(self, app: Asgi, cluster: ClusterState) -> Asgi:
        """Return ``app`` behind the login: 401 without valid credentials."""

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or _of_workers(scope):
                await app(scope, receive, send)
                return
            name = self._user(scope)
            if name is not None:
                if name:
                    scope["user"] = SimpleUser(name)  # as starlette's own middleware does: the history says who
                await app(scope, receive, send)
                return
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(REFUSAL)).encode())]
            if scope["path"].startswith("/console"):  # a browser asks its user only where it is asked to
                headers.append((b"www-authenticate", b'Basic realm="Kafka Connect", charset="UTF-8"'))
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSAL})

        return guarded

    def _user(self, scope: Any) -> str | None:
        """Return who asks, "" where no password was compared, None: not to be let in."""
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        user_and_password = _credentials(given)
        if user_and_password is None or not all(_knows(users, *user_and_password) for users in self._users):
            return None
        return user_and_password[0] if any(self._users) else ""


def _of_workers(scope: Any) -> bool:
    """Return whether a request is one between workers, or carries the signature of one."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    if any(scope["method"] == method and pattern.fullmatch(path) for method, pattern in _INTERNAL):
        return True
    return bool(_SIGNED.fullmatch(path)) and any(name == _SIGNATURE for name, _ in scope["headers"])


def _credentials(header: bytes) -> tuple[str, bytes] | None:
    """Return user and password of ``Basic ...``; None: there are none."""
    method, _, encoded = header.partition(b" ")
    if method.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode("utf-8"), password) if colon else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _knows(users: Mapping[str, str], user: str, password: bytes) -> bool:
    if not users:
        return True  # Java: an empty file of users refuses no request
    known = users.get(user)
    return known is not None and hmac.compare_digest(known.encode("utf-8"), password)


def _user_files(login_file: str) -> list[Path]:
    setting = "rest.extension.classes"
    if not login_file:
        why = "the basic-auth extension needs a login file: set connectrt.rest.login.config to its path"
        raise BadConfigError({setting: [why]})
    try:
        entries = parse_jaas(Path(login_file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadConfigError({setting: [f"login file {login_file} cannot be read: {error}"]}) from error
    modules = entries.get(ENTRY)
    if not modules:
        raise BadConfigError({setting: [f"login file {login_file} has no entry {ENTRY}. Add one"]})
    others = [module.name for module in modules if module.name != MODULE]
    if others:
        raise BadConfigError(
            {
                setting: [
                    f"login file {login_file}: this worker cannot load the Java login module {others[0]}. Use {MODULE}"
                ]
            }
        )
    missing = [module for module in modules if not module.options.get("file")]
    if missing:
        raise BadConfigError({setting: [f'login file {login_file}: {MODULE} has no file option. Add file="..."']})
    return [Path(module.options["file"]) for module in modules]


def _users(path: Path) -> dict[str, str]:
    try:
        return dict(warn_repeated(load_properties(path), path))
    except (OSError, ValueError, BadConfigError) as error:
        raise BadConfigError({"rest.extension.classes": [f"users file {path} cannot be read: {error}"]}) from error
