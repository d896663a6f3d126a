"""Topics for table sinks in four forms, the settings that read them, and the contents that a table must have then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

import duckdb
import pyarrow as pa
from confluent_kafka import Producer

from bench.lab import Lab
from bench.table_data import NAMES, ROW, rows, struct_of_rows, texts
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.registry.avro_converter import AvroConverter
from tests.support.schema_registry import SchemaRegistry

PIECE = 50_000  # rows that are encoded at once
AVRO_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"
"""Of Java's side."""
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_HOIST = {
    "transforms": "row",
    "transforms.row.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.row.field": "text",
}
_ROW_SQL = (
    'hash("id"::bigint, "customer"::varchar, "region"::varchar, "amount"::double, "rate"::double, "count"::bigint, '
    '"open"::boolean, {at}, "note"::varchar, "version"::bigint)'
)
_TEXT_SQL = "hash(text::varchar)"


@dataclass(frozen=True)
class Contents:
    """The rows of a table: how many, and the sum of the hashes of all rows, whatever their order."""

    rows: int
    hashes: int


@dataclass(frozen=True)
class Given:
    """A filled topic.

    `settings` read it, and `of_side` are those of the sides `java` and `ours` besides. `sql` is the hash of a row in
    DuckDB's words. `contents` is what a table of the topic has.
    """

    form: str
    topic: str
    settings: Mapping[str, str]
    sql: str
    contents: Contents
    of_side: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def contents_of(table: str, sql: str, session: duckdb.DuckDBPyConnection, **named: Any) -> Contents:
    """Return the contents of a table that DuckDB reads. `table`: SQL, with the variables `named`."""
    for name, value in named.items():
        session.register(name, value)
    found = session.sql(f"select count(*), coalesce(sum(({sql})::hugeint), 0) from {table}").fetchone()
    assert found is not None
    return Contents(int(found[0]), int(found[1]))


def fill_topics(lab: Lab, registry: ContentRegistry, text_count: int, row_count: int) -> list[Given]:
    """Fill a topic in each form: texts, JSON without and with schema, Avro."""
    session = duckdb.connect()
    text = texts(text_count)
    given = [
        _fill(
            lab,
            "strings",
            [text.slice(first, PIECE).cast(pa.binary()) for first in range(0, text_count, PIECE)],
            {"value.converter": _STRING, **_HOIST},
            _TEXT_SQL,
            contents_of("given", _TEXT_SQL, session, given=pa.table([text], names=["text"])),
        )
    ]
    columns = rows(row_count)
    table = pa.table(columns, names=list(NAMES))
    values = struct_of_rows(columns)
    converters = row_converters(registry.url)
    avro_settings = {
        "java": {
            "value.converter": AVRO_CONVERTER,
            "value.converter.apicurio.registry.url": f"{registry.url}/apis/registry/v2",
            "value.converter.apicurio.registry.id-handler": "io.apicurio.registry.serde.Legacy4ByteIdHandler",
            "value.converter.apicurio.registry.use-id": "contentId",
        },
        "ours": {
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": registry.url,
        },
    }
    as_moment, as_number = _ROW_SQL.format(at='epoch_ms("at")::bigint'), _ROW_SQL.format(at='"at"::bigint')
    moments = contents_of("given", as_moment, session, given=table)
    numbers = table.set_column(NAMES.index("at"), "at", table["at"].cast(pa.int64()))
    json_settings = {"value.converter": _JSON}
    for form, more, sql, contents, of_side in (
        ("json", {**json_settings, "value.converter.schemas.enable": "false"}, as_number,
         contents_of("given", as_number, session, given=numbers), {}),
        ("json_schema", {**json_settings, "value.converter.schemas.enable": "true"}, as_moment, moments, {}),
        ("avro", {}, as_moment, moments, avro_settings),
    ):  # fmt: skip
        topic = f"{form}-rows"
        converter = converters[form]
        pieces = (encoded(converter, topic, values.slice(first, PIECE)) for first in range(0, row_count, PIECE))
        given.append(_fill(lab, form, pieces, more, sql, contents, of_side))
    return given


def row_converters(registry_url: str) -> Mapping[str, JsonConverter | AvroConverter]:
    """Return the converter of each form that has rows of 10 columns."""
    plain, schema, avro = JsonConverter(), JsonConverter(), AvroConverter()
    plain.configure({"schemas.enable": "false", "converter.type": "value"})
    schema.configure({"schemas.enable": "true", "converter.type": "value"})
    avro.configure({"schema.registry.url": registry_url, "converter.type": "value"})
    return {"json": plain, "json_schema": schema, "avro": avro}


def encoded(converter: JsonConverter | AvroConverter, topic: str, values: pa.Array) -> pa.Array:
    """Return the payloads of rows, as binary."""
    column = converter.column_from_connect_data(topic, ROW, values)
    assert column is not None, "the rows went one by one"
    return column.cast(pa.binary())


def _fill(
    lab: Lab,
    form: str,
    pieces: Iterator[pa.Array] | Sequence[pa.Array],
    settings: Mapping[str, str],
    sql: str,
    contents: Contents,
    of_side: Mapping[str, Mapping[str, str]] | None = None,
) -> Given:
    topic = lab.fresh(f"lake-{form.replace('_', '-')}")
    lab.create_topic(topic)
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "acks": "all", "linger.ms": 20})
    for piece in pieces:
        for value in piece.to_pylist():
            while True:
                try:
                    producer.produce(topic, value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.5)
        producer.poll(0)
    assert producer.flush(120) == 0
    return Given(form, topic, settings, sql, contents, of_side or {})


class ContentRegistry:
    """The schema registry of the tests, which also answers Apicurio's client.

    Confluent's Avro converter is not in Maven Central, and Apicurio's reads the same payloads. It asks for a schema
    by `GET /apis/registry/v2/ids/contentIds/ID`.
    """

    def __init__(self) -> None:
        """Make a registry that does not answer yet."""
        self._registry = SchemaRegistry()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Return the address of both."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        if path.startswith("/apis/"):
            word = path.partition("?")[0].rstrip("/").rpartition("/")[2]
            if word == "references":
                return 200, b"[]"
            status, found = self._registry.shelf.by_id(int(word))
            return status, str(found.get("schema", "")).encode()
        answered = self._registry._answer(method, path, None, body)
        assert answered is not None
        return answered[0], json.dumps(answered[1]).encode()

    def __enter__(self) -> Self:
        self._registry.start()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.answer))
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._registry.stop()


def _handler(answer: Callable[[str, str, Any], tuple[int, bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, data = answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Print no line for a request."""

    return Handler
