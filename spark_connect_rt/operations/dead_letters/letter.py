"""One dead letter as it lies in its queue, and which letters a query wants. Pure.

Owns: reading Connect's headers (of our workers and of Java's), the filters of ``/admin/dead-letters``.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import orjson

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.errors import BadRequestError, ConnectError, DataError, ExternalError
from spark_connect_rt.records.converters.json_values import JsonSettings, from_tree, to_tree
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.dead_letters import split_headers

CONVERTER = "converter"
NUMBER_MAX = 2**63 - 1
FILTERS = ("partition", "stage", "class", "message", "origin", "from_ms", "to_ms", "replayed")
_PARTITION_MAX = 2**31 - 1
_TEXT_MAX = 10_000  # characters of a filter


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead letter queue; ``at_ms`` is the time of the record it was."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]  # those the record had
    errors: Mapping[str, str | None]  # Connect's, without their prefix

    @property
    def size(self) -> int:
        """Return about how many bytes it holds."""
        in_headers = sum(len(name) + len(data or b"") for name, data in self.headers)
        return len(self.key or b"") + len(self.value or b"") + in_headers

    @property
    def origin_topic(self) -> str | None:
        """Return the topic its record was read from, or was to be written to."""
        return self.errors.get("topic") or None

    @property
    def origin_partition(self) -> int | None:
        """Return its partition, None when it had none yet (sources)."""
        return _number(self.errors.get("partition"))

    @property
    def origin_offset(self) -> int | None:
        """Return its offset, None when it had none yet (sources)."""
        return _number(self.errors.get("offset"))

    def encoding(self, part: str) -> str:
        """Return how the bytes of ``key`` or ``value`` were made: converter, json, text, input or truncated."""
        return self.errors.get(f"{part}.encoding") or CONVERTER


def letter_of(
    topic: str,
    place: tuple[int, int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> Letter:
    """Return the letter of a record; ``place``: partition, offset, time in ms."""
    own, errors = split_headers(headers)
    return Letter(topic, *place, key, value, own, errors)


def _number(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if 0 <= number <= NUMBER_MAX else None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are wanted; None: any."""

    partition: int | None = None
    stage: str | None = None
    class_name: str | None = None
    message: str | None = None
    origin: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    replayed: bool | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> LetterFilter:
        """Return what a query or a body asks for. Raises BadRequestError naming the field."""
        unknown = sorted(set(given) - set(FILTERS))
        if unknown:
            raise BadRequestError(f"unknown filter {', '.join(unknown)}. Use {', '.join(FILTERS)}")
        return cls(
            partition=_whole(given, "partition", _PARTITION_MAX),
            stage=_text(given, "stage"),
            class_name=_text(given, "class"),
            message=_text(given, "message"),
            origin=_text(given, "origin"),
            from_ms=_whole(given, "from_ms", NUMBER_MAX),
            to_ms=_whole(given, "to_ms", NUMBER_MAX),
            replayed=_flag(given, "replayed"),
        )

    def as_fields(self) -> dict[str, Any]:
        """Return it as ``of`` takes it."""
        values = (self.partition, self.stage, self.class_name, self.message)
        rest = (self.origin, self.from_ms, self.to_ms, self.replayed)
        return {name: value for name, value in zip(FILTERS, (*values, *rest), strict=True) if value is not None}

    def lets(self, letter: Letter, is_replayed: bool) -> bool:
        """Return whether the letter is wanted.

        ``stage`` is compared whole, ``class`` with the class at work and the exception's (whole, or its last part),
        ``message`` is looked for within the exception's, ``origin`` is a topic or ``topic-partition``.
        """
        return (
            self.partition in (None, letter.partition)
            and self.replayed in (None, is_replayed)
            and (self.from_ms is None or letter.at_ms >= self.from_ms)
            and (self.to_ms is None or letter.at_ms < self.to_ms)
            and (self.stage is None or (letter.errors.get("stage") or "").lower() == self.stage.lower())
            and (self.class_name is None or self._is_of_class(letter, self.class_name))
            and (self.message is None or self.message.lower() in (letter.errors.get("exception.message") or "").lower())
            and (self.origin is None or self._is_from(letter, self.origin))
        )

    @staticmethod
    def _is_of_class(letter: Letter, wanted: str) -> bool:
        names = (letter.errors.get("class.name") or "", letter.errors.get("exception.class.name") or "")
        return any(wanted in (name, name.rpartition(".")[2]) for name in names if name)

    @staticmethod
    def _is_from(letter: Letter, wanted: str) -> bool:
        topic = letter.origin_topic
        return topic is not None and wanted in (topic, f"{topic}-{letter.origin_partition}")


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _TEXT_MAX:
        raise BadRequestError(f"{name}: must be a string of at most {_TEXT_MAX} characters")
    return value


def _whole(given: Mapping[str, Any], name: str, most: int) -> int | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    return whole_number(value, name, 0, most)


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """Return a number that may be a text. Raises BadRequestError naming the field."""
    text = str(value) if not isinstance(value, bool | float) else ""
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
        return int(text)
    raise BadRequestError(f"{name}: must be a whole number from {least} to {most}")


def _flag(given: Mapping[str, Any], name: str) -> bool | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    known = {"true": True, "false": False}
    if str(value).lower() not in known:
        raise BadRequestError(f"{name}: must be true or false")
    return known[str(value).lower()]


# Where a page of dead letters ended, as an opaque text for the next one. Pure.


_SIZE_MAX = 200_000  # characters; 10,000 partitions


def encode_cursor(topic_id: str, positions: Mapping[int, int]) -> str:
    """Return the cursor of the next offset by partition; ``topic_id`` changes when the topic is made again."""
    data = json.dumps([topic_id, [[number, positions[number]] for number in sorted(positions)]]).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_cursor(text: str, topic_id: str) -> dict[int, int]:
    """Return the next offset by partition. Raises BadRequestError: no cursor of ours, or of another topic."""
    try:
        if len(text) > _SIZE_MAX:
            raise ValueError("too long")
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        named, pairs = json.loads(data)
        positions: dict[int, int] = dict(pairs)
        if not all(type(number) is int and 0 <= number < 2**63 for pair in positions.items() for number in pair):
            raise ValueError("no offsets")
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise BadRequestError("after: not a valid cursor. Send the unchanged 'next' of the previous page") from error
    if named != topic_id:
        raise BadRequestError("the topic was deleted and created again since that page. Start again without 'after'")
    return positions


# A key, value or header of a dead letter as JSON shows it, and the bytes of one that was edited. Pure.
#
# A shown value is None or an object with one of ``json`` (the value as Connect's JsonConverter writes it, without its
# schema), ``text`` and ``base64``. Next to it are ``error`` (why the connector's converter cannot read the bytes) and
# ``cut`` (how many bytes there are, when only the beginning is shown).


Read = Callable[[bytes], tuple[Schema | None, Any]]
Write = Callable[[Schema | None, Any], bytes | None]
Shown = dict[str, Any] | None

KINDS = ("json", "text", "base64")
SHOWN_BYTES = 65_536
_ERROR_MAX = 2_000  # characters
_DEPTH_MAX = 100
_FORM = JsonSettings(replace_null_with_default=False)


@dataclass(frozen=True, slots=True)
class LetterConverter:
    """A converter's reading and writing, for one topic; ``read`` None: the bytes are not the converter's."""

    read: Read | None = None
    write: Write | None = None
    hide: Callable[[str], str] = str  # takes secrets out of an error's text

    def shown(self, data: bytes | None, most: int | None = SHOWN_BYTES) -> Shown:
        """Return bytes as JSON shows them; ``most``: show the beginning of what is longer. Raises ExternalError.

        With ``most`` None ``cut`` marks what pages show the beginning of: an edit of that is refused by ``data``.
        """
        if data is None:
            return None
        if most is not None and len(data) > most:
            return {**_plain(data[:most], is_whole=False), "cut": len(data)}
        error = {}
        if self.read is not None:
            try:
                return {"json": as_tree(*self.read(data))}
            except ExternalError:
                raise  # no letter is to blame
            except Exception as why:  # noqa: BLE001 - plug-in code: any exception is this letter's failure
                error = {"error": shown_error(why, self.hide)}
        whole = {**_plain(data), **error}
        return whole if "json" in whole or len(data) <= SHOWN_BYTES else {**whole, "cut": len(data)}

    def data(self, wanted: Any, before: Shown, original: bytes | None) -> bytes | None:
        """Return the bytes of a shown value that was edited; ``before`` is how ``original`` was shown.

        Raises DataError: it is not a shown value, is of a truncated one, does not fit the schema, or the converter
        cannot read the outcome.
        """
        if wanted is None:
            return None
        kind = kind_of(wanted)
        if "cut" in wanted:
            raise DataError(
                f"only the first {SHOWN_BYTES} of its {wanted['cut']} bytes are shown, and an edit of these would "
                "lose the rest. Send the whole value without cut, or use transformations"
            )
        content = wanted[kind]
        if kind != "json":
            made: bytes | None = _bytes_of(kind, content)
        elif self.read is not None and self.write is not None and original is not None and _was_read(before):
            schema, _ = self.read(original)
            made = self.write(schema, from_tree(schema, content, _FORM))
        else:
            made = encoded(content)
        if made is not None and self.read is not None:
            try:
                self.read(made)
            except ExternalError:
                raise
            except Exception as why:
                reason = shown_error(why, self.hide)
                raise DataError(f"the connector's converter cannot read the edited value: {reason}") from why
        return made


def kind_of(wanted: Any) -> str:
    """Return which of ``KINDS`` a shown value is. Raises DataError."""
    kinds = [kind for kind in KINDS if isinstance(wanted, Mapping) and kind in wanted]
    if len(kinds) != 1:
        raise DataError('an edited key or value must be null, {"json": ..}, {"text": ".."} or {"base64": ".."}')
    return kinds[0]


def same(tree: Any, other: Any) -> bool:
    """Return whether two trees are the same JSON: 1, 1.0 and true are three values."""
    if isinstance(tree, dict) and isinstance(other, dict):
        return tree.keys() == other.keys() and all(same(tree[key], other[key]) for key in tree)
    if isinstance(tree, list) and isinstance(other, list):
        return len(tree) == len(other) and all(map(same, tree, other))
    return type(tree) is type(other) and bool(tree == other)


def shown_error(why: BaseException, hide: Callable[[str], str] = str) -> str:
    """Return an error in a line or few."""
    text = f"{type(why).__name__}: {why}" if str(why) else type(why).__name__
    return hide(text)[:_ERROR_MAX].encode(errors="backslashreplace").decode()


def as_tree(schema: Schema | None, value: Any) -> Any:
    """Return a Connect value as a JSON tree. Raises DataError: it has none, or one that is too deep."""
    try:
        return parsed(orjson.dumps(to_tree(schema, value, _FORM)))
    except (TypeError, RecursionError) as error:
        raise DataError(f"the value cannot be written as JSON: {error}") from error


def parsed(data: bytes) -> Any:
    """Return the tree of one JSON text, whole numbers exact. Raises DataError; no NaN, no half surrogate pairs."""
    try:
        tree = json.loads(data.decode(), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}") from error
    _check(tree, 0)
    return tree


def encoded(tree: Any) -> bytes:
    """Return a tree as JSON text. Raises DataError."""
    try:
        return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"the edited value cannot be written as JSON: {error}") from error


def _was_read(before: Shown) -> bool:
    return before is not None and "json" in before and "error" not in before


def _bytes_of(kind: str, content: Any) -> bytes:
    try:
        return content.encode() if kind == "text" else base64.b64decode(content, validate=True)  # type: ignore[no-any-return]
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise DataError(f"the edited {kind} is invalid: {error}") from error


def _plain(data: bytes, *, is_whole: bool = True) -> dict[str, Any]:
    if is_whole and data[:1] in (b"{", b"["):
        try:
            return {"json": parsed(data)}
        except DataError:
            pass
    try:
        text = data.decode() if is_whole else _beginning(data)
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    if any(char < " " and char not in "\t\r\n" for char in text):
        return {"base64": base64.b64encode(data).decode()}
    return {"text": text}


def _beginning(data: bytes) -> str:
    """Return text whose last character may be cut. Raises UnicodeDecodeError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:
            raise
        return data[: error.start].decode()


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large for a double")
    return number


def _check(tree: Any, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise DataError(f"nested deeper than {_DEPTH_MAX}")
    if isinstance(tree, str):
        try:
            tree.encode()
        except UnicodeEncodeError as error:
            raise DataError("half a surrogate pair") from error
    elif isinstance(tree, dict):
        for key, part in tree.items():
            _check(key, depth)
            _check(part, depth + 1)
    elif isinstance(tree, list):
        for part in tree:
            _check(part, depth + 1)


# Letters as their connector's converters read them.
#
# Owns: which converters these are, one set for each connector and configuration; error texts without secrets.


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

    def part(self, letter: Letter, name: str) -> LetterConverter:
        """Return how the letter's ``key`` or ``value`` is read and written."""
        if self.converters is None or letter.encoding(name) != CONVERTER:
            return LetterConverter(hide=without_secrets)
        topic = letter.origin_topic or letter.topic
        converter = self.converters.key if name == "key" else self.converters.value
        return self.locked(partial(converter.to_connect_data, topic), partial(converter.from_connect_data, topic))

    def header(self, letter: Letter, name: str) -> LetterConverter:
        """Return how the letter's header of that name is read and written."""
        if self.converters is None:
            return LetterConverter(hide=without_secrets)
        topic, converter = letter.origin_topic or letter.topic, self.converters.header
        read, write = converter.to_connect_header, converter.from_connect_header
        return self.locked(partial(read, topic, name), partial(write, topic, name))

    def locked(self, read: Read, write: Write | None = None) -> LetterConverter:
        """Return the part of a converter's reading and writing."""

        def reads(data: bytes) -> tuple[Schema | None, Any]:
            with self.lock:
                return read(data)

        def writes(schema: Schema | None, value: Any) -> bytes | None:
            with self.lock:
                return None if write is None else write(schema, value)

        return LetterConverter(reads, writes if write is not None else None, without_secrets)

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
            if len(self._recent) >= _RECENT_MAX:  # names come from headers, which any client may have written
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
                del self._known[next(iter(self._known))]  # not closed: a reader may still use it
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
