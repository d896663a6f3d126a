"""Facts about Java plug-ins that only a JVM knows, asked once for each content of a folder and kept in the cache.

Implements plugins.java_plugins.JavaRuntime: for a driver, whose JVM is asked, and for an executor, which asks none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import orjson

from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN
from spark_connect_rt.base.cache import KAFKA_VERSION, cache_directory
from spark_connect_rt.engine.java_host.connectors import connector_class, hosts, stage_class
from spark_connect_rt.engine.java_host.driver_host import DriverHost, JavaError
from spark_connect_rt.engine.startup.java_home import java_of_plugins
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.plugins.java_plugins import JavaPluginDesc, Scanned

_UNDEFINED = (None, "", "undefined")
_FORM = 2  # of what is kept
SCAN_LIMIT_S = 300.0
LOAD_LIMIT_S = 60.0  # of all plug-ins of a place
MAKE_LIMIT_S = 20.0  # of one: its constructor and version()
_COSTLY = ("CRT-1130", "CRT-1131", "CRT-1132")  # no answer in time, no JVM starts, the JVM was lost
AGAIN_AFTER_S = 300.0  # a place whose plug-ins ended the JVM, or hung, is asked for their versions again

log = logging.getLogger(__name__)


class KeptAnswers:
    """Answers on disk, by the content of the jars, the version of Connect and of Java. Any thread, any process."""

    def __init__(self, java_major: Callable[[], int]) -> None:
        """Keep them for one Java, below the cache."""
        self._java_major = java_major

    def get(self, digest: str, question: str) -> Any:
        """Return an answer, None when there is none, or it cannot be read."""
        try:
            return orjson.loads(self._file(digest, question).read_bytes())
        except (OSError, ValueError):
            return None

    def put(self, digest: str, question: str, answer: Any) -> None:
        """Keep an answer; where that is not possible, it is asked for again."""
        file = self._file(digest, question)
        draft = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(orjson.dumps(answer))
            draft.replace(file)
        except OSError as error:
            log.debug("an answer about a Java plug-in cannot be cached: %s", error)

    def _file(self, digest: str, question: str) -> Path:
        world = f"{_FORM}-{KAFKA_VERSION}-java{self._java_major()}"
        name = hashlib.sha256(question.encode()).hexdigest()[:24]
        return cache_directory() / "java-plugins" / world / digest / f"{name}.json"


class DriverAnswers:
    """The JavaRuntime of a driver. Any thread."""

    def __init__(self, host: DriverHost, discovery: str, searches: DriverHost | None = None) -> None:
        """Take the JVM of connectors.

        Args:
            host: where connectors live.
            discovery: the worker's ``plugin.discovery``.
            searches: another JVM, in which plug-ins are looked for and asked their versions: one that this ends is no
                connector's loss. None: the same.
        """
        self.host = host
        self.discovery = discovery
        self._searches = searches or host
        self._kept = KeptAnswers(self.java_major)
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str, str], Mapping[str, Any]] = {}  # (place, content, class) -> answer
        self._classes: dict[tuple[str, str, str, str], type[Any]] = {}
        self._said: set[str] = set()  # why versions could not be asked
        self._loading: dict[str, threading.Lock] = defaultdict(threading.Lock)  # place -> one question at a time
        self._unanswered: dict[tuple[str, str], tuple[float, ConnectError]] = {}  # (place, content) -> since (s), why

    def close(self) -> None:
        """End the JVMs; a later question starts another one."""
        self.host.close()
        self._searches.close()

    @cached_property
    def _major(self) -> int:
        return java_of_plugins().major

    def java_major(self) -> int:
        """Return the major version of the Java that plug-ins run on."""
        return self._major

    def version(self, plugin: JavaPluginDesc) -> str | None:
        """Return the plug-in's version. None if it has none or cannot be hosted or asked; failures are logged."""
        if not hosts(plugin.type):
            return None
        try:
            answer = self._loaded(plugin)
        except ConnectError as error:
            self._not_asked(plugin, str(error))
            return None
        return None if answer.get("version") in _UNDEFINED else str(answer["version"])

    def _not_asked(self, plugin: JavaPluginDesc, why: str) -> None:
        """Say it once: a list asks every plug-in of a worker that has no Java."""
        with self._lock:
            known = why in self._said
            self._said.add(why)
        level = logging.DEBUG if known else logging.WARNING
        log.log(level, "plugin=%s at %s: its version cannot be read: %s", plugin.java_class, plugin.location, why)

    def broken(self, plugin: JavaPluginDesc) -> str:
        """Return why the plug-in cannot be created, as far as it was asked; empty: no problem is known."""
        return str(self._versions.get((plugin.location, plugin.digest, plugin.java_class), {}).get("error", ""))

    def scan(self, place: Path, digest: str) -> Sequence[Scanned]:
        """Return every plug-in of a place, from the cache or a JVM. Raises ConnectError."""
        answer = self._kept.get(digest, "scan")
        if answer is None:
            answer = self._searches.ask("scan", {"place": str(place)}, limit_s=SCAN_LIMIT_S)
            self._kept.put(digest, "scan", answer)
        return [
            Scanned(entry["type"], entry["class"], None if entry["version"] in _UNDEFINED else entry["version"])
            for entry in answer
        ]

    def class_of(self, plugin: JavaPluginDesc) -> type[Any]:
        """Return the Python class that stands for a plug-in, made once. Raises NotFoundError if it cannot run here."""
        if not hosts(plugin.type):
            raise NotFoundError(
                f"{plugin.java_class} of {plugin.location} is a {plugin.type} in Java, which cannot run here",
                code=BROKEN_PLUGIN,
            )
        key = plugin.type, plugin.java_class, plugin.location, plugin.digest
        with self._lock:
            known = self._classes.get(key)
        if known is None:
            known = self._made(plugin)
            with self._lock:
                self._classes[key] = known
        return known

    def _made(self, plugin: JavaPluginDesc) -> type[Any]:
        described = self._described(plugin)
        if plugin.type in ("source", "sink"):
            return connector_class(plugin, described, self.host)

        def complaint(name: str, value: str | None) -> str | None:
            said: str | None = self.host.ask("check", {**_named(plugin), "name": name, "value": value})
            return said

        return stage_class(
            plugin, JavaCode((plugin.location,), contents=(plugin.content,)), lambda: described, complaint
        )

    def _described(self, plugin: JavaPluginDesc) -> Mapping[str, Any]:
        """Return what a plug-in says of itself. Raises NotFoundError with Java's reason."""
        question = f"describe {plugin.java_class}"
        answer = self._kept.get(plugin.digest, question)
        if answer is None:
            try:
                answer = self.host.ask("describe", _named(plugin))
            except JavaError as error:
                why = f"{error.java_class}: {error}{_hint(error.java_class)}"
                raise NotFoundError(
                    f"{plugin.java_class} of {plugin.location} cannot be created: {why}",
                    code=BROKEN_PLUGIN,
                ) from error
            self._kept.put(plugin.digest, question, answer)
        return dict(answer)

    def _loaded(self, plugin: JavaPluginDesc) -> Mapping[str, Any]:
        """Return {"version"} or {"error"} of a plug-in; all those of its place are asked together. Raises ConnectError.

        A list of plug-ins asks for each of them, so a question that ended the JVM or timed out is not repeated at once.
        """
        key = plugin.location, plugin.digest, plugin.java_class
        place = key[:2]
        with self._lock:
            loading = self._loading[plugin.location]
        with loading:
            if key not in self._versions:
                since_s, why = self._unanswered.get(place, (0.0, None))
                if why is not None and time.monotonic() - since_s < AGAIN_AFTER_S:
                    raise why.with_traceback(None)
                try:
                    answers = self._load(plugin)
                except ConnectError as error:
                    if error.code in _COSTLY:
                        self._unanswered[place] = time.monotonic(), error
                    raise
                for answer in answers:
                    self._versions[plugin.location, plugin.digest, answer["class"]] = answer
            return self._versions.get(key, {})

    def _load(self, plugin: JavaPluginDesc) -> Sequence[Mapping[str, Any]]:
        question = "load " + " ".join(plugin.siblings)
        answer = self._kept.get(plugin.digest, question)
        if answer is None:
            asked = {"place": plugin.location, "content": plugin.digest, "classes": plugin.siblings}
            limits = {"limit_ms": int(MAKE_LIMIT_S * 1000)}
            answer = self._searches.ask("load", asked | limits, limit_s=LOAD_LIMIT_S)
            for entry in answer:
                if "error" in entry:
                    entry["error"] += _hint(entry["error"].partition(":")[0])
                    log.error("plugin=%s at %s cannot be created: %s", entry["class"], plugin.location, entry["error"])
            if not any("error" in entry for entry in answer):
                self._kept.put(plugin.digest, question, answer)
        return list(answer)


def _named(plugin: JavaPluginDesc) -> dict[str, str]:
    return {"place": plugin.location, "content": plugin.digest, "class": plugin.java_class}


def _hint(java_class: str) -> str:
    if java_class in ("java.lang.NoClassDefFoundError", "java.lang.ClassNotFoundException"):
        return " (a jar that it needs is not in its folder of plugin.path)"
    if java_class == "java.lang.UnsupportedClassVersionError":
        return " (it is compiled for a newer Java than JAVA_HOME's)"
    return ""


class ExecutorAnswers:
    """The JavaRuntime of an executor: no JVM is asked, a class is made for what a chain names."""

    discovery = "service_load"

    def java_major(self) -> int:
        """Return the major version of the Java that plug-ins run on here."""
        return java_of_plugins().major

    def version(self, plugin: JavaPluginDesc) -> str | None:
        """Return what was kept about it on this machine, else what a JVM says: asked where there are several."""
        question = "load " + " ".join(plugin.siblings)
        answer = KeptAnswers(self.java_major).get(plugin.digest, question) or ()
        kept: str | None = next((entry.get("version") for entry in answer if entry["class"] == plugin.java_class), None)
        return kept or self._asked(plugin.location, plugin.java_class)

    @cache  # noqa: B019 - there is one of it in a process
    def _asked(self, location: str, java_class: str) -> str | None:
        from spark_connect_rt.engine.java_host.stages.stage import describe

        try:
            said: str | None = describe(JavaCode((location,)), java_class).get("version")
        except ConnectError as error:
            log.warning("plugin=%s at %s: its version cannot be read: %s", java_class, location, error)
            return None
        return said

    def broken(self, plugin: JavaPluginDesc) -> str:
        """Return nothing: creating the plug-in shows the problem."""
        return ""

    def scan(self, place: Path, digest: str) -> Sequence[Scanned]:
        """Return what was kept on this machine."""
        answer = KeptAnswers(self.java_major).get(digest, "scan") or ()
        return [Scanned(entry["type"], entry["class"], entry["version"]) for entry in answer]

    def class_of(self, plugin: JavaPluginDesc) -> type[Any]:
        """Return the Python class of a converter, transformation or similar stage that a JVM runs."""
        return stage_class(plugin, JavaCode((plugin.location,), contents=(plugin.content,)))
