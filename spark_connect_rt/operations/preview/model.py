"""Previews: a connector's records as it would read and convert them, with nothing left behind.

Owns the limits, what is asked, what is answered, and what crosses to the executor that does it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from spark_connect_rt.base.json_text import JsonShape, described, left_out, one_of
from spark_connect_rt.engine.previews.model import Ended


class From(Enum):
    """The position where a preview begins."""

    STORED = "stored"  # where the connector of that name is
    START = "start"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """The request for a preview.

    ``name`` or ``config``, or both: that configuration, from the offsets stored under the name.
    """

    name: str | None = None
    config: Mapping[str, str] | None = None
    records: int = 20
    seconds: float = 30.0
    begin: From = From.STORED
    offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = ()
    put: bool = False


@dataclass(frozen=True, slots=True)
class ShownHeader(JsonShape):
    """One header of a shown record."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class ShownRecord(JsonShape):
    """One record at one stage; key and value as JSON, schemas as JsonConverter's ``schema``."""

    topic: str | None
    partition: int | None
    key: Any
    value: Any
    headers: tuple[ShownHeader, ...]
    timestamp: int | None = field(metadata=described("Milliseconds since 1970."))
    key_schema: Any = None
    value_schema: Any = None
    offset: int | None = field(default=None, metadata=described("Only of a sink's record; null: a source's record."))


@dataclass(frozen=True, slots=True)
class ShownHeaderBytes(JsonShape):
    """The bytes of one header, as base64."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ShownBytes(JsonShape):
    """The bytes that are, or would be, in Kafka: base64, at most 64 KiB of each."""

    key: str | None
    value: str | None
    headers: tuple[ShownHeaderBytes, ...] = ()


@dataclass(frozen=True, slots=True)
class PreviewStage(JsonShape):
    """A record behind one stage."""

    stage: str = field(metadata=described("polled, read, transforms.<alias>, converted or put."))
    record: ShownRecord | None = field(metadata=described("null: the record was dropped here, or failed."))
    bytes: ShownBytes | None = field(default=None, metadata=left_out("Only of the stages read and converted."))
    error: str | None = field(default=None, metadata=left_out("Why the record failed here."))


@dataclass(frozen=True, slots=True)
class PreviewedRecord(JsonShape):
    """One record on its way."""

    stages: tuple[PreviewStage, ...]


@dataclass(frozen=True, slots=True)
class Preview(JsonShape):
    """The records of a preview, and why it stopped."""

    records: tuple[PreviewedRecord, ...]
    ended: str = field(metadata=one_of(member.value for member in Ended))
    error: str | None
    seconds: float


class Previews(Protocol):
    """Previews of any connector of the group, on any of its workers."""

    def preview(self, request: PreviewRequest, cancelled: threading.Event) -> Preview:
        """Return the records. Blocks.

        Raises NotFoundError, BadConfigError, BadRequestError (it cannot be previewed), ConnectError (too many at once,
        offsets or topics cannot be read).
        """
