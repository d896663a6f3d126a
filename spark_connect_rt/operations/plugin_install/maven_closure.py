"""The jars of a Maven coordinate and of all it needs, each checked against the checksum its repository publishes.

``jgo`` resolves and downloads. It only logs a checksum that does not match, and keeps what a broken download left: so
each jar is checked here before it is used, and one that is not what it should be is fetched once more.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError, too_large

if TYPE_CHECKING:
    import httpx

_CHECKSUMS = ("sha512", "sha256", "sha1")  # the strongest there is
_TIMEOUT_S = 30.0

log = logging.getLogger(__name__)


def copy_closure(coordinate: str, folder: Path, limit_bytes: int) -> tuple[str, list[str]]:
    """Copy the jars of a coordinate into a folder; return the version that was found, and the jars' names.

    Raises NotFetchedError, BadRequestError (too large).
    """
    import httpx  # here: workers import this module, few install anything

    artifacts = _resolved(coordinate)
    names: list[str] = []
    with httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True) as client:
        size = 0
        for artifact in artifacts:
            jar = _checked(client, artifact)
            size += jar.stat().st_size
            if size > limit_bytes:
                raise too_large(coordinate, limit_bytes)
            shutil.copyfile(jar, folder / jar.name)
            names.append(jar.name)
    return str(artifacts[0].version), names


def _resolved(coordinate: str) -> list[Any]:
    jgo = optional_module("jgo", "quickstart", "downloads from Maven Central")
    try:
        artifacts = [artifact for artifact in jgo.resolve(coordinate) if artifact.filename.endswith(".jar")]
    except Exception as error:  # a third-party edge: whatever it raises means "not resolved"
        raise NotFetchedError(f"{coordinate} cannot be resolved from Maven Central: {error}") from error
    wanted = coordinate.split(":")[1]
    artifacts.sort(key=lambda artifact: (artifact.artifactId != wanted, artifact.filename))
    if not artifacts or artifacts[0].artifactId != wanted:
        raise NotFetchedError(f"{coordinate} has no jar")
    return artifacts


def _checked(client: httpx.Client, artifact: Any) -> Path:
    for attempt in (1, 2):
        jar = _downloaded(artifact)
        why = _difference(client, artifact, jar)
        if not why:
            return jar
        log.warning("%s: %s%s", artifact.filename, why, ", downloading it again" if attempt == 1 else "")
        jar.unlink(missing_ok=True)
    raise NotFetchedError(f"{artifact.filename}: {why}")


def _downloaded(artifact: Any) -> Path:
    try:
        jar: Path = artifact.resolve()
    except Exception as error:  # a third-party edge
        raise NotFetchedError(f"{artifact.filename} cannot be downloaded: {error}") from error
    return jar


def _difference(client: httpx.Client, artifact: Any, jar: Path) -> str:
    """Return what is wrong with a jar; empty: it is what a repository says it is."""
    import httpx

    for repository in artifact.context.remote_repos.values():
        address = f"{repository}/{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
        for kind in _CHECKSUMS:
            try:
                answer = client.get(f"{address}.{kind}")
            except httpx.HTTPError as error:
                raise NotFetchedError(f"the checksum of {artifact.filename} cannot be downloaded: {error}") from error
            if answer.status_code == 200 and (said := answer.text.split()):
                with jar.open("rb") as opened:
                    found = hashlib.file_digest(opened, kind).hexdigest()
                return (
                    "" if found == said[0].lower() else (f"its {kind} is {found}, but the repository lists {said[0]}")
                )
    raise NotFetchedError(f"{artifact.filename}: no repository has a checksum of it")
