"""Letters as their connector's converters read them.

Owns: which converters these are, one set for each connector and configuration; error texts without secrets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.planning.letters.letter import CONVERTER, Letter
from spark_connect_rt.planning.letters.letter_values import Part, shown_error
from spark_connect_rt.ports.hidden_values import without_secrets

Plugin = Callable[[str], type[Any]]
ConfigOf = Callable[[str | None], Mapping[str, str] | None]
_KEPT = 16  # sets of converters


@dataclass(frozen=True, slots=True)
class LetterForm:
    """How one connector's letters are read; ``converters`` None: as bytes, and ``problem`` says why."""

    converters: ConnectorConverters | None
    problem: str = ""

    def part(self, letter: Letter, name: str) -> Part:
        """Return how the letter's ``key`` or ``value`` is read and written."""
        if self.converters is None or letter.encoding(name) != CONVERTER:
            return Part(hide=without_secrets)
        topic = letter.origin_topic or letter.topic
        converter = self.converters.key if name == "key" else self.converters.value
        return Part(
            lambda data: converter.to_connect_data(topic, data),
            lambda schema, value: converter.from_connect_data(topic, schema, value),
            without_secrets,
        )

    def header(self, letter: Letter, name: str) -> Part:
        """Return how the letter's header of that name is read and written."""
        if self.converters is None:
            return Part(hide=without_secrets)
        topic, converter = letter.origin_topic or letter.topic, self.converters.header
        return Part(
            lambda data: converter.to_connect_header(topic, name, data),
            lambda schema, value: converter.from_connect_header(topic, name, schema, value),
            without_secrets,
        )


class LetterForms:
    """The forms of all connectors. Any thread."""

    def __init__(self, config_of: ConfigOf, worker: Mapping[str, str], plugin: Plugin) -> None:
        """``worker``: the worker's settings, for connectors that name no converter."""
        self._config_of = config_of
        self._worker = worker
        self._plugin = plugin
        self._lock = threading.Lock()
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], LetterForm] = {}

    def of(self, letter: Letter, connector: str | None) -> LetterForm:
        """Return the form of a letter; ``connector`` None: of the one that wrote it."""
        return self.of_connector(connector or letter.errors.get("connector.name"))

    def of_connector(self, connector: str | None) -> LetterForm:
        """Return the form of a connector's letters, those as bytes if it is not known or its converters cannot be."""
        config = self._config_of(connector)
        if connector is None or config is None:
            return LetterForm(None)
        mark = (connector, frozenset(one for one in config.items() if "converter" in one[0]))
        with self._lock:
            if mark not in self._known:
                while len(self._known) >= _KEPT:
                    del self._known[next(iter(self._known))]
                self._known[mark] = self._made(config)
            return self._known[mark]

    def _made(self, config: Mapping[str, str]) -> LetterForm:
        try:
            return LetterForm(ConnectorConverters.from_config(config, self._worker, self._plugin))
        except ConnectError as error:
            return LetterForm(None, shown_error(error, without_secrets))
