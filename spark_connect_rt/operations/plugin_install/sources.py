"""Sources of an installation: a coordinate, an archive, a Python distribution; and whether they are allowed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from spark_connect_rt.config.management_config import ALLOWED
from spark_connect_rt.errors import BadRequestError, ForbiddenError

NOT_ALLOWED = "CRT-1160"
ARCHIVES = (".zip", ".tgz", ".tar.gz", ".jar")
WHEEL = ".whl"
PYPI = "pypi:"
_PART = r"[A-Za-z0-9_.+-]+"
_COORDINATE = re.compile(rf"({_PART}):({_PART})(?::({_PART}))?")
_VERSION_IN_NAME = re.compile(r"^(.*?)[-_]v?(\d[\w.+-]*)$")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class SourceKind(Enum):
    """How a plug-in is fetched."""

    MAVEN = "maven"
    ARCHIVE = "archive"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class PluginSource:
    """One thing to install. ``text``: the coordinate, the URL (``file:`` included) or the requirement."""

    kind: SourceKind
    text: str
    name: str = ""  # as far as the text says it
    version: str = ""

    @property
    def is_url(self) -> bool:
        """Return whether it is fetched by its URL."""
        return "://" in self.text or self.text.startswith("file:")

    @property
    def file_name(self) -> str:
        """Return the last part of the URL's path."""
        return unquote(urlsplit(self.text).path).rpartition("/")[2]


def parse_source(text: str, absolute: Sequence[str] = ()) -> PluginSource:
    """Return what ``text`` asks for.

    Args:
        text: ``group:artifact:version``, a path or URL of .zip, .tgz, .tar.gz, .jar or .whl, or a Python requirement.
        absolute: the text as an absolute path, if it is a path (relative ones mean nothing to other workers).

    Raises BadRequestError.
    """
    text = text.strip()
    if "://" in text or text.startswith("file:"):
        return _of_url(_checked_url(text))
    if text.lower().endswith((*ARCHIVES, WHEEL)):
        return _of_url(f"file:{absolute[0] if absolute else text}")
    if found := _COORDINATE.fullmatch(text):
        return PluginSource(SourceKind.MAVEN, text, found[2], found[3] or "")
    try:
        wanted = Requirement(text.removeprefix(PYPI))
    except InvalidRequirement as error:
        raise BadRequestError(
            f"{text!r} is not a valid source: use a Maven coordinate (group:artifact:version), a path or URL of "
            f"{', '.join(ARCHIVES)} or .whl, or a Python requirement ({error})"
        ) from error
    if wanted.url:
        raise BadRequestError(f"{text!r}: give the URL of the wheel without a name")
    return PluginSource(SourceKind.PYTHON, str(wanted), canonicalize_name(wanted.name))


def _checked_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https", "file"):
        raise BadRequestError(f"{text!r}: a plug-in must come by http, https or file, not by {parts.scheme}")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise BadRequestError(f"{text!r}: a file must be on this machine. Write file:/path")
        return f"file:{unquote(parts.path)}"
    if "@" in parts.netloc:
        raise BadRequestError("the URL must not contain a user or password, because logs and records show it")
    if not parts.hostname:
        raise BadRequestError(f"{text!r}: the URL has no host")
    return text


def _of_url(url: str) -> PluginSource:
    source = PluginSource(SourceKind.ARCHIVE, url)
    file_name = source.file_name
    if file_name.lower().endswith(WHEEL):
        try:
            name, version, _, _ = parse_wheel_filename(file_name)
        except InvalidWheelFilename as error:
            raise BadRequestError(f"{file_name} is not a valid wheel name: {error}") from error
        return PluginSource(SourceKind.PYTHON, url, str(name), str(version))
    stem = next((file_name[: -len(suffix)] for suffix in ARCHIVES if file_name.lower().endswith(suffix)), None)
    if stem is None:
        raise BadRequestError(f"{url}: a plug-in must be a {', '.join(ARCHIVES)} or .whl file")
    found = _VERSION_IN_NAME.match(stem)
    return PluginSource(SourceKind.ARCHIVE, url, found[1] if found else stem, found[2] if found else "")


def check_allowed(source: PluginSource, patterns: Sequence[str]) -> None:
    """Raise ForbiddenError unless a pattern of ``connectrt.plugins.allowed`` fits; no pattern allows anything."""
    names = allowed_names(source)
    if patterns and not any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
        raise ForbiddenError(
            f"{source.text} may not be installed: add {' or '.join(names)} to {ALLOWED} in the worker's file",
            code=NOT_ALLOWED,
        )


def allowed_names(source: PluginSource) -> tuple[str, ...]:
    """Return what patterns of allowed sources are compared with."""
    if source.kind is SourceKind.MAVEN:
        return (source.text,)
    if source.text.startswith("file:"):
        return (source.text,)
    if source.is_url:
        return (urlsplit(source.text).hostname or "", source.text)
    return (f"{PYPI}{source.name}",)


def folder_name(name: str, version: str) -> str:
    """Return ``name-version``. Raises BadRequestError: it cannot be the name of a folder."""
    found = f"{name}-{version}" if version else name
    if not _FOLDER_NAME.fullmatch(found) or len(found) > 150:
        raise BadRequestError(f"{found!r} is not a valid folder name for a plug-in. Use letters, digits and ._+-")
    return found
