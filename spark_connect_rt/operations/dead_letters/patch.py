"""A JSON patch (RFC 6902) of dead letters, bounded. Pure.

Owns: what a patch may be, and that one cannot grow a letter without end: each ``copy`` may double it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch

from spark_connect_rt.errors import BadConfigError, DataError

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
