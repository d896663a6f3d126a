"""Puts the cases to Java's own classes: ``python -m tests.parity.record_data`` rewrites golden/data-*.json.

Needs a JDK in JAVA_HOME (the oracle is one Java source file, run as it is), 19 or newer: older ones write some
floating-point numbers with more digits than needed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.parity import cases_of_converters, cases_of_jaas, cases_of_transforms, cases_of_values
from tests.parity.shared_trees import pack
from tests.support.java_connect import COORDINATES

HERE = Path(__file__).parent
SETS = {
    "data-values": cases_of_values.cases,
    "data-transforms": cases_of_transforms.cases,
    "data-converters": cases_of_converters.cases,
    "data-jaas": cases_of_jaas.cases,
}


def answers(cases: list[dict[str, Any]]) -> list[Any]:
    """Return what Java makes of each case."""
    class_path = os.pathsep.join(map(str, resolve_jars(COORDINATES)))
    command = [str(find_java().executable), "-cp", class_path, str(HERE / "java" / "DataOracle.java")]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[Any] = json.loads(done.stdout)
    return found


def _lines(trees: list[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in trees) + "\n]"


def main(names: list[str]) -> None:
    """Record the sets named, else all."""
    today = dt.datetime.now(dt.UTC).date().isoformat()  # Java tells years of two digits from the day it runs
    for name in names or SETS:
        cases = SETS[name]()
        pairs = [{"case": case, "java": java} for case, java in zip(cases, answers(cases), strict=True)]
        table, packed = pack(pairs)
        head = f'"recorded_from":"Apache Kafka Connect {KAFKA_VERSION}","recorded_on":"{today}"'
        text = f'{{{head},"trees":{_lines(table)},"cases":{_lines(packed)}}}\n'
        (HERE / "golden" / f"{name}-{KAFKA_VERSION}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
