"""Settings of the HTTP source: the request, the part of the answer that becomes records, and the order of pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.settings_group import number, text
from spark_connect_rt.config.validators import non_empty, one_of
from spark_connect_rt.connectors.http.http_settings import CONNECTION, URL, json_texts

NONE, LINK, NEXT, CURSOR, NUMBER = "none", "link", "next", "cursor", "page"
FOLLOWING = (LINK, NEXT)
NEXT_TYPES: Mapping[str, Any] = {NONE: (), LINK: str, NEXT: str, CURSOR: (str, int), NUMBER: int}
"""The type of a stored next page for each kind of pagination."""


def _pointer(value: Any) -> str | None:
    return None if not value or str(value).startswith("/") else "must be empty or begin with /"


def _statuses(value: Any) -> str | None:
    fits = all(status.isascii() and status.isdigit() and 400 <= int(status) <= 499 for status in value or ())
    return None if fits else "must be HTTP statuses from 400 to 499, separated by commas"


CONFIG = (
    ConfigDef(
        [
            URL,
            text("topic", "Topic that the records are sent to.", REQUIRED, Importance.HIGH, non_empty),
            text("http.method", "GET or POST.", "GET", Importance.MEDIUM, one_of("GET", "POST")),
            text(
                "http.params",
                'Query parameters, as JSON: {"since": "${offset.since}"}. Empty ones are left out.',
                None,
                Importance.HIGH,
                json_texts,
            ),
            ConfigKey(
                "http.post.safe",
                Type.BOOLEAN,
                False,
                Importance.LOW,
                "Whether the POST only reads. If so, previews and checks also send it.",
            ),
            text("http.body", "Body of a POST. It can use ${offset.name} like http.params."),
            text(
                "http.records.pointer",
                "JSON pointer to the array of records, or to the only record.",
                "",
                Importance.HIGH,
                _pointer,
            ),
            text("http.key.pointer", "JSON pointer to the key, within a record.", None, Importance.MEDIUM, _pointer),
            text(
                "http.value",
                "tree: JSON values without a schema. text: the record's JSON as text.",
                "tree",
                Importance.MEDIUM,
                one_of("tree", "text"),
            ),
            text(
                "http.offset.fields",
                'Fields of a record that are stored as its offset, as JSON: {"since": "/updated_at"}.',
                None,
                Importance.HIGH,
                json_texts,
            ),
            text(
                "http.offset.initial",
                "Offset before the first record, as JSON.",
                None,
                Importance.MEDIUM,
                json_texts,
            ),
            text(
                "http.offset.take",
                "Which value is stored. last: that of the last record. max: the largest.",
                "last",
                Importance.LOW,
                one_of("last", "max"),
            ),
            text(
                "http.pagination",
                "none, link (Link header), next (address in the body), cursor, page (number).",
                NONE,
                Importance.HIGH,
                one_of(NONE, LINK, NEXT, CURSOR, NUMBER),
            ),
            text(
                "http.next.pointer",
                "JSON pointer to the address or cursor of the next page.",
                "/next",
                Importance.MEDIUM,
                _pointer,
            ),
            text("http.page.param", "Query parameter for the cursor or the page number.", "page"),
            ConfigKey(
                "http.pagination.end.statuses",
                Type.LIST,
                ("404", "416"),
                Importance.LOW,
                "Statuses with which the service reports that a page does not exist. After the first page they "
                "end the pass, like a response without records.",
                _statuses,
            ),
            ConfigKey("http.page.start", Type.INT, 1, Importance.LOW, "Number of the first page."),
            number("http.poll.interval.ms", "Wait between two passes, ms.", 60_000, 0, Importance.HIGH),
            number("http.request.interval.ms", "Least time between two requests, ms.", 0, 0),
        ]
    )
    + CONNECTION
)


def preview_obstacle(values: Mapping[str, Any]) -> str | None:
    """Return why a preview must not send requests with these settings. None: the requests only read."""
    if values["http.method"] != "POST" or values["http.post.safe"]:
        return None
    return "its POST may change data at the service. Set http.post.safe=true if it only reads"
