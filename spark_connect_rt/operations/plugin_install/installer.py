"""Installs one plug-in into the folder of plug-ins: fetch, check, complete, publish. Blocks; the network is asked."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.errors import AlreadyExistsError, BadRequestError
from spark_connect_rt.operations.plugin_install.downloads import (
    UNSAFE,
    NotFetchedError,
    check_sha512,
    fetch,
    sha512_of,
    sha512_of_files,
    too_large,
    unpack,
)
from spark_connect_rt.operations.plugin_install.folders import InstalledPlugin, PluginFolder
from spark_connect_rt.operations.plugin_install.service_files import complete_service_files
from spark_connect_rt.operations.plugin_install.sources import (
    PluginSource,
    SourceKind,
    check_allowed,
    folder_name,
    parse_source,
)
from spark_connect_rt.plugins.interfaces import WantedPlugin

if TYPE_CHECKING:
    import httpx


# Jars that Connect itself contains, and that a plug-in's folder must not hold: those of a Maven closure. Pure.
#
# A plug-in's class loader looks in its own folder first. With its own Jackson there, the modules that Connect's
# service files name are not subtypes of its ``Module``: the plug-in fails at its start. Vendors' archives leave these
# out; the dependencies of a coordinate do not.


PROVIDED = frozenset(
    {
        "connect-api",
        "connect-json",
        "connect-runtime",
        "connect-transforms",
        "kafka-clients",
        "jackson-annotations",
        "jackson-core",
        "jackson-databind",
        "jackson-datatype-jdk8",
        "jackson-module-afterburner",
        "jackson-module-blackbird",
        "lz4-java",
        "snappy-java",
        "zstd-jni",
        # Logging: the host's, whatever the plug-in was built with; two bindings of slf4j quarrel.
        "slf4j-api",
        "slf4j-simple",
        "slf4j-log4j12",
        "slf4j-reload4j",
        "log4j-slf4j-impl",
        "log4j-slf4j2-impl",
        "logback-classic",
        "reload4j",
    }
)
_VERSION = re.compile(r"-\d[\w.+-]*$")


def artifact_of(jar_name: str) -> str:
    """Return the artifact's name of a jar, for example ``zstd-jni`` of ``zstd-jni-1.5.6-10.jar``."""
    return _VERSION.sub("", jar_name.removesuffix(".jar"))


def left_out(jar_names: Iterable[str], wanted: str) -> list[str]:
    """Return the jars that stay out of the folder, sorted; never the one that was asked for (its artifact)."""
    return sorted(name for name in jar_names if (artifact := artifact_of(name)) in PROVIDED and artifact != wanted)


# Installs a wheel or a requirement into a separate folder, without what the worker has already.
#
# Two steps: ask pip (or uv) what is missing in the worker's own packages, then install exactly that. So a plug-in
# that depends on this package, Spark or Arrow does not bring them a second time. Only wheels: nothing is built, so no
# code runs.


TIMEOUT_S = 900
_UV_LINE = re.compile(r"^\s*\+\s+(\S+?)(==\S+| @ \S+)", re.MULTILINE)  # a file's version is in its name


def install_packages(wanted: str, name: str, folder: Path) -> list[str]:
    """Install a wheel (its path) or requirement and what it needs.

    Returns ``name==version`` of each, its own first (``name @ URL``: uv's form for a file). Raises NotFetchedError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = _missing_by_uv(wanted) if _uses_uv() else _missing_by_pip(wanted)
    own = [requirement for requirement in missing if _plain(re.split("==| @ ", requirement)[0]) == _plain(name)]
    if not own:
        raise NotFetchedError(f"{wanted} is already installed in the worker's environment. Nothing to install")
    others = sorted(requirement for requirement in missing if requirement not in own)
    chosen = wanted if wanted.endswith(".whl") else own[0]  # not another version, published in between
    _run([*_installer(), "--target", str(folder), "--no-deps", chosen, *others])
    return [*own, *others]


def _uses_uv() -> bool:
    return find_spec("pip") is None


def _installer() -> list[str]:
    if not _uses_uv():
        return [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--only-binary=:all:"]
    uv = shutil.which("uv")
    if uv is None:
        raise NotFetchedError(
            "Python plug-ins cannot be installed: neither pip nor uv is available. Install one of them"
        )
    return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--only-binary", ":all:"]


def _missing_by_pip(wanted: str) -> list[str]:
    report = json.loads(_run([*_installer(), "--dry-run", "--report", "-", wanted]))
    found = [package["metadata"] for package in report["install"]]
    return [f"{metadata['name']}=={metadata['version']}" for metadata in found]


def _missing_by_uv(wanted: str) -> list[str]:
    command = [word for word in _installer() if word != "--quiet"]
    return missing_of_uv(_run([*command, "--dry-run", wanted]))


def missing_of_uv(printed: str) -> list[str]:
    """Return what ``uv pip install --dry-run`` would install: ``name==version``, or ``name @ URL`` of a file. Pure."""
    return [name + rest for name, rest in _UV_LINE.findall(printed)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetchedError(f"{command[0]} failed: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotFetchedError("the package cannot be installed: " + " | ".join(lines[-6:]))
    return done.stdout if "--report" in command else done.stdout + done.stderr


# The jars of a Maven coordinate and of all it needs, each checked against the checksum its repository publishes.
#
# ``jgo`` resolves and downloads. It only logs a checksum that does not match, and keeps what a broken download left. So
# each jar is checked here before it is used, and fetched once more if its checksum differs.


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
    except Exception as error:  # a third-party edge: any error means "not resolved"
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


audit = logging.getLogger("spark_connect_rt.audit")


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The contents of a staging folder."""

    source: str
    version: str
    sha512: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installer:
    """Installs and removes on this machine. Any thread; one change at a time."""

    folder: PluginFolder
    allowed: Sequence[str]
    limit_bytes: int
    now_ms: Callable[[], int]

    def install(self, request: WantedPlugin, who: str) -> InstalledPlugin:
        """Install a plug-in. When this raises, nothing has changed.

        Raises AlreadyExistsError, BadRequestError, ForbiddenError (not allowed), NotFetchedError, ConnectError.
        """
        audit.info("plug-in install requested by=%s source=%s sha512=%s", who, request.source, request.sha512 or "-")
        try:
            plugin = self._install(request, who)
        except Exception as error:
            audit.warning("plug-in install rejected by=%s source=%s: %s", who, request.source, error)
            raise
        audit.info("plug-in installed by=%s folder=%s sha512=%s", who, plugin.folder, plugin.sha512 or "-")
        return plugin

    def install_recorded(self, record: InstalledPlugin) -> InstalledPlugin:
        """Install what another worker of the group has, unless it is here. Raises as ``install``."""
        found = self.folder.find(record.name, record.version)
        if found is not None:
            check_sha512(f"{found.folder}, which is already installed,", found.sha512, record.sha512)
            return found
        request = WantedPlugin(record.source, record.sha512, record.name, record.version)
        return self.install(request, record.installed_by)

    def remove(self, plugin: InstalledPlugin, who: str) -> None:
        """Delete a plug-in's folder and write that to the audit log."""
        with self.folder.changing():
            self.folder.remove(plugin)
        audit.info("plug-in removed by=%s folder=%s", who, plugin.folder)

    def _install(self, request: WantedPlugin, who: str) -> InstalledPlugin:
        source = self._source(request)
        with self.folder.changing():
            self._refuse_taken(request.name or source.name, request.version or source.version)
            with self.folder.staging() as draft:
                content = draft / "content"
                content.mkdir()
                fetched = self._fetch(source, request.sha512, draft, content)
                name, version = request.name or source.name, request.version or fetched.version
                folder_name(name, version)
                self._refuse_taken(name, version)
                services = complete_service_files(content) if any(content.rglob("*.jar")) else {}
                classes = tuple(sorted({class_name for names in services.values() for class_name in names}))
                _refuse_empty(source, content, classes)
                plugin = InstalledPlugin(
                    name,
                    version,
                    fetched.source,
                    source.kind.value,
                    fetched.sha512,
                    who,
                    self.now_ms(),
                    fetched.left_out,
                    classes,
                )
                self.folder.publish(content, plugin)
                return plugin

    def _source(self, request: WantedPlugin) -> PluginSource:
        text = request.source.strip()
        path = Path(text.removeprefix("file:") if text.startswith("file:") and "://" not in text else text)
        absolute = str(path.resolve())  # without "..", so that a pattern of allowed folders means what it says
        source = parse_source(f"file:{absolute}" if text.startswith("file:/") else text, [absolute])
        check_allowed(source, self.allowed)
        return source

    def _refuse_taken(self, name: str, version: str) -> None:
        if (self.folder.path / folder_name(name, version)).exists():
            raise AlreadyExistsError(f"{folder_name(name, version)} is already installed in {self.folder.path}")

    def _fetch(self, source: PluginSource, sha512: str, draft: Path, content: Path) -> _Fetched:
        if source.kind is SourceKind.MAVEN:
            return self._fetch_closure(source, sha512, content)
        if source.is_url:
            archive = draft / source.file_name

            def check(url: str) -> None:
                check_allowed(replace(source, text=parse_url(url)), self.allowed)

            fetch(source.text, archive, self.limit_bytes, check)
            found = sha512_of(archive)
            check_sha512(source.text, found, sha512)
            if source.kind is SourceKind.ARCHIVE:
                unpack(archive, content, self.limit_bytes)
            else:
                install_packages(str(archive), source.name, content)
                self._refuse_large(source, content)
            return _Fetched(source.text, source.version, found)
        if sha512:
            raise BadRequestError(
                "a Python requirement has no single SHA-512. Give the URL of its wheel, or leave out the SHA-512"
            )
        own = install_packages(source.text, source.name, content)[0]
        self._refuse_large(source, content)
        return _Fetched(own, own.partition("==")[2], "")

    def _fetch_closure(self, source: PluginSource, sha512: str, content: Path) -> _Fetched:
        version, jars = copy_closure(source.text, content, self.limit_bytes)
        out = left_out(jars, source.name)
        for name in out:
            (content / name).unlink()
        found = sha512_of_files(content, [name for name in jars if name not in out])
        check_sha512(f"{source.text} with its dependencies", found, sha512)
        group = source.text.partition(":")[0]
        return _Fetched(f"{group}:{source.name}:{version}", version, found, tuple(out))

    def _refuse_large(self, source: PluginSource, content: Path) -> None:
        if sum(file.stat().st_size for file in content.rglob("*") if file.is_file()) > self.limit_bytes:
            raise too_large(source.text, self.limit_bytes)


def parse_url(url: str) -> str:
    """Return a redirect's URL if a plug-in may come from such a one. Raises BadRequestError."""
    if not url.startswith(("http://", "https://")):
        raise BadRequestError(f"{url}: a redirect must lead to an http or https URL")
    return url


def _refuse_empty(source: PluginSource, content: Path, classes: Sequence[str]) -> None:
    """Raise BadRequestError unless there is something in it that can be a plug-in."""
    if classes or any(content.glob("*.dist-info/entry_points.txt")) or (content / "entry_points.txt").is_file():
        return
    raise BadRequestError(
        f"{source.text} contains no plug-in: no jar with a Kafka Connect plug-in class, and no entry point in a "
        "group of this product",
        code=UNSAFE,
    )
