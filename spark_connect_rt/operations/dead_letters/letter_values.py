"""A key, value or header of a dead letter as JSON shows it, and the bytes of one that was edited. Pure.

A shown value is None or an object with one of ``json`` (the value as Connect's JsonConverter writes it, without its
schema), ``text`` and ``base64``; beside it ``error`` (why the connector's converter cannot read the bytes) and ``cut``
(how many bytes there are, when only the beginning is shown).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.errors import DataError, ExternalError
from spark_connect_rt.records.converters.json_values import JsonSettings, from_tree, to_tree

Read = Callable[[bytes], tuple[Schema | None, Any]]
Write = Callable[[Schema | None, Any], bytes | None]
Shown = dict[str, Any] | None

KINDS = ("json", "text", "base64")
SHOWN_BYTES = 65_536
_ERROR_MAX = 2_000  # characters
_DEPTH_MAX = 100
_FORM = JsonSettings(replace_null_with_default=False)


@dataclass(frozen=True, slots=True)
class Part:
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
            except Exception as why:  # noqa: BLE001 - plug-in code: whatever it throws is this letter's failure
                error = {"error": shown_error(why, self.hide)}
        whole = {**_plain(data), **error}
        return whole if "json" in whole or len(data) <= SHOWN_BYTES else {**whole, "cut": len(data)}

    def data(self, wanted: Any, before: Shown, original: bytes | None) -> bytes | None:
        """Return the bytes of a shown value that was edited; ``before`` is how ``original`` was shown.

        Raises DataError: it is no shown value, is of one that is shown cut, does not fit the schema, or the converter
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
