"""What a replay makes of a letter: an edit, and where it goes.

Owns: key, value and headers that an edit leaves alone keep their bytes; a letter's own failure (DataError) apart from
that of something it needs (ExternalError), which no letter is to blame for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Header, SinkRecord
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.config_def import Type
from spark_connect_rt.config.indirection import references
from spark_connect_rt.errors import BadConfigError, BadRequestError, DataError, ExternalError
from spark_connect_rt.operations.dead_letters.destination import Origins, check_encoding
from spark_connect_rt.operations.dead_letters.letter import Letter
from spark_connect_rt.operations.dead_letters.letter_forms import ConfigOf, LetterForm, LetterForms, Plugin
from spark_connect_rt.operations.dead_letters.letter_values import Part, encoded, same, shown_error
from spark_connect_rt.operations.dead_letters.patch import LetterPatch
from spark_connect_rt.records.pipeline.chain_config import chain_config_def, chain_problems
from spark_connect_rt.records.pipeline.errant_records import StageError
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain

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
        """Close the transformations."""
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
        except Exception as error:  # plug-in code: whatever it throws is this letter's failure
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


def _converted(letter: Letter, form: LetterForm, name: str) -> Part:
    if form.converters is None:
        return Part(hide=without_secrets)
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
