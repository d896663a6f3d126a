"""Asks Kafka's Java clients: ``python -m tests.parity.record_clients`` rewrites golden/clients-*.json.

The errors of the protocol with whether each is retriable, and what becomes of values of ``bootstrap.servers``. Needs a
JDK in JAVA_HOME (the oracle is one Java source file, run as it is).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.parity.cases_of_addresses import ADDRESSES
from tests.support.java_connect import COORDINATES

HERE = Path(__file__).parent


def main() -> None:
    """Record every error and every address."""
    class_path = os.pathsep.join(map(str, resolve_jars(COORDINATES)))
    command = [str(find_java().executable), "-cp", class_path, str(HERE / "java" / "ClientOracle.java")]
    given = "".join(f"{address}\n" for address in ADDRESSES)
    asked = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if asked.returncode:
        raise SystemExit(asked.stderr)
    lines = [line.split("\t") for line in asked.stdout.splitlines()]
    errors = [[int(code), name, passes == "true"] for kind, code, name, passes in _of_kind(lines, "error")]
    answers = [line for line in lines if line[0] != "error"]
    document = {
        "recorded_from": f"Apache Kafka clients {KAFKA_VERSION}",
        "errors": errors,
        "addresses": [_case(*pair) for pair in zip(ADDRESSES, answers, strict=True)],
    }
    parts = (f'"{name}":{_rows(value)}' for name, value in document.items())
    target = HERE / "golden" / f"clients-{KAFKA_VERSION}.json"
    target.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def _of_kind(lines: list[list[str]], kind: str) -> list[list[str]]:
    return [line for line in lines if line[0] == kind]


def _case(servers: str, answer: list[str]) -> dict[str, object]:
    if answer[0] == "refused":
        return {"servers": servers, "refused": answer[1:]}
    return {
        "servers": servers,
        "addresses": [[address.split(" ")[0], int(address.split(" ")[1])] for address in answer[1:]],
    }


def _rows(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in value) + "\n]"


if __name__ == "__main__":
    main()
