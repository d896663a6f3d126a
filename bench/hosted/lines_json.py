"""Java's FileStreamSource with Java's JsonConverter and its schema in every record."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bench.hosted.plugins import IN_JAVA
from bench.lab import Lab
from bench.report import Result
from bench.source import Input, move, write_input
from bench.turns import all_exact, note_speed, take_turns

TARGET = 1.0
_RECORD = b'{"schema":{"type":"string","optional":false},"payload":"%b"}\n'


def run(lab: Lab, short: bool) -> Result:
    """Have both move the file."""
    given = _as_json(write_input(lab.folder / "hosted-json.txt", 20_000 if short else 3_000_000))
    result = Result(
        "hosted_lines_json", "records/s of FileStreamSource, JSON with schema", "records_per_s", True, f">={TARGET}"
    )
    more = IN_JAVA | {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    take_turns(result, lab, short, lambda who, worker: move(lab, who, worker, given, more), None)
    result.met = (result.ratio or 0) >= TARGET and all_exact(result)
    note_speed(result, lab)
    return result


def _as_json(given: Input) -> Input:
    """Return the input with the digest of what the converter makes of its lines."""
    digest = hashlib.sha256()
    with Path(given.file).open("rb") as handle:
        while lines := handle.readlines(4 << 20):
            digest.update(b"".join(_RECORD % line[:-1] for line in lines))
    return Input(given.file, given.lines, digest.hexdigest())
