"""HTTP header fields that decide a connector's next step, read by their RFCs. Pure.

Absent and "not understood" are different answers. A field that cannot be read raises DataError, and the caller decides.
So a page without a successor is never confused with a successor that could not be read.
"""

from __future__ import annotations

import codecs
import datetime as dt
import email.message
import email.utils
import json
import re
from collections.abc import Iterator, Mapping

from spark_connect_rt.errors import DataError

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')  # RFC 9110 5.6.4
_PAIR = re.compile(r"\\(.)")
_BLANK = re.compile(r"[ \t]*")
_SECONDS = re.compile(r"[0-9]+")
_MOST_DIGITS = 18
_SHOWN = 120


class _Text:
    """A field's value and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def blanks(self) -> None:
        found = _BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def take(self, character: str) -> bool:
        self.blanks()
        if not self.text.startswith(character, self.at):
            return False
        self.at += len(character)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.blanks()
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    @property
    def over(self) -> bool:
        self.blanks()
        return self.at >= len(self.text)

    def refuse(self, wanted: str) -> DataError:
        return DataError(f"a Link header is invalid: no {wanted} at character {self.at} of {self.text:.{_SHOWN}}")


def links_of(header: str) -> list[tuple[str, Mapping[str, str]]]:
    """Return each target of a Link header with its parameters (RFC 8288 3), names in lower case.

    Several fields joined by commas are one header. A parameter given twice has its first value (RFC 8288 3.3).
    Raises DataError: it is not a Link header.
    """
    text = _Text(header)
    found: list[tuple[str, Mapping[str, str]]] = []
    while not text.over:
        if text.take(","):  # empty elements are allowed (RFC 9110 5.6.1)
            continue
        if not text.take("<"):
            raise text.refuse("<")
        end = text.text.find(">", text.at)
        if end < 0:
            raise text.refuse(">")
        target, text.at = text.text[text.at : end].strip(), end + 1
        parameters: dict[str, str] = {}
        for name, value in _parameters(text):
            parameters.setdefault(name.lower(), value)
        found.append((target, parameters))
        if not text.over and not text.take(","):
            raise text.refuse("comma")
    return found


def _parameters(text: _Text) -> Iterator[tuple[str, str]]:
    while text.take(";"):
        name = text.match(_TOKEN)
        if name is None:  # an empty parameter
            continue
        value = ""
        if text.take("="):
            if quoted := text.match(_QUOTED):
                value = _PAIR.sub(r"\1", quoted.group(1))
            elif token := text.match(_TOKEN):
                value = token.group()
            else:
                raise text.refuse(f"value of {name.group()}")
        yield name.group(), value


def next_target(header: str | None) -> str | None:
    """Return the target whose relation is ``next``; None: the header is absent, or names no such target.

    Relation types are a list of words, without regard to case (RFC 8288 3.3). A link with another context (``anchor``)
    is not about this page. Raises DataError: the header cannot be read.
    """
    for target, parameters in links_of(header or ""):
        if "next" in parameters.get("rel", "").lower().split() and not parameters.get("anchor"):
            return target
    return None


def retry_after_ms(header: str | None, now_s: float) -> int | None:
    """Return the wait that a Retry-After header asks for (RFC 9110 10.2.3), ms; None: it is absent.

    Seconds, or a date in any of HTTP's three forms; a date that has passed is 0. ``now_s``: seconds since the epoch.
    Raises DataError: it is neither.
    """
    if header is None:
        return None
    text = header.strip()
    if _SECONDS.fullmatch(text):
        return int(text[:_MOST_DIGITS]) * 1_000 if len(text) <= _MOST_DIGITS else 10**_MOST_DIGITS
    try:
        moment = email.utils.parsedate_to_datetime(text)
        if moment.tzinfo is None:  # asctime's form has no zone: HTTP's dates are UTC (RFC 9110 5.6.7)
            moment = moment.replace(tzinfo=dt.UTC)
        return max(0, round((moment.timestamp() - now_s) * 1_000))
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise DataError(f"Retry-After: {text[:_SHOWN]!r} is neither a number of seconds nor an HTTP date") from error


def charset_of(content_type: str) -> str:
    """Return the charset that a Content-Type names, UTF-8 where it names none (RFC 9110 8.3.2).

    Raises DataError: there is no such charset.
    """
    header = email.message.Message()
    header["Content-Type"] = content_type
    charset = header.get_content_charset("utf-8")
    try:
        return codecs.lookup(charset).name
    except LookupError as error:
        raise DataError(f"unknown charset {charset}: {content_type!r:.{_SHOWN}}") from error


def json_text(content: bytes, charset: str | None) -> bytes:
    """Return a body of JSON as UTF-8 without a byte order mark.

    ``charset``: of its Content-Type; None: not given. Then its first bytes show it, UTF-8 as a rule (RFC 8259 8.1).
    Raises DataError: the charset is unknown, or the body is not in it.
    """
    encoding = charset or json.detect_encoding(content)
    try:
        if encoding.lower().replace("_", "-") in ("utf-8", "utf8", "us-ascii"):
            return content.removeprefix(b"\xef\xbb\xbf")
        return content.decode(encoding).removeprefix("\ufeff").encode()
    except (LookupError, ValueError) as error:
        raise DataError(f"the body is not valid text of charset {encoding}: {error}") from error
