"""Letters as their connector's converters read them.

Owns: which converters these are, one set for each connector and configuration; error texts without secrets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.dead_letters.letter import CONVERTER, Letter
from spark_connect_rt.operations.dead_letters.letter_values import Part, Read, Write, shown_error
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters

Plugin = Callable[[str], type[Any]]
ConfigOf = Callable[[str | None], Mapping[str, str] | None]
_KEPT = 16  # sets of converters
RECENT_S, _RECENT_MAX = 10.0, 1_000


@dataclass(frozen=True, slots=True)
class LetterForm:
    """How one connector's letters are read; ``converters`` None: as bytes, and ``problem`` says why."""

    converters: ConnectorConverters | None
    problem: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock, compare=False)  # a converter is for one thread

    def part(self, letter: Letter, name: str) -> Part:
        """Return how the letter's ``key`` or ``value`` is read and written."""
        if self.converters is None or letter.encoding(name) != CONVERTER:
            return Part(hide=without_secrets)
        topic = letter.origin_topic or letter.topic
        converter = self.converters.key if name == "key" else self.converters.value
        return self.locked(partial(converter.to_connect_data, topic), partial(converter.from_connect_data, topic))

    def header(self, letter: Letter, name: str) -> Part:
        """Return how the letter's header of that name is read and written."""
        if self.converters is None:
            return Part(hide=without_secrets)
        topic, converter = letter.origin_topic or letter.topic, self.converters.header
        read, write = converter.to_connect_header, converter.from_connect_header
        return self.locked(partial(read, topic, name), partial(write, topic, name))

    def locked(self, read: Read, write: Write | None = None) -> Part:
        """Return the part of a converter's reading and writing."""

        def reads(data: bytes) -> tuple[Schema | None, Any]:
            with self.lock:
                return read(data)

        def writes(schema: Schema | None, value: Any) -> bytes | None:
            with self.lock:
                return None if write is None else write(schema, value)

        return Part(reads, writes if write is not None else None, without_secrets)

    def close(self) -> None:
        """Let go of what a converter holds (a JVM)."""
        for converter in (
            (self.converters.key, self.converters.value, self.converters.header) if self.converters else ()
        ):
            if hasattr(converter, "close"):
                with self.lock:
                    converter.close()


class LetterForms:
    """The forms of all connectors. Any thread."""

    def __init__(
        self, config_of: ConfigOf, worker: Mapping[str, str], plugin: Plugin, *, leaves_nothing: bool = False
    ) -> None:
        """``worker``: its settings, if a connector names no converter. ``leaves_nothing``: no schema is registered."""
        self._config_of = config_of
        self._worker = worker
        self._plugin = plugin
        self._leaves_nothing = leaves_nothing
        self._lock = threading.Lock()
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], LetterForm] = {}
        self._recent: dict[str, tuple[float, LetterForm]] = {}  # connector -> until when, monotonic

    def of(self, letter: Letter, connector: str | None) -> LetterForm:
        """Return the form of a letter; ``connector`` None: of the one that wrote it."""
        return self.of_connector(connector or letter.errors.get("connector.name"))

    def of_connector(self, connector: str | None) -> LetterForm:
        """Return the form of a connector's letters, those as bytes if it is not known or its converters cannot be.

        A changed configuration is seen within ``RECENT_S``: its references are not looked up for each letter.
        """
        if connector is None:
            return LetterForm(None)
        now_s = time.monotonic()
        with self._lock:
            until_s, form = self._recent.get(connector, (0.0, None))
            if form is not None and now_s < until_s:
                return form
            form = self._current(connector)
            if len(self._recent) >= _RECENT_MAX:  # names come from headers, which anybody may have written
                self._recent.clear()
            self._recent[connector] = (now_s + RECENT_S, form)
            return form

    def close(self) -> None:
        """Let go of every converter."""
        with self._lock:
            forms = list(self._known.values())
            self._known.clear()
            self._recent.clear()
        for form in forms:
            form.close()

    def _current(self, connector: str) -> LetterForm:
        config = self._config_of(connector)
        if config is None:
            return LetterForm(None)
        mark = (connector, frozenset(setting for setting in config.items() if "converter" in setting[0]))
        if mark not in self._known:
            while len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]  # not closed: somebody may read by it
            self._known[mark] = self._made(config)
        return self._known[mark]

    def _made(self, config: Mapping[str, str]) -> LetterForm:
        try:
            made = ConnectorConverters.from_config(config, self._worker, self._plugin)
        except ConnectError as error:
            return LetterForm(None, shown_error(error, without_secrets))
        if self._leaves_nothing:
            made.key.leave_nothing_behind()
            made.value.leave_nothing_behind()
        return LetterForm(made)
