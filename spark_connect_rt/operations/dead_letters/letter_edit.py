"""Applies a replay to a letter: its edit, and its destination.

Owns: key, value and headers that an edit leaves alone keep their bytes; a letter's own failure (DataError) apart from
that of something it needs (ExternalError), which no letter is to blame for.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jsonpatch

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Header, SinkRecord
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.secrets import references
from spark_connect_rt.errors import BadConfigError, BadRequestError, DataError, ExternalError
from spark_connect_rt.operations.dead_letters.letter import (
    CONVERTER,
    ConfigOf,
    Letter,
    LetterConverter,
    LetterForm,
    LetterForms,
    Plugin,
    encoded,
    same,
    shown_error,
)
from spark_connect_rt.records.pipeline.chain_config import chain_config_def, chain_problems
from spark_connect_rt.records.pipeline.errant_records import StageError
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain

# A JSON patch (RFC 6902) of dead letters, bounded. Pure.
#
# Owns the allowed operations, and a limit on the growth of a letter: each ``copy`` may double it.


OPERATIONS_MAX, COPIES_MAX = 100, 8
_NEEDS = {"add": "value", "replace": "value", "test": "value", "move": "from", "copy": "from", "remove": "path"}
PARTS = ("key", "value", "headers")


class LetterPatch:
    """A patch, checked once. Any thread."""

    def __init__(self, operations: Any) -> None:
        """Take the operations. Raises BadConfigError."""
        problem = _problem(operations)
        if problem:
            raise BadConfigError({"edit.patch": [problem]})
        self._patch = jsonpatch.JsonPatch(operations)

    def apply(self, letter: Mapping[str, Any]) -> dict[str, Any]:
        """Return key, value and headers after the patch. Raises DataError: it does not apply, or leaves no letter."""
        try:
            patched = self._patch.apply(copy.deepcopy(dict(letter)), in_place=True)
        except Exception as error:  # a library, and paths that come from outside
            raise DataError(f"the patch cannot be applied: {error}") from error
        if not isinstance(patched, dict) or set(patched) - set(PARTS):
            raise DataError(f"the patched letter has more than {', '.join(PARTS)}")
        headers = patched.get("headers") or []
        if not isinstance(headers, list) or not all(_is_header(header) for header in headers):
            raise DataError('the patched headers are not a list of {"name": "..", "value": ..}')
        return {"key": patched.get("key"), "value": patched.get("value"), "headers": headers}


def _is_header(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= {"name", "value"} and isinstance(value.get("name"), str)


def _problem(operations: Any) -> str:
    if not isinstance(operations, Sequence) or isinstance(operations, str) or not operations:
        return "must be a list of operations (RFC 6902): op, path, value or from"
    if len(operations) > OPERATIONS_MAX:
        return f"must have at most {OPERATIONS_MAX} operations"
    if sum(isinstance(operation, dict) and operation.get("op") == "copy" for operation in operations) > COPIES_MAX:
        return f"must have at most {COPIES_MAX} copy operations"
    for number, operation in enumerate(operations):
        try:
            jsonpatch.JsonPatch([operation])
            root = str(operation["path"]).split("/")[1:2]
            _ = operation[_NEEDS[operation["op"]]]
        except Exception as error:  # noqa: BLE001 - a library, whatever it says of a wrong operation
            return f"operation {number}: {type(error).__name__}: {error}"
        if root not in ([part] for part in PARTS):
            return f"operation {number}: path must begin with {', '.join(f'/{part}' for part in PARTS)}"
    return ""


# Where a replayed letter goes. Pure.
#
# Owns the refusals. Headers of a letter come from any client that may write to the dead letter queue, and must not lead
# to topics that the connector does not use.


@dataclass(frozen=True, slots=True)
class Origins:
    """The topics that letters of one connector may have come from; nothing known: any."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, config: Mapping[str, str] | None) -> Origins:
        """Return those of a sink connector's configuration; None: the connector is not known. Sources may: any."""
        if config is None:
            return cls()
        pattern = config.get("topics.regex")
        topics = tuple(topic for topic in parse_value(Type.LIST, config.get("topics") or "") if topic)
        return cls(topics, java_pattern(pattern) if pattern else None)

    def topic(self, letter: Letter) -> str:
        """Return the topic a letter came from. Raises DataError: it is unknown, or not one of the connector's."""
        topic = letter.origin_topic
        if topic is None and len(self.topics) == 1:
            return self.topics[0]
        if topic is None:
            raise DataError(
                "its original topic is unknown, because errors.deadletterqueue.context.headers.enable was false"
            )
        if (self.topics and topic not in self.topics) or (self.pattern and not self.pattern.fullmatch(topic)):
            raise DataError(f"it came from {topic}, which is not a topic of the connector")
        return topic


def check_encoding(letter: Letter, edited: Callable[[str], bool]) -> None:
    """Raise DataError for a letter whose bytes are not what its topic holds, unless they were edited."""
    for part in ("key", "value"):
        how = letter.encoding(part)
        if how != CONVERTER and getattr(letter, part) is not None and not edited(part):
            raise DataError(f"its {part} was never converted (it is {how}). Edit it into the topic's format")


def partition_of(letter: Letter, count: int, *, key_changed: bool, same_topic: bool) -> int | None:
    """Return the partition to write to, None: the one of its key. ``count``: partitions that there are."""
    number = letter.origin_partition
    if number is None or number >= count or key_changed or not same_topic:
        return None
    return number


PATCH, TRANSFORMS = "patch", "transforms"
EDIT_BYTES_MAX = 262_144
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class EditedRecord:
    """A letter as it is sent; ``key_changed``: its partition may be another."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    key_changed: bool


def check_edit(edit: Mapping[str, Any], plugin: Plugin) -> None:
    """Raise BadRequestError or BadConfigError for an edit that cannot be: nothing is looked up, nothing is started."""
    if unknown := sorted(set(edit) - {PATCH, TRANSFORMS}):
        raise BadRequestError(f"edit: unknown fields {', '.join(map(str, unknown))}. Use {PATCH} and {TRANSFORMS}")
    try:
        size = len(encoded(dict(edit)))
    except DataError as error:
        raise BadRequestError(f"edit: {error}") from error
    if size > EDIT_BYTES_MAX:
        raise BadRequestError(f"edit: must be at most {EDIT_BYTES_MAX} bytes of JSON, because it is stored in a topic")
    if edit.get(PATCH) is not None:
        LetterPatch(edit[PATCH])
    chain = edit.get(TRANSFORMS)
    if chain is None:
        return
    if not isinstance(chain, Mapping) or not all(isinstance(text, str) for pair in chain.items() for text in pair):
        raise BadRequestError(
            'edit.transforms: must be an object of strings: {"transforms": "a", "transforms.a.type": ...}'
        )
    foreign = sorted(name for name in chain if name.partition(".")[0] not in ("transforms", "predicates"))
    problems: dict[str, list[str]] = {name: ["not a setting of transformations"] for name in foreign}
    problems |= chain_problems(chain, plugin)
    for key in chain_config_def(chain, plugin):
        if key.type is Type.PASSWORD and chain.get(key.name) and not references(chain[key.name]):
            problems[key.name] = [
                "must not be a secret, because the edit is stored in a topic. Refer to a config provider instead"
            ]
    if problems:
        raise BadConfigError({f"edit.{name}": why for name, why in problems.items()})


class LetterEdit:
    """One replay's edit, made once and closed. One thread."""

    def __init__(
        self,
        edit: Mapping[str, Any],
        forms: LetterForms,
        config_of: ConfigOf,
        plugin: Plugin,
        resolve: Callable[[Mapping[str, str]], Mapping[str, str]],
    ) -> None:
        """Raises BadConfigError, ConnectError: a transformation cannot be made."""
        self._patch = LetterPatch(edit[PATCH]) if edit.get(PATCH) is not None else None
        self._forms = forms
        self._config_of = config_of
        self._origins: dict[str | None, Origins] = {}
        self._chain: TransformationChain | None = None
        if edit.get(TRANSFORMS):
            self._chain = TransformationChain.from_config(resolve(edit[TRANSFORMS]), plugin)
            self._chain.get_ready(sink=True)

    def close(self) -> None:
        """Close the transformations, if there are any."""
        if self._chain is not None:
            self._chain.close()

    def apply(self, letter: Letter, connector: str | None) -> EditedRecord | None:
        """Return the letter as it is to be sent, None: a transformation dropped it. Raises DataError, ExternalError."""
        name = connector or letter.errors.get("connector.name")
        if name not in self._origins:
            self._origins[name] = Origins.of(self._config_of(name))
        topic = self._origins[name].topic(letter)
        form = self._forms.of(letter, connector)
        record = EditedRecord(topic, letter.key, letter.value, list(letter.headers), key_changed=False)
        edited: set[str] = set()
        if self._patch is not None:
            record = self._patched(letter, form, record, edited)
        check_encoding(letter, edited.__contains__)
        return record if self._chain is None else self._transformed(letter, form, record)

    def _patched(self, letter: Letter, form: LetterForm, record: EditedRecord, edited: set[str]) -> EditedRecord:
        assert self._patch is not None
        before = shown_letter(letter, form, None)
        after = self._patch.apply(before)
        made: dict[str, bytes | None] = {}
        for name in ("key", "value"):
            original: bytes | None = getattr(letter, name)
            made[name] = original
            if not same(before[name], after[name]):
                edited.add(name)
                made[name] = form.part(letter, name).data(after[name], before[name], original)
        headers = _headers(letter, form, before["headers"], after["headers"])
        return EditedRecord(record.topic, made["key"], made["value"], headers, made["key"] != letter.key)

    def _transformed(self, letter: Letter, form: LetterForm, record: EditedRecord) -> EditedRecord | None:
        if form.converters is None:
            raise DataError(f"the transformations need converters to read the letter {form.problem}".rstrip())
        assert self._chain is not None
        try:
            with form.lock:
                given = _as_record(letter, form, record)
                found = self._chain.apply(given)
                return None if found is None else _as_bytes(form, record, given, found)
        except (ExternalError, DataError):
            raise
        except StageError as error:
            raise DataError(f"transformation: {shown_error(error.__cause__ or error, without_secrets)}") from error
        except Exception as error:  # plug-in code: any exception is this letter's failure
            raise DataError(f"converter: {shown_error(error, without_secrets)}") from error


def shown_letter(letter: Letter, form: LetterForm, most: int | None) -> dict[str, Any]:
    """Return key, value and headers of a letter as an edit sees them; ``most``: bytes of each, None: all."""
    return {
        "key": form.part(letter, "key").shown(letter.key, most),
        "value": form.part(letter, "value").shown(letter.value, most),
        "headers": [
            {"name": name, "value": form.header(letter, name).shown(data, most)} for name, data in letter.headers
        ],
    }


def shown_record(letter: Letter, form: LetterForm, record: EditedRecord, most: int) -> dict[str, Any]:
    """Return an edited letter as ``shown_letter`` does; its bytes are the converters' own by now."""
    key, value = _converted(letter, form, "key"), _converted(letter, form, "value")
    return {
        "key": key.shown(record.key, most),
        "value": value.shown(record.value, most),
        "headers": [
            {"name": name, "value": form.header(letter, name).shown(data, most)} for name, data in record.headers
        ],
    }


def _converted(letter: Letter, form: LetterForm, name: str) -> LetterConverter:
    if form.converters is None:
        return LetterConverter(hide=without_secrets)
    converter = form.converters.key if name == "key" else form.converters.value
    return form.locked(partial(converter.to_connect_data, letter.origin_topic or letter.topic))


def _headers(letter: Letter, form: LetterForm, before: list[Any], after: list[Any]) -> Headers:
    """Return the bytes of headers after a patch: of those that it left alone their own, in whatever order."""
    left = list(zip(before, letter.headers, strict=True))
    made: Headers = []
    for wanted in after:
        index = next((i for i, (shown, _) in enumerate(left) if same(shown, {"value": None, **wanted})), None)
        if index is not None:
            made.append(left.pop(index)[1])
            continue
        old = next(((shown, data) for shown, (name, data) in left if name == wanted["name"]), ({"value": None}, None))
        part = form.header(letter, wanted["name"])
        made.append((wanted["name"], part.data(wanted.get("value"), old[0]["value"], old[1])))
    return made


def _as_record(letter: Letter, form: LetterForm, record: EditedRecord) -> SinkRecord:
    assert form.converters is not None
    converters, topic = form.converters, record.topic
    key_schema, key = converters.key.to_connect_data(topic, record.key)
    value_schema, value = converters.value.to_connect_data(topic, record.value)
    headers = []
    for name, data in record.headers:
        schema, content = converters.header.to_connect_header(topic, name, data)
        headers.append(Header(name, content, schema))
    partition, offset = letter.origin_partition or 0, letter.origin_offset or 0
    return SinkRecord(
        topic, partition, offset, value, value_schema, key, key_schema, letter.at_ms, headers=tuple(headers)
    )


def _as_bytes(form: LetterForm, before: EditedRecord, given: SinkRecord, found: SinkRecord) -> EditedRecord:
    assert form.converters is not None
    converters, topic = form.converters, found.topic
    key, value, headers = before.key, before.value, before.headers
    if not _is_left(found.key, found.key_schema, given.key, given.key_schema, before.key, converters.key, topic):
        key = converters.key.from_connect_data(topic, found.key_schema, found.key)
    if not _is_left(
        found.value, found.value_schema, given.value, given.value_schema, before.value, converters.value, topic
    ):
        value = converters.value.from_connect_data(topic, found.value_schema, found.value)
    if found.headers is not given.headers:
        write = converters.header.from_connect_header
        headers = [(header.key, write(topic, header.key, header.schema, header.value)) for header in found.headers]
    return EditedRecord(topic, key, value, headers, before.key_changed or key != before.key)


def _is_left(
    found: Any, found_schema: Any, given: Any, given_schema: Any, data: bytes | None, converter: Any, topic: str
) -> bool:
    """Return whether a value came out as it went in; one that holds others may have been changed in place."""
    if found is not given or found_schema is not given_schema:
        return False
    return not isinstance(found, dict | list | Struct) or bool(found == converter.to_connect_data(topic, data)[1])
