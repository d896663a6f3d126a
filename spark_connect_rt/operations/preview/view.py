"""Records of a preview, stage by stage, and the lines of a check. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.console.values import json_text, mapping, number, objects, text

PARTS = ("topic", "partition", "key", "value", "headers", "timestamp", "key_schema", "value_schema")
_SCHEMAS = ("key_schema", "value_schema")
ENDS = {
    "records": "record limit reached",
    "time": "time limit reached",
    "bytes": "size limit reached",
    "nothing more": "no more records",
    "error": "an error",
}


@dataclass(frozen=True, slots=True)
class RecordPart:
    """One part of a record at a stage; ``changed``: the stage before had another."""

    name: str
    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class StageView:
    """A record at one stage; ``dropped``: there is none any more."""

    name: str
    parts: tuple[RecordPart, ...]
    dropped: bool
    error: str


@dataclass(frozen=True, slots=True)
class PreviewPage:
    """The answer of ``POST /admin/preview``; ``records``: each with its stages in order."""

    records: tuple[tuple[StageView, ...], ...]
    ended: str
    error: str
    seconds: float | None


def preview_page(answer: Mapping[str, Any]) -> PreviewPage:
    """Return what a preview found."""
    ended = text(answer.get("ended"))
    return PreviewPage(
        tuple(_stages(item) for item in objects(answer.get("records"))),
        ENDS.get(ended, ended),
        text(answer.get("error")),
        number(answer.get("seconds")),
    )


def _stages(record: Mapping[str, Any]) -> tuple[StageView, ...]:
    found: list[StageView] = []
    before: dict[str, str] = {}
    for item in objects(record.get("stages")):
        shown = _shown(item)
        parts = tuple(
            RecordPart(name, words, bool(found) and _differs(before.get(name), words)) for name, words in shown.items()
        )
        dropped = item.get("record") is None and not item.get("error") and not item.get("bytes")
        found.append(StageView(text(item.get("stage")), parts, dropped, text(item.get("error"))))
        before = before | shown
    return tuple(found)


def _differs(before: str | None, now: str) -> bool:
    """Return whether a part of a record changed: a new part that is null, as a null key's bytes, did not."""
    return before != now and not (before is None and now == "null")


def _shown(stage: Mapping[str, Any]) -> dict[str, str]:
    record = mapping(stage.get("record"))
    shown = {
        name: json_text(record[name]) if isinstance(record[name], Mapping | list) else text(record[name])
        for name in (*PARTS, *(part for part in record if part not in PARTS))
        if name in record and (record[name] is not None or name not in _SCHEMAS)
    }
    shown = {name: words or ("null" if record[name] is None else '""') for name, words in shown.items()}
    for name, coded in mapping(stage.get("bytes")).items():
        shown[f"{name} bytes"] = json_text(coded) if isinstance(coded, list) else bytes_text(coded)
    return shown


def bytes_text(coded: Any) -> str:
    """Return bytes (base64) to read: as text where they are UTF-8 without control characters, else in hexadecimal."""
    if coded is None:
        return "null"
    try:
        data = base64.b64decode(str(coded), validate=True)
    except (binascii.Error, ValueError):
        return str(coded)
    try:
        words = data.decode("utf-8")
    except UnicodeDecodeError:
        words = "\0"
    if all(word.isprintable() or word in "\r\n\t" for word in words):
        return words
    return data.hex(" ")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding of ``POST /admin/check``; ``tone``: ok, warn or bad."""

    check: str
    setting: str
    tone: str
    level: str
    what: str
    change: str


def check_lines(answer: Mapping[str, Any]) -> tuple[CheckFinding, ...]:
    """Return the findings, problems first, then warnings, each in the order of the answer."""
    tones = {"problem": "bad", "warning": "warn", "ok": "ok"}
    lines = []
    for item in objects(answer.get("lines")):
        level = text(item.get("level")) or ("ok" if item.get("ok") else "problem")
        words = (text(item.get("what")), text(item.get("change")))
        lines.append(
            CheckFinding(text(item.get("check")), text(item.get("setting")), tones.get(level, "warn"), level, *words)
        )
    return tuple(sorted(lines, key=lambda line: ("bad", "warn", "ok").index(line.tone)))
