"""The position of the HTTP source: offsets, the next page, and the values of both in a request. Pure.

A pass is a request and its further pages. ``fields`` are the offset's values for the requests of this pass; ``newest``
are the values after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_connect_rt.errors import ConnectError, DataError

PAGE = "page"
"""The name in an offset under which an unfinished pass stands, as JSON text."""

_PLACE = re.compile(r"\$\{offset\.([^}]+)\}")
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class PagePosition:
    """How far the source is. ``next``: the next page's address, cursor or number; None: a new pass begins.

    ``count``: how many records the page before a numbered one had. Rows that are added to the list fill that page
    before they make further ones, so a page that may not have been full is read again.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    newest: Mapping[str, Any] = field(default_factory=dict)
    next: str | int | None = None
    count: int = 0

    def offset(self) -> dict[str, Any]:
        """Return it as a source offset: flat, of plain values."""
        if self.next is None:
            return dict(self.newest)
        counted = {"count": self.count} if isinstance(self.next, int) else {}
        return {**self.fields, PAGE: json.dumps({"next": self.next, "newest": dict(self.newest), **counted})}

    def after_page(self, newest: Mapping[str, Any], following: str | int | None, count: int = 0) -> PagePosition:
        """Return the position after a page of ``count`` records. Without a following page the pass is over."""
        if following is None:
            return PagePosition(newest, newest)
        return replace(self, newest=newest, next=following, count=count)

    def begun_again(self) -> PagePosition:
        """Return where the same pass begins: everything of it is asked for once more."""
        return PagePosition(self.fields, self.fields)


def standing_of(offset: Mapping[str, Any] | None, initial: Mapping[str, Any]) -> PagePosition:
    """Return the position of a stored offset. Raises ConnectError: its page is invalid."""
    given = {**initial, **(offset or {})}
    page = given.pop(PAGE, None)
    if page is None:
        return PagePosition(given, given)
    try:
        unfinished = json.loads(page)
        newest, following, count = unfinished["newest"], unfinished["next"], unfinished.get("count", 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConnectError(f"the offset's {PAGE} cannot be read: {page!r:.80}") from error
    whole = [number for number in (following, count) if isinstance(number, int) and not isinstance(number, bool)]
    if not isinstance(newest, dict) or not (isinstance(following, str) or following in whole) or count not in whole:
        raise ConnectError(f"the offset's {PAGE} is not the position of a page: {page!r:.80}")
    return PagePosition(given, newest, following, count)


def filled(template: str, fields: Mapping[str, Any]) -> str:
    """Return a template with ``${offset.name}`` replaced; an unknown field is replaced by nothing."""

    def put(found: re.Match[str]) -> str:
        value = fields.get(found.group(1))
        return "" if value is None else value if isinstance(value, str) else json.dumps(value)

    return _PLACE.sub(put, template)


def pointed(tree: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901). Raises DataError: nothing is there."""
    for raw in pointer.split("/")[1:] if pointer else ():
        step = raw.replace("~1", "/").replace("~0", "~")
        found = _MISSING
        if isinstance(tree, dict):
            found = tree.get(step, _MISSING)
        elif isinstance(tree, list) and step.isdigit() and int(step) < len(tree):
            found = tree[int(step)]
        if found is _MISSING:
            raise DataError(f"{pointer} points to nothing")
        tree = found
    return tree


def optional_at(tree: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer, None where nothing is."""
    try:
        return pointed(tree, pointer)
    except DataError:
        return None


def records_at(tree: Any, pointer: str) -> list[Any]:
    """Return the records of a page: an array's elements, or the one object. Raises DataError: nothing is there."""
    found = pointed(tree, pointer)
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def reports_error(tree: Any) -> bool:
    """Return whether a body without records reports an error, so that it is not the end of a list."""
    return isinstance(tree, dict) and any(tree.get(name) for name in ("error", "errors"))


def cursor_at(tree: Any, pointer: str) -> str | int | None:
    """Return the next page's address or cursor at a pointer. None: nothing, null, false, 0 or an empty value is there.

    Raises DataError: the value is neither text nor a number, so it is unknown whether there is a next page.
    """
    found = optional_at(tree, pointer) or None
    if found is None or (isinstance(found, str | int) and not isinstance(found, bool)):
        return found
    if isinstance(found, float):
        return json.dumps(found)
    raise DataError(f"{pointer} points to neither the address nor the cursor of a page: {found!r:.80}")


def taken(known: Mapping[str, Any], pointers: Mapping[str, str], record: Any, *, largest: bool) -> dict[str, Any]:
    """Return the offset's values after a record: its own, or the larger ones. Raises DataError: no plain value."""
    values = dict(known)
    for name, pointer in pointers.items():
        value = pointed(record, pointer)
        if value is None or isinstance(value, dict | list):
            raise DataError(f"{pointer} points to a list or an object")
        before = values.get(name)
        try:
            keep = largest and before is not None and before > value
        except TypeError as error:
            raise DataError(f"{value!r} at {pointer} cannot be compared with {before!r}") from error
        values[name] = before if keep else value
    return values
