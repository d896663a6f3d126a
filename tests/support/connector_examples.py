"""The examples of docs/reference/connectors, run in a harness: what they read is made, what they wrote is returned.

On the pages, files are in ``/data``, the web service is ``https://api.example.com``. Here both are of the test.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from spark_connect_rt.app.development.given_records import parse_record
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from spark_connect_rt.testing.sink_harness import SinkHarness
from tools.connector_pages import ConnectorPart

DATA, SERVICE = "/data", "https://api.example.com"
LONGEST_S = 60.0


@dataclass
class Outcome:
    """What an example did, in the form of its page."""

    records: list[Any] = field(default_factory=list)
    offsets: list[Any] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET with the page's inputs, and notes everything else."""

    answers: Mapping[str, str] = {}
    noted: dict[str, str] = {}

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self._answer(self.answers[f"GET {path}"].encode())

    def do_PUT(self) -> None:
        self._note(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def do_DELETE(self) -> None:
        self._note("")

    def _note(self, body: str) -> None:
        self.noted[f"{self.command} {self.path}"] = body
        self._answer(b"{}")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _service(answers: Mapping[str, str], noted: dict[str, str]) -> Iterator[str]:
    """Serve HTTP; yield the address."""
    handler = type("Handler", (_Handler,), {"answers": answers, "noted": noted})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run_example(part: ConnectorPart, folder: Path) -> Outcome:
    """Run the example of a page in an empty folder, which must be the current one and importable.

    Raises what the connector raises; AssertionError: a source is not finished within a minute.
    """
    _write_inputs(part.inputs, folder)
    outcome = Outcome()
    with _service(part.inputs, outcome.results) as service:
        config = {
            name: text.replace(f"{DATA}/", f"{folder}/").replace(SERVICE, service) for name, text in part.config.items()
        }
        connector_class = bundled_plugins().class_of(config["connector.class"])
        if "records.jsonl" in part.inputs:
            with SinkHarness(connector_class, config) as sink:
                for number, line in enumerate(part.inputs["records.jsonl"].splitlines(), 1):
                    record = parse_record(line, config["topics"], f"records.jsonl:{number}")
                    sink.send(record.topic, record.value, key=record.key)
                assert sink.deliver()
                outcome.offsets = [f"{place.topic}-{place.partition}: {at}" for place, at in sink.commit().items()]
                _read_results(part.results, folder, outcome)
        else:
            with SourceHarness(connector_class, config) as source:
                outcome.records = [_shown(record) for record in _polled(source)]
                outcome.offsets = [
                    json.loads(_on_the_page(json.dumps({"partition": partition, "offset": offset}), folder, service))
                    for partition, offset in source.offsets.all()
                ]
    return outcome


def _polled(source: SourceHarness) -> list[ProducedRecord]:
    """Poll until no task returns or expects anything; two empty polls in a row, for tasks that do not say."""
    found: list[ProducedRecord] = []
    end_s, empty = time.monotonic() + LONGEST_S, 0
    while empty < 2 or any(task.has_more() for task in source.tasks):
        assert time.monotonic() < end_s, "the source is not finished"
        polled = source.poll()
        found += polled
        empty = 0 if polled else empty + 1
        if not polled:
            time.sleep(min(0.05, min((task.idle_wait_ms() for task in source.tasks), default=50) / 1000))
    return found


def _shown(record: ProducedRecord) -> Any:
    key, value = (_content(data) for data in (record.key, record.value))
    return {"topic": record.topic, "partition": record.partition, "key": key, "value": value}


def _content(data: bytes | None) -> Any:
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        return (data or b"").decode()


def _on_the_page(text: str, folder: Path, service: str) -> str:
    text = text.replace(str(folder), DATA).replace(service, SERVICE)
    return re.sub(r'("(?:modified|ended_ms|schema\.fingerprint)": )("[^"]*"|\d+)', _example_value, text)


def _example_value(found: re.Match[str]) -> str:
    """Return a fixed value in place of a time or a fingerprint."""
    return found[1] + ('"9684b345841937f6"' if found[2].startswith('"') else "1795791289959")


def _write_inputs(inputs: Mapping[str, str], folder: Path) -> None:
    for name, text in inputs.items():
        if name.startswith("GET "):
            continue
        path = folder / name.removeprefix(f"{DATA}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".db":
            with closing(sqlite3.connect(path)) as database:
                database.executescript(text)
            continue
        path.write_text(text.replace("#!/usr/bin/env python3", f"#!{sys.executable}"))
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def _read_results(wanted: Mapping[str, str], folder: Path, outcome: Outcome) -> None:
    for name in wanted:
        if name.startswith(DATA):
            outcome.results[name] = (folder / name.removeprefix(f"{DATA}/")).read_text()
        elif name.startswith("select "):
            outcome.results[name] = _selected(folder / "shop.db", name)


def _selected(database: Path, statement: str) -> str:
    with closing(sqlite3.connect(database)) as connection:
        cursor = connection.execute(statement)
        names: Sequence[str] = [column[0] for column in cursor.description]
        return "".join(f"{json.dumps(dict(zip(names, row, strict=True)))}\n" for row in cursor)
