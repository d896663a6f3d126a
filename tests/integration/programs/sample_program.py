"""A program that speaks Singer or Airbyte with nothing but the standard library, and misbehaves as its config says.

``--config FILE [--catalog FILE] [--state FILE] [--discover]`` or ``discover|read --config FILE ...``. It counts up
streams of rows ``{"id": n, "name": ...}`` from the state on and says its state every ``state_every`` rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORDS = sys.argv[1:]
AIRBYTE = WORDS[0] in ("discover", "read")


def given(option: str) -> Any:
    return json.loads(Path(WORDS[WORDS.index(option) + 1]).read_text()) if option in WORDS else None


CONFIG = given("--config")
if "rows_file" in CONFIG:
    CONFIG["rows"] = int(Path(CONFIG["rows_file"]).read_text())
STREAMS = {name: {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}} for name in CONFIG["streams"]}


def say(tree: Any) -> None:
    sys.stdout.write(json.dumps(tree) + "\n")


def schema(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": STREAMS[name]}


def discover() -> None:
    if AIRBYTE:
        modes = {"supported_sync_modes": ["full_refresh", "incremental"], "source_defined_cursor": True}
        streams = [
            {"name": name, "json_schema": schema(name), "source_defined_primary_key": [["id"]], **modes}
            for name in STREAMS
        ]
        say({"type": "CATALOG", "catalog": {"streams": streams}})
        return
    print(
        json.dumps(
            {"streams": [{"tap_stream_id": stream, "stream": stream, "schema": schema(stream)} for stream in STREAMS]},
            indent=1,
        )
    )


def wanted() -> list[str]:
    catalog = given("--catalog")["streams"]
    if AIRBYTE:
        return [entry["stream"]["name"] for entry in catalog]
    return [entry["stream"] for entry in catalog if entry["metadata"][0]["metadata"]["selected"]]


def begin() -> dict[str, int]:
    state = given("--state")
    if AIRBYTE:
        found = {
            entry["stream"]["stream_descriptor"]["name"]: entry["stream"]["stream_state"]["id"] for entry in state or ()
        }
    else:
        found = {name: bookmark["id"] for name, bookmark in (state or {}).get("bookmarks", {}).items()}
    return {name: found.get(name, 0) for name in wanted()}


def say_state(at: dict[str, int], name: str) -> None:
    if AIRBYTE:
        part = {"stream_descriptor": {"name": name}, "stream_state": {"id": at[name]}}
        say({"type": "STATE", "state": {"type": "STREAM", "stream": part}})
    else:
        bookmarks = {stream: {"id": number} for stream, number in at.items()}
        say({"type": "STATE", "value": {"bookmarks": bookmarks, "currently_syncing": name}})
    sys.stdout.flush()


def say_row(name: str, number: int) -> None:
    row = {"id": number, "name": f"{name} {number}", **CONFIG.get("more", {}).get(str(number), {})}
    if AIRBYTE:
        say({"type": "RECORD", "record": {"stream": name, "data": row, "emitted_at": 0}})
    else:
        say({"type": "RECORD", "stream": name, "record": row})


def misbehave(number: int) -> None:
    how = CONFIG.get("at", {}).get(str(number))
    once = Path(CONFIG["once"]) if "once" in CONFIG else None
    if how is None or (once is not None and once.exists()):
        return
    sys.stdout.flush()
    if once is not None:
        once.touch()
    if how == "die":
        sys.stderr.write(f"it ends badly, password {CONFIG.get('password')}\n")
        sys.exit(3)
    if how == "killed":
        os.kill(os.getpid(), 9)
    if how == "hang":
        subprocess.Popen(["sleep", "1017"])
        time.sleep(1000)
    if how == "giant":
        sys.stdout.write("{" + "x" * 3_000_000)
    if how in ("config_error", "transient_error"):
        error = {"message": "it does not work", "failure_type": how, "internal_message": f"of {CONFIG.get('password')}"}
        say({"type": "TRACE", "trace": {"type": "ERROR", "emitted_at": 0, "error": error}})
    if how == "garbage":
        sys.stdout.write("this is no message\n")
    if how == "broken":
        sys.stdout.write('{"type": "RECORD", "stream":\n')


def read() -> None:
    at = begin()
    if "pid" in CONFIG:
        Path(CONFIG["pid"]).write_text(str(os.getpid()))
    for name in at:
        if not AIRBYTE:
            say({"type": "SCHEMA", "stream": name, "schema": schema(name), "key_properties": ["id"]})
        for kind, compression, address in CONFIG.get("batches", ()):
            encoding = {"format": kind, "compression": compression}
            say({"type": "BATCH", "stream": name, "encoding": encoding, "manifest": [address]})
        for number in range(at[name] + 1, CONFIG["rows"] + 1):
            misbehave(number)
            say_row(name, number)
            if number % CONFIG.get("state_every", 100) == 0:
                at[name] = number
                say_state(at, name)
            time.sleep(CONFIG.get("pause_s", 0))
        at[name] = max(at[name], CONFIG["rows"])
        say_state(at, name)


if "--discover" in WORDS or WORDS[0] == "discover":
    discover()
else:
    read()
